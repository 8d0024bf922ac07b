//! Weights as PyTorch saves them: `.pt`, `.pth` and `.ckpt` files as a set of named tensors, read one at a time.
//!
//! In: a path. Out: the tensors of the model's state dict by the names that the file has, as `f32` in row-major order
//! whatever the strides in the file are (`float16`, `bfloat16` and `float64` are converted). The state dict is looked
//! for where training programs put it ([`PARTS`]); tensors elsewhere, such as an optimiser's, are never read.
//!
//! A file of PyTorch holds a pickle, which for Python is a program that may do anything. Here it is data: nothing in
//! it is run or imported. Objects of classes that mean nothing here, such as a checkpoint's callbacks and settings, are
//! passed over, and are an error only where a tensor is wanted.
//!
//! Refused: a damaged file, a model that was saved as a whole object, TorchScript, tensors that are sparse or
//! quantised, and numbers that are not of floating point. The file is never held in memory as a whole.

mod container;
mod dtype;
mod error;
mod legacy;
mod pickle;
mod value;
mod view;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use half::{bf16, f16};

use container::{Container, Place};
pub use dtype::Dtype;
use value::{Id, Pickle, TensorRecord, Value, shortened};
use view::View;

pub use error::{Error, nearest_name};

/// The entries of a checkpoint that can hold the state dict; the first that does is taken.
pub const PARTS: [&str; 5] = ["state_dict", "model", "model_state_dict", "module", "net"];

/// The most entries of a state dict.
const MAX_ENTRIES: usize = 1 << 18;

/// What is read, for an error about what is not.
const SUPPORTED: &str = "a state dict as torch.save writes it, alone, first in a tuple, or in a dictionary \
     under state_dict, model, model_state_dict, module or net";
/// The element types that are read, for an error about another.
const SUPPORTED_TYPES: &str = "torch.float32, torch.float16, torch.bfloat16, torch.float64";

fn damaged(path: &Path, what: String) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        what,
    }
}

fn unsupported(path: &Path, what: String) -> Error {
    Error::Unsupported {
        path: path.to_owned(),
        what,
        supported: SUPPORTED,
    }
}

/// A tensor of the file.
#[derive(Debug, Clone)]
pub struct TensorInfo {
    /// The size of each dimension; none for a single number.
    pub shape: Vec<usize>,
    /// The type of the elements in the file.
    pub dtype: Dtype,
    view: View,
    place: Place,
}

impl TensorInfo {
    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.view.elements()
    }
}

/// An open PyTorch file.
#[derive(Debug)]
pub struct TorchFile {
    path: PathBuf,
    container: RefCell<Container>,
    tensors: BTreeMap<String, TensorInfo>,
    others: BTreeMap<String, String>,
}

impl TorchFile {
    /// Opens the file, finds the state dict, and checks that each of its tensors is there as a whole.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the file is cut short or contradicts itself, [`Error::Unsupported`] if it is of a
    /// kind that is not read or has no state dict; the message then says what it has.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let (mut container, pickle) = Container::open(path)?;
        let entries = state_dict(path, &pickle)?;
        if entries.len() > MAX_ENTRIES {
            return Err(unsupported(
                path,
                format!("a state dict of {} entries", entries.len()),
            ));
        }
        let mut tensors = BTreeMap::new();
        let mut others = BTreeMap::new();
        for (key, value) in entries {
            let Some(name) = pickle.text(*key) else {
                // Such an entry cannot be asked for by a name, and is shown for what it is.
                others.insert(format!("({})", pickle.describe(*key)), pickle.describe(*value));
                continue;
            };
            if tensors.contains_key(name) || others.contains_key(name) {
                return Err(damaged(
                    path,
                    format!("the name `{}` is there twice", shortened(name)),
                ));
            }
            match pickle.get(*value) {
                Value::Tensor(record) if !record.altered => {
                    let info = tensor_info(path, &mut container, &pickle, name, record)?;
                    tensors.insert(name.to_owned(), info);
                }
                Value::Tensor(_) => {
                    others.insert(name.to_owned(), "a tensor to be conjugated or negated".to_owned());
                }
                _ => {
                    others.insert(name.to_owned(), pickle.describe(*value));
                }
            }
        }
        Ok(Self {
            path: path.to_owned(),
            container: RefCell::new(container),
            tensors,
            others,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tensors of the state dict, by the names that the file has.
    pub fn tensors(&self) -> &BTreeMap<String, TensorInfo> {
        &self.tensors
    }

    /// The entries of the state dict that are no tensors that could be read, and what each is.
    pub fn others(&self) -> &BTreeMap<String, String> {
        &self.others
    }

    /// Reads a tensor in row-major order.
    ///
    /// # Errors
    /// [`Error::MissingTensor`]; [`Error::Unsupported`] if the entry is something else than a tensor of floating
    /// point, with its class or type; [`Error::Damaged`] or [`Error::Io`] if its bytes cannot be read.
    pub fn read_f32(&self, name: &str) -> Result<Vec<f32>, Error> {
        let info = self.find(name)?;
        let Some(decode) = decoder(info.dtype) else {
            return Err(Error::Unsupported {
                path: self.path.clone(),
                what: format!("tensor `{name}` of type {}", info.dtype),
                supported: SUPPORTED_TYPES,
            });
        };
        let size = info.dtype.size();
        let (start, length) = info.view.extent();
        let mut numbers = Vec::with_capacity(length);
        // The view lies within its storage, whose bytes have been counted: neither product can overflow.
        self.container
            .borrow_mut()
            .read(info.place, start * size, length as u64 * size, &mut |block| {
                decode(block, &mut numbers);
            })?;
        Ok(info.view.gather(numbers))
    }

    fn find(&self, name: &str) -> Result<&TensorInfo, Error> {
        if let Some(info) = self.tensors.get(name) {
            return Ok(info);
        }
        Err(match self.others.get(name) {
            Some(what) => unsupported(&self.path, format!("{what} as tensor `{name}`")),
            None => Error::MissingTensor {
                path: self.path.clone(),
                name: name.to_owned(),
                nearest: nearest_name(self.tensors.keys().map(String::as_str), name),
            },
        })
    }
}

/// The entries of the state dict, wherever in the file it is.
fn state_dict<'a>(path: &Path, pickle: &'a Pickle) -> Result<&'a [(Id, Id)], Error> {
    let mut object = pickle.root();
    // Training programs save a tuple: the model, then the optimiser.
    if let Some(first) = pickle.items(object).and_then(<[Id]>::first) {
        object = *first;
    }
    let Some(entries) = pickle.dict(object) else {
        return Err(unsupported(path, pickle.describe(object)));
    };
    let parts = || PARTS.iter().filter_map(|part| pickle.entry(object, part));
    if let Some(dict) = parts()
        .filter_map(|part| pickle.dict(part))
        .find(|d| has_tensors(pickle, d))
    {
        return Ok(dict);
    }
    if has_tensors(pickle, entries) {
        return Ok(entries);
    }
    // A whole model that was saved as an object, for instance.
    Err(match parts().next() {
        Some(part) => unsupported(
            path,
            format!(
                "{} without tensors in place of a state dict",
                pickle.describe(part)
            ),
        ),
        None => unsupported(path, "a dictionary without tensors".into()),
    })
}

fn has_tensors(pickle: &Pickle, entries: &[(Id, Id)]) -> bool {
    entries
        .iter()
        .any(|(key, value)| pickle.text(*key).is_some() && matches!(pickle.get(*value), Value::Tensor(_)))
}

fn tensor_info(
    path: &Path,
    container: &mut Container,
    pickle: &Pickle,
    name: &str,
    record: &TensorRecord,
) -> Result<TensorInfo, Error> {
    let shown = shortened(name);
    let sizes = |id: Id, what: &str| -> Result<Vec<u64>, Error> {
        // More dimensions than a view may have are not worth reading.
        let items = pickle.items(id).unwrap_or_default().iter().take(100);
        let sizes = items.map(|item| pickle.count(*item)).collect::<Option<_>>();
        sizes
            .filter(|_| pickle.items(id).is_some())
            .ok_or_else(|| damaged(path, format!("tensor `{shown}` has {what} that are no counts")))
    };
    let shape = sizes(record.shape, "sizes")?;
    let strides = sizes(record.strides, "strides")?;
    let Some(offset) = pickle.count(record.offset) else {
        return Err(damaged(
            path,
            format!("tensor `{shown}` has an offset that is no count"),
        ));
    };
    let key = pickle.text(record.storage.key).unwrap_or_default();
    let place = container.place(&record.storage, key)?;
    // A tensor may see its storage as elements of another size than the storage does.
    let bytes = record.storage.count.saturating_mul(record.storage.dtype.size());
    let view = View::new(offset, &shape, &strides, bytes / record.dtype.size())
        .map_err(|error| damaged(path, format!("tensor `{shown}`: {error}")))?;
    Ok(TensorInfo {
        shape: view.shape().to_vec(),
        dtype: record.dtype,
        view,
        place,
    })
}

/// Adds a block's elements to a list of numbers.
type Decode = fn(&[u8], &mut Vec<f32>);

/// How elements of this type become numbers, if they are of floating point.
fn decoder(dtype: Dtype) -> Option<Decode> {
    Some(match dtype {
        Dtype::F32 => |block, to| to.extend(chunks(block).map(f32::from_le_bytes)),
        Dtype::F16 => |block, to| to.extend(chunks(block).map(|b| f16::from_le_bytes(b).to_f32())),
        Dtype::BF16 => |block, to| to.extend(chunks(block).map(|b| bf16::from_le_bytes(b).to_f32())),
        Dtype::F64 => |block, to| to.extend(chunks(block).map(|b| f64::from_le_bytes(b) as f32)),
        _ => return None,
    })
}

/// The bytes of a block, `N` at a time; blocks hold whole elements.
fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}
