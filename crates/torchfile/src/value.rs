//! What a pickle describes: plain values in one list, each naming others by their place in it.
//!
//! A value that a pickle uses many times stands here once, and a container that holds itself is no trouble: nothing
//! is copied, nothing is followed further than a state dict needs, and dropping the list follows nothing at all.
//!
//! Classes and functions are known by name, and the names that mean something here are few ([`Value::of_global`]).
//! An object of any other class is [`Value::Opaque`]: its class is kept for the error that it may cause, its contents
//! are dropped.

use super::dtype::Dtype;

/// A value's place in [`Pickle::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(pub(super) u32);

/// A value, or as much of it as can matter.
#[derive(Debug)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i128),
    /// An integer of more than 128 bits.
    HugeInt,
    Float,
    Text(Box<str>),
    Bytes,
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Set,
    Dtype(Dtype),
    /// A class of storages, such as `torch.FloatStorage`, by the type of its elements.
    StorageClass(Dtype),
    Callable(Callable),
    Storage(Storage),
    Tensor(Box<TensorRecord>),
    /// An object of a class that means nothing here, or that class itself; both fields are texts.
    Opaque {
        module: Id,
        name: Id,
    },
}

/// The classes and functions that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callable {
    OrderedDict,
    DefaultDict,
    Size,
    RebuildTensor,
    RebuildTensorV2,
    RebuildTensorV3,
    RebuildParameter,
    RebuildParameterWithState,
    RebuildFromType,
}

/// A run of elements that lies outside the pickle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Storage {
    pub(super) dtype: Dtype,
    /// A text: its name in the file.
    pub(super) key: Id,
    /// How many elements.
    pub(super) count: u64,
}

/// What a tensor is rebuilt from. The numbers are checked when the tensor is one of the model's.
#[derive(Debug, Clone, Copy)]
pub(super) struct TensorRecord {
    pub(super) storage: Storage,
    pub(super) dtype: Dtype,
    pub(super) offset: Id,
    pub(super) shape: Id,
    pub(super) strides: Id,
    /// Whether the elements are to be conjugated or negated when they are read.
    pub(super) altered: bool,
}

impl Value {
    /// What a module and a name within it stand for, if it is anything that is understood.
    pub(super) fn of_global(module: &str, name: &str) -> Option<Self> {
        let callable = match (module, name) {
            ("collections", "OrderedDict") => Callable::OrderedDict,
            ("collections", "defaultdict") => Callable::DefaultDict,
            ("torch", "Size") => Callable::Size,
            ("torch._utils", "_rebuild_tensor") => Callable::RebuildTensor,
            ("torch._utils", "_rebuild_tensor_v2") => Callable::RebuildTensorV2,
            ("torch._utils", "_rebuild_tensor_v3") => Callable::RebuildTensorV3,
            ("torch._utils", "_rebuild_parameter") => Callable::RebuildParameter,
            ("torch._utils", "_rebuild_parameter_with_state") => Callable::RebuildParameterWithState,
            ("torch._tensor", "_rebuild_from_type_v2") => Callable::RebuildFromType,
            // Newer files keep the bytes without a type, and the tensor has one.
            ("torch" | "torch.storage", "UntypedStorage" | "_UntypedStorage") => {
                return Some(Self::StorageClass(Dtype::U8));
            }
            ("torch", _) => {
                return Dtype::by_name(name)
                    .map(Self::Dtype)
                    .or_else(|| Dtype::by_storage_class(name).map(Self::StorageClass));
            }
            _ => return None,
        };
        Some(Self::Callable(callable))
    }
}

/// A pickle, read.
#[derive(Debug)]
pub(super) struct Pickle {
    values: Vec<Value>,
    root: Id,
    storages: Vec<Storage>,
}

/// A class name in an error is cut to this many characters; the file could make it as long as itself.
const SHOWN: usize = 120;

impl Pickle {
    pub(super) fn new(values: Vec<Value>, root: Id, storages: Vec<Storage>) -> Self {
        Self {
            values,
            root,
            storages,
        }
    }

    pub(super) fn root(&self) -> Id {
        self.root
    }

    /// Every storage that the pickle names, in its order; one that is named often stands here often.
    pub(super) fn storages(&self) -> &[Storage] {
        &self.storages
    }

    pub(super) fn get(&self, id: Id) -> &Value {
        // Ids are only made for values that are in the list, and none is ever taken out.
        self.values.get(id.0 as usize).unwrap_or(&Value::None)
    }

    pub(super) fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of a tuple or a list.
    pub(super) fn items(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Value::Tuple(items) | Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn dict(&self, id: Id) -> Option<&[(Id, Id)]> {
        match self.get(id) {
            Value::Dict(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of an entry of a dictionary; the last one, if the key is there more than once.
    pub(super) fn entry(&self, dict: Id, key: &str) -> Option<Id> {
        self.dict(dict)?
            .iter()
            .rev()
            .find(|(k, _)| self.text(*k) == Some(key))
            .map(|(_, value)| *value)
    }

    /// An integer that is not negative.
    pub(super) fn count(&self, id: Id) -> Option<u64> {
        match self.get(id) {
            Value::Int(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    /// What a value is, for a message.
    pub(super) fn describe(&self, id: Id) -> String {
        match self.get(id) {
            Value::None => "nothing (None)".to_owned(),
            Value::Bool(_) => "a truth value".to_owned(),
            Value::Int(_) | Value::HugeInt => "an integer".to_owned(),
            Value::Float => "a number".to_owned(),
            Value::Text(_) => "a text".to_owned(),
            Value::Bytes => "bytes".to_owned(),
            Value::Tuple(_) => "a tuple".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Dict(_) => "a dictionary".to_owned(),
            Value::Set => "a set".to_owned(),
            Value::Dtype(dtype) => format!("the type {dtype}"),
            Value::StorageClass(_) => "a class of storages".to_owned(),
            Value::Callable(_) => "a class or function".to_owned(),
            Value::Storage(_) => "a bare storage".to_owned(),
            Value::Tensor(_) => "a tensor".to_owned(),
            Value::Opaque { module, name } => {
                let (module, name) = (self.text(*module), self.text(*name));
                let class = format!(
                    "{}.{}",
                    shortened(module.unwrap_or_default()),
                    shortened(name.unwrap_or_default())
                );
                format!("an object of class `{class}`")
            }
        }
    }
}

/// A text of the file as it is shown in a message.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
