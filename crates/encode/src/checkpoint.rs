//! Weights on disk: a file of safetensors or of PyTorch as a set of named tensors, read one at a time.
//!
//! In: a path. Out: `f32` numbers (`F16` and `BF16` are widened, `I8` multiplied by the scales beside it). Which of the two a file is shows in its first bytes.
//! Refused: a file that is cut short, a header that lies about sizes, a tensor that is missing or of another shape. The file
//! is never held in memory as a whole, so that loading costs the model's own size and one tensor more.
//!
//! A model takes its tensors by name and says at the end which names it knows and leaves alone
//! ([`Checkpoint::finish`]); whatever is left is an error: a tensor is never ignored by accident.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use fs_err::File;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::Error;
use crate::weights::{Init, Weights};
use hark_torchfile::TorchFile;
use hark_torchfile::nearest_name;

/// The header of a safetensors file may not be longer than this; the format's own limit.
const MAX_HEADER: u64 = 100_000_000;
/// `NAME` of 8-bit integers has the factors of its rows, along its first dimension, in `NAME.scales`.
const SCALES: &str = ".scales";

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
    Safetensors(Safetensors),
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
            Content::Safetensors(Safetensors::open(path)?)
        };
        Ok(Self::new(path, content))
    }

    fn new(path: &Path, content: Content) -> Self {
        let shapes = match &content {
            Content::Safetensors(file) => file
                .metadata
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
        let source = Source::Memory(Cursor::new(bytes));
        let file = Safetensors::read_header(source, bytes.len() as u64, path)?;
        Ok(Self::new(path, Content::Safetensors(file)))
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
            Content::Safetensors(file) => file.metadata.metadata().as_ref()?.get(key).map(String::as_str),
            Content::Torch(_) => None,
        }
    }

    /// The number of parameters: elements of floating-point tensors.
    pub fn parameters(&self) -> usize {
        match &self.content {
            Content::Safetensors(file) => file
                .metadata
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
            Content::Safetensors(file) => file.read(&self.path, name)?,
            Content::Torch(file) => file.read_f32(name)?,
        };
        let numbers = self.scaled(name, numbers)?;
        self.taken.borrow_mut().insert(name.to_owned());
        Ok(numbers)
    }

    /// A tensor's numbers times the scales of its rows, where the file has such: 8-bit tensors do.
    fn scaled(&self, name: &str, mut numbers: Vec<f32>) -> Result<Vec<f32>, Error> {
        let scales = format!("{name}{SCALES}");
        let (Content::Safetensors(file), true) = (&self.content, self.contains(&scales)) else {
            return Ok(numbers);
        };
        let rows = self.shape(name)?.first().copied().unwrap_or(1);
        self.check(&scales, &[rows])?;
        let factors = file.read(&self.path, &scales)?;
        self.taken.borrow_mut().insert(scales);
        let row = numbers.len() / rows.max(1);
        for (row, factor) in numbers.chunks_exact_mut(row.max(1)).zip(factors) {
            for number in row {
                *number *= factor;
            }
        }
        Ok(numbers)
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

/// Where a safetensors file is read from.
#[derive(Debug)]
enum Source {
    Disk(File),
    Memory(Cursor<&'static [u8]>),
}

impl Source {
    fn read_at(&mut self, start: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        match self {
            Self::Disk(file) => {
                file.seek(SeekFrom::Start(start))?;
                file.read_exact(bytes)
            }
            Self::Memory(file) => {
                file.set_position(start);
                file.read_exact(bytes)
            }
        }
    }

    /// The numbers of `length` bytes from `start` on, `N` bytes each. The header has been checked, so that nothing remains. Bytes are
    /// read piece by piece, so that they pass through the cache and not through memory.
    fn numbers<const N: usize>(
        &mut self,
        start: u64,
        length: usize,
        number: impl Fn([u8; N]) -> f32,
    ) -> Result<Vec<f32>, Error> {
        let mut piece = vec![0_u8; PIECE.min(length)];
        let mut numbers = Vec::with_capacity(length / N);
        for done in (0..length).step_by(PIECE) {
            let bytes = &mut piece[..PIECE.min(length - done)];
            self.read_at(start + done as u64, bytes)?;
            numbers.extend(bytes.as_chunks::<N>().0.iter().map(|&bytes| number(bytes)));
        }
        Ok(numbers)
    }
}

/// Bytes of a tensor that are read at a time.
const PIECE: usize = 1 << 18;

/// An open safetensors file.
#[derive(Debug)]
struct Safetensors {
    file: RefCell<Source>,
    /// Where the tensor data begins in the file.
    data_start: u64,
    metadata: Metadata,
}

impl Safetensors {
    fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Self::read_header(Source::Disk(file), length, path)
    }

    fn read_header(mut file: Source, length: u64, path: &Path) -> Result<Self, Error> {
        let damaged = |what: String| Error::Damaged {
            path: path.to_owned(),
            what,
        };
        let mut prefix = [0_u8; 8];
        if length < 8 {
            return Err(damaged(format!("{length} bytes")));
        }
        file.read_at(0, &mut prefix)?;
        let header_length = u64::from_le_bytes(prefix);
        if header_length > MAX_HEADER || header_length.saturating_add(8) > length {
            return Err(damaged(format!(
                "a header of {header_length} bytes in a file of {length}"
            )));
        }
        let mut header = vec![0_u8; header_length as usize];
        file.read_at(8, &mut header)?;
        // Deserialising checks that the tensors' extents follow each other and fit their shapes.
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|e| damaged(e.to_string()))?;
        let data_start = 8 + header_length;
        let expected = data_start + metadata.data_len() as u64;
        if length != expected {
            return Err(damaged(format!("{length} bytes, the header says {expected}")));
        }
        Ok(Self {
            file: RefCell::new(file),
            data_start,
            metadata,
        })
    }

    fn read(&self, path: &Path, name: &str) -> Result<Vec<f32>, Error> {
        let Some(TensorInfo {
            dtype, data_offsets, ..
        }) = self.metadata.info(name)
        else {
            return Ok(Vec::new());
        };
        let (start, end) = *data_offsets;
        let place = self.data_start + start as u64;
        let file = &mut *self.file.borrow_mut();
        match dtype {
            Dtype::F32 => file.numbers(place, end - start, f32::from_le_bytes),
            Dtype::F16 => file.numbers(place, end - start, |b| half::f16::from_le_bytes(b).to_f32()),
            Dtype::BF16 => file.numbers(place, end - start, |b| half::bf16::from_le_bytes(b).to_f32()),
            Dtype::I8 => file.numbers(place, end - start, |b| f32::from(i8::from_le_bytes(b))),
            other => Err(Error::Unsupported {
                path: path.to_owned(),
                what: format!("tensor `{name}` of type {other:?}"),
                supported: "F32, F16, BF16, I8",
            }),
        }
    }
}

impl Weights for Checkpoint {
    fn numbers(&self, name: &str, shape: &[usize], _: Init) -> Result<Vec<f32>, Error> {
        self.take(name, shape)
    }
}
