//! A network's tensors by name: written to safetensors and read back, whatever the network is.
//!
//! A tensor's name is the path of fields that leads to it, `audio.tower.transformer.blocks.0.expand.weight`; which of the
//! registered towers it is does not show in it. Layouts are ours: linear layers are `[input, output]`, and
//! query, key and value are one. Reading fills a network that was built [blank](crate::weights::ZeroInit): every tensor must be
//! in the file with its shape, and everything in the file must be a tensor of the network.
//!
//! A training finds gradients and changes parameters by the same names ([`gradients`], [`update_tensors`], [`freeze`]): Burn's own
//! ids of parameters are new in every process.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use rayon::prelude::*;
use safetensors::{Dtype, View};

use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::safetensors_file::SafetensorsFile;
use crate::tensors::numbers;

/// Key and value in the file's own header by which a file of this form is known.
pub(crate) const FORMAT: (&str, &str) = ("format", "hark model 1");

/// Goes through a network's parameters with their names.
#[derive(Default)]
struct Names {
    path: Vec<String>,
}

impl Names {
    fn enter(&mut self, name: &str, container: &str) {
        if !container.starts_with("Enum:") {
            self.path.push(name.to_owned());
        }
    }

    fn exit(&mut self, container: &str) {
        if !container.starts_with("Enum:") {
            self.path.pop();
        }
    }

    fn name(&self) -> String {
        self.path.join(".")
    }
}

/// A parameter of a network.
pub struct NamedTensor<'a> {
    /// The path of fields that leads to it.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers, read out when they are asked for.
    pub numbers: Box<dyn Fn() -> Vec<f32> + 'a>,
}

/// All parameters of a network.
pub fn parameters(module: &impl Module) -> Vec<NamedTensor<'static>> {
    struct Gather {
        names: Names,
        stored: Vec<NamedTensor<'static>>,
    }
    impl ModuleVisitor for Gather {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.names.enter(name, container);
        }
        fn exit_module(&mut self, _: &str, container: &str) {
            self.names.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let tensor = param.val().inner();
            self.stored.push(NamedTensor {
                name: self.names.name(),
                shape: tensor.dims().to_vec(),
                numbers: Box::new(move || numbers(tensor.clone())),
            });
        }
    }
    let mut gather = Gather {
        names: Names::default(),
        stored: Vec::new(),
    };
    module.visit(&mut gather);
    gather.stored
}

// Bytes are made when they are written, one tensor at a time.
impl View for &NamedTensor<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        let numbers = (self.numbers)();
        let mut bytes = Vec::with_capacity(numbers.len() * 4);
        for number in numbers {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        Cow::Owned(bytes)
    }
    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * 4
    }
}

/// Writes all tensors of a network. The file is written in place: the caller sees to it that nobody reads it before.
///
/// # Errors
/// If it cannot be written.
pub fn save(module: &impl Module, path: &Path) -> Result<(), Error> {
    write(&parameters(module), &[FORMAT], path)
}

/// Writes tensors, one at a time, with what the file says about itself. The file is written in place.
///
/// # Errors
/// If it cannot be written.
pub fn write(stored: &[NamedTensor<'_>], header: &[(&str, &str)], path: &Path) -> Result<(), Error> {
    let header: HashMap<String, String> = header
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let views = stored.iter().map(|stored| (&stored.name, stored));
    // The library's file is readable by its owner alone; a model gets the permissions of any new file, less the umask.
    let permissions = fs_err::File::create(path)?.metadata()?.permissions();
    safetensors::serialize_to_file(views, Some(header), path).map_err(|e| match e {
        safetensors::SafeTensorError::IoError(source) => Error::Io(std::io::Error::new(
            source.kind(),
            format!("{}: {source}", path.display()),
        )),
        other => Error::Damaged {
            path: path.to_owned(),
            what: other.to_string(),
        },
    })?;
    fs_err::set_permissions(path, permissions)?;
    Ok(())
}

/// Fills a network with the tensors of a file. Tensors whose names begin with one of `elsewhere` belong to a part that the
/// network was built without.
///
/// # Errors
/// If the file has a tensor too few or too many, or one of another shape, or cannot be read.
pub fn load<M: Module>(module: M, file: Checkpoint, elsewhere: &[&str]) -> Result<M, Error> {
    load_but(module, file, elsewhere, &[])
}

/// As [`load`], without the tensors whose names begin with one of `left`: these stay blank, and the file is to have them too.
///
/// # Errors
/// As [`load`].
pub(crate) fn load_but<M: Module>(
    module: M,
    file: Checkpoint,
    elsewhere: &[&str],
    left: &[String],
) -> Result<M, Error> {
    let mut wanted = shapes(&module);
    let stay = |name: &str| left.iter().any(|part| name.starts_with(part.as_str()));
    for (name, shape) in wanted.extract_if(.., |(name, _)| stay(name)) {
        file.leave(&name, &shape)?;
    }
    let numbers = file.take_all(&wanted)?;
    file.finish(elsewhere)?;
    fill(module, wanted, numbers)
}

/// Names and shapes of all parameters of a network.
fn shapes(module: &impl Module) -> Vec<(String, Vec<usize>)> {
    let named = parameters(module).into_iter();
    named.map(|tensor| (tensor.name, tensor.shape)).collect()
}

/// Puts numbers into the parameters of these names; others stay as they are.
fn fill<M: Module>(module: M, names: Vec<(String, Vec<usize>)>, numbers: Vec<Vec<f32>>) -> Result<M, Error> {
    let names: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
    let known: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut numbers: HashMap<&str, Vec<f32>> = names.iter().map(String::as_str).zip(numbers).collect();
    update_some(module, &|name| known.contains(name), &mut |name, _, _| {
        Ok(numbers.remove(name).unwrap_or_default())
    })
}

/// A part of a network in the file that it was written to, where its tensors stay: they are read whenever the network runs. That
/// they are there, in shape, was checked when the rest of the network was loaded.
#[derive(Debug, Clone)]
pub struct FilePart {
    file: Arc<SafetensorsFile>,
    name: String,
}

impl FilePart {
    /// A part of a file; `name` is how the names of its tensors begin.
    pub(crate) fn new(file: Arc<SafetensorsFile>, name: &str) -> Self {
        let name = name.to_owned();
        Self { file, name }
    }

    /// A part of the part.
    pub(crate) fn at(&self, part: &str) -> Self {
        Self::new(Arc::clone(&self.file), &self.name_of(part))
    }

    /// How the file calls a tensor or a part of the part.
    pub(crate) fn name_of(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }

    /// The part with its tensors, which are read now.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn fill<M: Module>(&self, blank: M) -> Result<M, Error> {
        let names = shapes(&blank);
        let read = names
            .par_iter()
            .map(|(name, _)| self.file.numbers(&self.name_of(name)))
            .collect::<Result<Vec<_>, Error>>()?;
        fill(blank, names, read)
    }

    /// Some rows of a tensor of two dimensions.
    ///
    /// # Errors
    /// If the file cannot be read, or there is no such row.
    pub(crate) fn rows(&self, tensor: &str, rows: &[i32]) -> Result<Vec<f32>, Error> {
        let rows = rows.iter().map(|&row| usize::try_from(row).unwrap_or(usize::MAX));
        self.file.rows(&self.name_of(tensor), rows)
    }
}

/// Whether a tensor's numbers are in memory, where hark's kernels compute.
pub fn in_memory<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.device() == Device::flex()
}

/// Calls `take` with the gradient of every parameter that had a part in the loss, by its name, row after row.
pub fn gradients(module: &impl Module, gradients: Gradients, take: &mut dyn FnMut(String, Tensor<1>)) {
    struct Gather<'a> {
        names: Names,
        from: Gradients,
        take: &'a mut dyn FnMut(String, Tensor<1>),
    }
    impl ModuleVisitor for Gather<'_> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.names.enter(name, container);
        }
        fn exit_module(&mut self, _: &str, container: &str) {
            self.names.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = param.val().grad_remove(&mut self.from) {
                let count = gradient.dims().iter().product::<usize>();
                (self.take)(self.names.name(), gradient.reshape([count]));
            }
        }
    }
    module.visit(&mut Gather {
        names: Names::default(),
        from: gradients,
        take,
    });
}

/// The numbers of a parameter before a change. Who does not ask for them leaves the memory of a blank network untouched.
pub type Before = Box<dyn FnOnce() -> Vec<f32>>;

/// What [`update`] does with a parameter: its name, shape and numbers in, its new numbers out.
pub type Change<'a> = &'a mut dyn FnMut(&str, &[usize], Before) -> Result<Vec<f32>, Error>;

/// Changes the numbers of a network's parameters, one parameter after the other. Which of them take part in gradients stays
/// as it was.
///
/// # Errors
/// What `change` returns; the network is lost then.
pub fn update<M: Module>(module: M, change: Change<'_>) -> Result<M, Error> {
    update_some(module, &|_| true, change)
}

/// As [`update`], of the parameters that `which` names alone.
///
/// # Errors
/// As [`update`].
pub fn update_some<M: Module>(
    module: M,
    which: &dyn Fn(&str) -> bool,
    change: Change<'_>,
) -> Result<M, Error> {
    struct Updating<'a> {
        names: Names,
        which: &'a dyn Fn(&str) -> bool,
        change: Change<'a>,
        failed: Option<Error>,
    }
    impl ModuleMapper for Updating<'_> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.names.enter(name, container);
        }
        fn exit_module(&mut self, _: &str, container: &str) {
            self.names.exit(container);
        }
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let name = self.names.name();
            if self.failed.is_some() || !(self.which)(&name) {
                return param;
            }
            let (id, tensor, mapper) = param.consume();
            let (shape, device) = (tensor.dims(), tensor.device());
            let requires = tensor.is_require_grad();
            let tensor = tensor.inner();
            let before: Before = Box::new(move || numbers(tensor));
            let changed = (self.change)(&name, &shape, before);
            let changed = changed.unwrap_or_else(|error| {
                self.failed = Some(error);
                vec![0.0; shape.iter().product()]
            });
            let tensor = Tensor::from_data(TensorData::new(changed, shape), &device);
            Param::from_mapped_value(id, tensor.set_require_grad(requires), mapper)
        }
    }
    let mut updating = Updating {
        names: Names::default(),
        which,
        change,
        failed: None,
    };
    let module = module.map(&mut updating);
    match updating.failed {
        Some(error) => Err(error),
        None => Ok(module),
    }
}

/// What [`update_tensors`] does with a parameter: its name, and its numbers, row after row, in; its new numbers out.
pub type ChangeTensor<'a> = &'a mut dyn FnMut(&str, Tensor<1>) -> Result<Tensor<1>, Error>;

/// As [`update`], for numbers that stay where they are.
///
/// # Errors
/// What `change` returns; the network is lost then.
pub fn update_tensors<M: Module>(module: M, change: ChangeTensor<'_>) -> Result<M, Error> {
    struct Updating<'a> {
        names: Names,
        change: ChangeTensor<'a>,
        failed: Option<Error>,
    }
    impl ModuleMapper for Updating<'_> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.names.enter(name, container);
        }
        fn exit_module(&mut self, _: &str, container: &str) {
            self.names.exit(container);
        }
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            if self.failed.is_some() {
                return param;
            }
            let (id, tensor, mapper) = param.consume();
            let (shape, requires, taped) = (
                tensor.dims(),
                tensor.is_require_grad(),
                tensor.device().is_autodiff(),
            );
            let tensor = tensor.inner();
            let flat = tensor.reshape([shape.iter().product::<usize>()]);
            // Nobody else holds the numbers, so that they can be changed where they are. After an error the module is gone.
            let device = flat.device();
            let tensor = match (self.change)(&self.names.name(), flat) {
                Ok(changed) => changed.reshape(shape),
                Err(error) => {
                    self.failed = Some(error);
                    Tensor::zeros([1; D], &device)
                }
            };
            let tensor = if taped { Tensor::from_inner(tensor) } else { tensor };
            Param::from_mapped_value(id, tensor.set_require_grad(requires), mapper)
        }
    }
    let mut updating = Updating {
        names: Names::default(),
        change,
        failed: None,
    };
    let module = module.map(&mut updating);
    match updating.failed {
        Some(error) => Err(error),
        None => Ok(module),
    }
}

/// Leaves the parameters that `frozen` names out of all gradients.
pub fn freeze<M: Module>(module: M, frozen: &dyn Fn(&str) -> bool) -> M {
    struct Freeze<'a> {
        names: Names,
        frozen: &'a dyn Fn(&str) -> bool,
    }
    impl ModuleMapper for Freeze<'_> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.names.enter(name, container);
        }
        fn exit_module(&mut self, _: &str, container: &str) {
            self.names.exit(container);
        }
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            if (self.frozen)(&self.names.name()) {
                param.set_require_grad(false)
            } else {
                param
            }
        }
    }
    module.map(&mut Freeze {
        names: Names::default(),
        frozen,
    })
}
