//! Weights on disk: a file of safetensors or of PyTorch as a set of named tensors, read one at a time.
//!
//! In: a path. Out: `f32` numbers. Which of the two a file is shows in its first bytes. Refused: a file that is cut short, a
//! header that lies about sizes, a tensor that is missing or of another shape. The file is never held in memory as a whole.
//!
//! A model takes its tensors by name and says at the end which names it knows and leaves alone
//! ([`Checkpoint::finish`]); whatever is left is an error: a tensor is never ignored by accident.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err::File;
use rayon::prelude::*;
use safetensors::Dtype;

use crate::Error;
use crate::safetensors_file::{SCALES, SafetensorsFile};
use crate::weights::{Init, Weights};
use hark_torchfile::TorchFile;
use hark_torchfile::nearest_name;

/// An open checkpoint file, and which of its tensors have been taken.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    content: Content,
    /// Shapes of all tensors, by name.
    shapes: BTreeMap<String, Vec<usize>>,
    taken: RefCell<BTreeSet<String>>,
}

#[derive(Debug)]
enum Content {
    Safetensors(Arc<SafetensorsFile>),
    Torch(Box<TorchFile>),
}

impl Checkpoint {
    /// Opens the file and reads what it says of its tensors.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::Torch`] if that cannot be parsed or does not fit the file's length,
    /// [`Error::Unsupported`] for a file of PyTorch that holds no state dict.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let content = if is_torch(path)? {
            let file = TorchFile::open(path)?;
            check_extent(&file)?;
            Content::Torch(Box::new(file))
        } else {
            Content::Safetensors(Arc::new(SafetensorsFile::open(path)?))
        };
        Ok(Self::new(path, content))
    }

    fn new(path: &Path, content: Content) -> Self {
        let shapes = match &content {
            Content::Safetensors(file) => file
                .metadata()
                .tensors()
                .into_iter()
                .map(|(name, info)| (name, info.shape.clone()))
                .collect(),
            Content::Torch(file) => {
                let tensors = file.tensors().iter();
                tensors
                    .map(|(name, info)| (name.clone(), info.shape.clone()))
                    .collect()
            }
        };
        Self {
            path: path.to_owned(),
            content,
            shapes,
            taken: RefCell::default(),
        }
    }

    /// A safetensors file that is in memory. `path` is what errors name.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn of_bytes(bytes: &'static [u8], path: &Path) -> Result<Self, Error> {
        let file = SafetensorsFile::of_bytes(bytes, path)?;
        Ok(Self::new(path, Content::Safetensors(Arc::new(file))))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All names, in order: of tensors, and of what stands among them in a file of PyTorch and is none.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let others = match &self.content {
            Content::Safetensors(_) => None,
            Content::Torch(file) => Some(file.others().keys()),
        };
        self.shapes
            .keys()
            .chain(others.into_iter().flatten())
            .map(String::as_str)
    }

    /// Names that have not been taken.
    pub fn untaken(&self) -> impl Iterator<Item = &str> {
        let taken = self.taken.borrow();
        let names: Vec<&str> = self.names().filter(|name| !taken.contains(*name)).collect();
        names.into_iter()
    }

    /// Whether the file has a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.shapes.contains_key(name)
    }

    /// What a safetensors file says of itself under a key.
    pub fn header(&self, key: &str) -> Option<&str> {
        match &self.content {
            Content::Safetensors(file) => file.metadata().metadata().as_ref()?.get(key).map(String::as_str),
            Content::Torch(_) => None,
        }
    }

    /// The number of parameters: elements of floating-point tensors.
    pub fn parameters(&self) -> usize {
        match &self.content {
            Content::Safetensors(file) => file
                .metadata()
                .tensors()
                .values()
                .filter(|info| matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::I8))
                .map(|info| info.shape.iter().product::<usize>())
                .sum(),
            Content::Torch(file) => file
                .tensors()
                .values()
                .filter(|info| info.dtype.is_float())
                .map(hark_torchfile::TensorInfo::elements)
                .sum(),
        }
    }

    /// The shape of a tensor.
    ///
    /// # Errors
    /// [`Error::MissingTensor`].
    pub fn shape(&self, name: &str) -> Result<&[usize], Error> {
        match self.shapes.get(name) {
            Some(shape) => Ok(shape),
            None => Err(Error::MissingTensor {
                path: self.path.clone(),
                name: name.to_owned(),
                nearest: nearest_name(self.names(), name),
            }),
        }
    }

    /// That the file has a tensor of this name and shape.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] or [`Error::Shape`].
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<(), Error> {
        let got = self.shape(name)?;
        if got != shape {
            return Err(Error::Shape {
                path: self.path.clone(),
                name: name.to_owned(),
                expected: shape.to_vec(),
                got: got.to_vec(),
            });
        }
        Ok(())
    }

    /// Takes a tensor as numbers.
    ///
    /// # Errors
    /// If the tensor is missing, of another shape, or not of floating point.
    pub fn take(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        self.check(name, shape)?;
        let numbers = match &self.content {
            Content::Safetensors(file) => file.numbers(name)?,
            Content::Torch(file) => file.read_f32(name)?,
        };
        self.mark(name, shape)?;
        Ok(numbers)
    }

    /// Takes many tensors, side by side where the file allows it: copying them and clearing memory for them is most of what loading
    /// costs.
    ///
    /// # Errors
    /// As [`Checkpoint::take`].
    pub fn take_all(&self, tensors: &[(String, Vec<usize>)]) -> Result<Vec<Vec<f32>>, Error> {
        let Content::Safetensors(file) = &self.content else {
            return tensors
                .iter()
                .map(|(name, shape)| self.take(name, shape))
                .collect();
        };
        for (name, shape) in tensors {
            self.check(name, shape)?;
            self.mark(name, shape)?;
        }
        tensors.par_iter().map(|(name, _)| file.numbers(name)).collect()
    }

    /// Notes that a tensor was taken, with the scales of its rows, if it has such.
    fn mark(&self, name: &str, shape: &[usize]) -> Result<(), Error> {
        let scales = format!("{name}{SCALES}");
        let mut taken = self.taken.borrow_mut();
        if matches!(self.content, Content::Safetensors(_)) && self.contains(&scales) {
            self.check(&scales, &shape[..shape.len().min(1)])?;
            taken.insert(scales);
        }
        taken.insert(name.to_owned());
        Ok(())
    }

    /// Counts a tensor as taken that stays in the file.
    ///
    /// # Errors
    /// If the tensor is missing or of another shape.
    pub(crate) fn leave(&self, name: &str, shape: &[usize]) -> Result<(), Error> {
        self.check(name, shape)?;
        self.mark(name, shape)
    }

    /// The open file, if it is one of safetensors.
    pub(crate) fn safetensors(&self) -> Option<Arc<SafetensorsFile>> {
        match &self.content {
            Content::Safetensors(file) => Some(Arc::clone(file)),
            Content::Torch(_) => None,
        }
    }

    /// Ends loading: everything in the file must have been taken, but for names that begin with one of `known_unused`.
    ///
    /// # Errors
    /// [`Error::UnexpectedTensors`] with the names that are left.
    pub fn finish(self, known_unused: &[&str]) -> Result<(), Error> {
        let known = |name: &&str| known_unused.iter().any(|prefix| name.starts_with(prefix));
        let names: Vec<String> = self
            .untaken()
            .filter(|name| !known(name))
            .map(ToOwned::to_owned)
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(Error::UnexpectedTensors {
            path: self.path,
            names,
        })
    }
}

/// That a file of PyTorch does not claim far more numbers than it holds. Tensors may share what is stored, as tied weights
/// do, and one may even repeat a single number over and over; a model does not live of that.
fn check_extent(file: &TorchFile) -> Result<(), Error> {
    const SHARED: u64 = 4;
    const SLACK: u64 = 1 << 24;
    let length = fs_err::metadata(file.path())?.len();
    let claimed = file
        .tensors()
        .values()
        .map(|info| (info.elements() as u64).saturating_mul(info.dtype.size()))
        .fold(0_u64, u64::saturating_add);
    if claimed > length.saturating_mul(SHARED).saturating_add(SLACK) {
        return Err(Error::Torch(hark_torchfile::Error::Damaged {
            path: file.path().to_owned(),
            what: format!("its tensors have {claimed} bytes, and the file only {length}"),
        }));
    }
    Ok(())
}

/// Whether a file is one of PyTorch, by how it begins (a zip archive, or the pickle of the older form) or by its name. A
/// safetensors file begins with the length of its header, and then a brace.
fn is_torch(path: &Path) -> Result<bool, Error> {
    let mut start = Vec::new();
    File::open(path)?.take(9).read_to_end(&mut start)?;
    if start.starts_with(b"PK\x03\x04") || start.starts_with(b"\x80\x02\x8a") {
        return Ok(true);
    }
    let named = path.extension().is_some_and(|ending| {
        ["pt", "pth", "ckpt", "bin"]
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    });
    Ok(named && start.get(8) != Some(&b'{'))
}

impl Weights for Checkpoint {
    fn numbers(&self, name: &str, shape: &[usize], _: Init) -> Result<Vec<f32>, Error> {
        self.take(name, shape)
    }
}
