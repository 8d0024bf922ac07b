//! Weights on disk: a safetensors file as a set of named tensors, read one at a time.
//!
//! In: a path. Out: `f32` tensors on a device (`F16` and `BF16` are widened). Refused: a file that is cut short, a
//! header that lies about sizes, a tensor that is missing or of another shape. The file is never held in memory as a
//! whole, so that loading costs the model's own size and one tensor more.
//!
//! A model takes its tensors by name and says at the end which names it knows and leaves alone
//! ([`Checkpoint::finish`]); whatever is left is an error: a tensor is never ignored by accident.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use burn::module::Param;
use burn::nn::{LayerNorm, LayerNormConfig, Linear};
use burn::tensor::{Device, Tensor, TensorData};
use fs_err::File;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::Error;

/// The header of a safetensors file may not be longer than this; the format's own limit.
const MAX_HEADER: u64 = 100_000_000;

/// An open safetensors file, and which of its tensors have been taken.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    file: RefCell<File>,
    /// Where the tensor data begins in the file.
    data_start: u64,
    metadata: Metadata,
    taken: RefCell<BTreeSet<String>>,
}

impl Checkpoint {
    /// Opens the file and reads its header.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the header cannot be parsed or the file is not exactly as long as the header says.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let damaged = |what: String| Error::Damaged {
            path: path.to_owned(),
            what,
        };
        let mut prefix = [0_u8; 8];
        if length < 8 {
            return Err(damaged(format!("{length} bytes")));
        }
        file.read_exact(&mut prefix)?;
        let header_length = u64::from_le_bytes(prefix);
        if header_length > MAX_HEADER || header_length.saturating_add(8) > length {
            return Err(damaged(format!(
                "a header of {header_length} bytes in a file of {length}"
            )));
        }
        let mut header = vec![0_u8; header_length as usize];
        file.read_exact(&mut header)?;
        // Deserialising checks that the tensors' extents follow each other and fit their shapes.
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|e| damaged(e.to_string()))?;
        let data_start = 8 + header_length;
        let expected = data_start + metadata.data_len() as u64;
        if length != expected {
            return Err(damaged(format!("{length} bytes, the header says {expected}")));
        }
        Ok(Self {
            path: path.to_owned(),
            file: RefCell::new(file),
            data_start,
            metadata,
            taken: RefCell::default(),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file has a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.metadata.info(name).is_some()
    }

    /// The number of parameters (elements of floating-point tensors).
    pub fn parameters(&self) -> usize {
        let floating = |info: &&TensorInfo| matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16);
        self.metadata
            .tensors()
            .values()
            .map(|info| &**info)
            .filter(floating)
            .map(elements)
            .sum()
    }

    /// That the file has a tensor of this name and shape.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] or [`Error::Shape`].
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo, Error> {
        let Some(info) = self.metadata.info(name) else {
            return Err(Error::MissingTensor {
                path: self.path.clone(),
                name: name.to_owned(),
                nearest: self.nearest(name),
            });
        };
        if info.shape != shape {
            return Err(Error::Shape {
                path: self.path.clone(),
                name: name.to_owned(),
                expected: shape.to_vec(),
                got: info.shape.clone(),
            });
        }
        Ok(info)
    }

    /// Takes a tensor as numbers.
    ///
    /// # Errors
    /// If the tensor is missing, of another shape, or not of floating point.
    pub fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let info = self.check(name, shape)?;
        let (start, end) = info.data_offsets;
        let mut bytes = vec![0_u8; end - start];
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(self.data_start + start as u64))?;
        file.read_exact(&mut bytes)?;
        let numbers = match info.dtype {
            Dtype::F32 => chunks(&bytes).map(f32::from_le_bytes).collect(),
            Dtype::F16 => chunks(&bytes)
                .map(|b| half::f16::from_le_bytes(b).to_f32())
                .collect(),
            Dtype::BF16 => chunks(&bytes)
                .map(|b| half::bf16::from_le_bytes(b).to_f32())
                .collect(),
            other => {
                return Err(Error::Unsupported {
                    path: self.path.clone(),
                    what: format!("tensor `{name}` of type {other:?}"),
                    supported: "F32, F16, BF16",
                });
            }
        };
        self.taken.borrow_mut().insert(name.to_owned());
        Ok(numbers)
    }

    /// Takes a tensor as a parameter.
    ///
    /// # Errors
    /// As [`Checkpoint::numbers`].
    pub fn parameter<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        device: &Device,
    ) -> Result<Param<Tensor<D>>, Error> {
        let data = TensorData::new(self.numbers(name, &shape)?, shape);
        Ok(Param::from_tensor(Tensor::from_data(data, device)))
    }

    /// Takes `PREFIX.weight` (`[output, input]`, as PyTorch stores it) and `PREFIX.bias` of one or more linear layers
    /// with the same input, stacked along the output: three projections become one matrix product.
    ///
    /// # Errors
    /// As [`Checkpoint::numbers`].
    pub fn linear(
        &self,
        prefixes: &[&str],
        input: usize,
        output: usize,
        device: &Device,
    ) -> Result<Linear, Error> {
        let mut parts = Vec::with_capacity(prefixes.len());
        let mut bias = Vec::new();
        for prefix in prefixes {
            parts.push(self.numbers(&format!("{prefix}.weight"), &[output, input])?);
            bias.extend(self.numbers(&format!("{prefix}.bias"), &[output])?);
        }
        // Stored as [input, output]: the layout that the matrix product reads along its rows.
        let total = output * prefixes.len();
        let mut weight = vec![0.0_f32; input * total];
        for (nth, rows) in parts.iter().enumerate() {
            for (o, row) in rows.chunks_exact(input).enumerate() {
                for (i, &value) in row.iter().enumerate() {
                    weight[i * total + nth * output + o] = value;
                }
            }
        }
        let weight = Tensor::from_data(TensorData::new(weight, [input, total]), device);
        let bias = Tensor::from_data(TensorData::new(bias, [total]), device);
        Ok(Linear {
            weight: Param::from_tensor(weight),
            bias: Some(Param::from_tensor(bias)),
        })
    }

    /// Takes `PREFIX.weight` and `PREFIX.bias` of a layer norm.
    ///
    /// # Errors
    /// As [`Checkpoint::numbers`].
    pub fn layer_norm(
        &self,
        prefix: &str,
        width: usize,
        epsilon: f64,
        device: &Device,
    ) -> Result<LayerNorm, Error> {
        let mut norm = LayerNormConfig::new(width).with_epsilon(epsilon).init(device);
        norm.gamma = self.parameter(&format!("{prefix}.weight"), [width], device)?;
        norm.beta = Some(self.parameter(&format!("{prefix}.bias"), [width], device)?);
        Ok(norm)
    }

    /// Ends loading: everything in the file must have been taken, but for names that begin with one of `known_unused`.
    ///
    /// # Errors
    /// [`Error::UnexpectedTensors`] with the names that are left.
    pub fn finish(self, known_unused: &[&str]) -> Result<(), Error> {
        let taken = self.taken.into_inner();
        let mut names: Vec<String> = self
            .metadata
            .tensors()
            .into_keys()
            .filter(|name| {
                !taken.contains(name) && !known_unused.iter().any(|prefix| name.starts_with(prefix))
            })
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        names.sort();
        Err(Error::UnexpectedTensors {
            path: self.path,
            names,
        })
    }

    /// For an error: the stored name with the longest common ending, which shows a prefix that differs.
    fn nearest(&self, wanted: &str) -> String {
        let common = |name: &str| {
            name.bytes()
                .rev()
                .zip(wanted.bytes().rev())
                .take_while(|(a, b)| a == b)
                .count()
        };
        let names = self.metadata.tensors().into_keys();
        names
            .max_by_key(|name| common(name))
            .map_or_else(|| "no tensors".to_owned(), |name| format!("`{name}`"))
    }
}

fn elements(info: &TensorInfo) -> usize {
    info.shape.iter().product()
}

/// The file's bytes, `N` at a time; the header has been checked, so nothing remains.
fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}
