//! What the machine makes of classes, functions and the storages that lie outside the pickle.
//!
//! Nothing is called: a function that is known by name stands for a value that is put together from its arguments,
//! and one that is not known gives a [`Value::Opaque`] with its name.

use std::io::BufRead;

use super::{Machine, Result};
use crate::value::{Callable, Id, Storage, TensorRecord, Value};

/// The longest key of a storage. PyTorch's are numbers; each use of a key costs time by its length.
const MAX_KEY: usize = 1000;

impl<R: BufRead> Machine<R> {
    /// A class or function by its module and name, from two lines or from two texts on the stack.
    pub(super) fn global(&mut self, from_stack: bool) -> Result<()> {
        let (module, name) = if from_stack {
            let name = self.pop()?;
            (self.pop()?, name)
        } else {
            let module = self.line()?;
            let name = self.line()?;
            let module = self.new_id(Value::Text(module.into()))?;
            (module, self.new_id(Value::Text(name.into()))?)
        };
        let value = match (self.value(module), self.value(name)) {
            (Value::Text(m), Value::Text(n)) => {
                Value::of_global(m, n).unwrap_or(Value::Opaque { module, name })
            }
            _ => return self.malformed("the name of a class is not a text"),
        };
        self.push(value)
    }

    /// The instructions that make an object from a class or by a function, and the one that fills an object in.
    pub(super) fn object(&mut self, code: u8) -> Result<()> {
        match code {
            b'R' | 0x81 => {
                let arguments = self.pop()?;
                let class = self.pop()?;
                self.call(class, Some(arguments))
            }
            0x92 => {
                self.pop()?;
                let arguments = self.pop()?;
                let class = self.pop()?;
                self.call(class, Some(arguments))
            }
            b'o' => match self.pop_to_mark()?.first() {
                Some(class) => self.call(*class, None),
                None => self.malformed("an object has no class"),
            },
            b'i' => {
                self.global(false)?;
                let class = self.pop()?;
                self.pop_to_mark()?;
                self.call(class, None)
            }
            // The state of an object: nothing that is kept has any that matters.
            _ => {
                self.pop()?;
                self.top().map(drop)
            }
        }
    }

    /// Pushes what a class or function makes of a tuple of arguments, or of none that are understood.
    fn call(&mut self, callable: Id, arguments: Option<Id>) -> Result<()> {
        let callable = match self.value(callable) {
            Value::Callable(callable) => *callable,
            Value::Opaque { module, name } => {
                let (module, name) = (*module, *name);
                return self.push(Value::Opaque { module, name });
            }
            _ => return self.malformed("it calls something that is no class or function"),
        };
        let arguments = match arguments.map(|id| self.value(id)) {
            // An argument list is a few ids long for every function that is known.
            Some(Value::Tuple(items)) if items.len() <= 8 => items.clone(),
            _ => return self.malformed("a function is called with arguments that it does not take"),
        };
        self.apply(callable, &arguments)
    }

    fn apply(&mut self, callable: Callable, arguments: &[Id]) -> Result<()> {
        match (callable, arguments) {
            (Callable::OrderedDict, []) | (Callable::DefaultDict, [] | [_]) => {
                self.push(Value::Dict(Vec::new()))
            }
            (Callable::OrderedDict, [items]) => {
                let entries = self.dict_of_pairs(*items)?;
                self.push(Value::Dict(entries))
            }
            (Callable::Size, [shape]) => self.push_id(*shape),
            (Callable::RebuildTensor, [storage, offset, shape, strides])
            | (Callable::RebuildTensorV2, [storage, offset, shape, strides, _, _]) => {
                self.tensor(*storage, [*offset, *shape, *strides], None, None)
            }
            (Callable::RebuildTensorV2, [storage, offset, shape, strides, _, _, metadata]) => {
                self.tensor(*storage, [*offset, *shape, *strides], None, Some(*metadata))
            }
            (Callable::RebuildTensorV3, [storage, offset, shape, strides, _, _, dtype]) => {
                self.tensor(*storage, [*offset, *shape, *strides], Some(*dtype), None)
            }
            (Callable::RebuildTensorV3, [storage, offset, shape, strides, _, _, dtype, metadata]) => {
                let view = [*offset, *shape, *strides];
                self.tensor(*storage, view, Some(*dtype), Some(*metadata))
            }
            (Callable::RebuildParameter, [data, _, _])
            | (Callable::RebuildParameterWithState, [data, _, _, _]) => match self.value(*data) {
                Value::Tensor(_) | Value::Opaque { .. } => self.push_id(*data),
                _ => self.malformed("a parameter is made of something that is no tensor"),
            },
            (Callable::RebuildFromType, [function, class, arguments, _]) => {
                self.typed_tensor(*function, *class, *arguments)
            }
            _ => self.malformed("a function is called with arguments that it does not take"),
        }
    }

    /// The entries of an ordered dictionary that is made from a list of pairs, as Python 2 writes it.
    fn dict_of_pairs(&mut self, items: Id) -> Result<Vec<(Id, Id)>> {
        let length = match self.value(items) {
            Value::List(items) | Value::Tuple(items) => items.len(),
            _ => return self.malformed("a dictionary is made of something that is no list"),
        };
        // The list may be used again and again: what is copied is counted.
        self.spend(length)?;
        let (Value::List(items) | Value::Tuple(items)) = self.value(items) else {
            return Ok(Vec::new());
        };
        items
            .iter()
            .map(|pair| match self.value(*pair) {
                Value::List(pair) | Value::Tuple(pair) if pair.len() == 2 => Ok((pair[0], pair[1])),
                _ => self.malformed("a dictionary is made of something that is no pair"),
            })
            .collect()
    }

    /// A tensor from its storage, `[offset, shape, strides]`, and a type of its own if the storage has none.
    fn tensor(&mut self, storage: Id, view: [Id; 3], dtype: Option<Id>, metadata: Option<Id>) -> Result<()> {
        let storage = match self.value(storage) {
            Value::Storage(storage) => *storage,
            // A kind of storage that is not known makes a tensor that is not.
            Value::Opaque { .. } => return self.push_id(storage),
            _ => return self.malformed("a tensor is made of something that is no storage"),
        };
        let dtype = match dtype.map(|id| (id, self.value(id))) {
            None => storage.dtype,
            Some((_, Value::Dtype(dtype))) => *dtype,
            Some((id, Value::Opaque { .. })) => return self.push_id(id),
            Some(_) => return self.malformed("the type of a tensor is not one"),
        };
        let altered = match metadata.map(|id| self.value(id)) {
            None | Some(Value::None) => false,
            Some(Value::Dict(entries)) => !entries.is_empty(),
            Some(_) => true,
        };
        let [offset, shape, strides] = view;
        self.push(Value::Tensor(Box::new(TensorRecord {
            storage,
            dtype,
            offset,
            shape,
            strides,
            altered,
        })))
    }

    /// A tensor that carries attributes of its own; of a class of its own, it would mean something else.
    fn typed_tensor(&mut self, function: Id, class: Id, arguments: Id) -> Result<()> {
        let Value::Opaque { module, name } = self.value(class) else {
            return self.malformed("the class of a tensor is not one");
        };
        let plain = match (self.value(*module), self.value(*name)) {
            (Value::Text(module), Value::Text(name)) => matches!(
                (&**module, &**name),
                ("torch", "Tensor") | ("torch.nn.parameter", "Parameter" | "Buffer")
            ),
            _ => false,
        };
        match self.value(function) {
            Value::Callable(
                Callable::RebuildTensor | Callable::RebuildTensorV2 | Callable::RebuildTensorV3,
            ) if plain => self.call(function, Some(arguments)),
            Value::Callable(_) => self.push_id(class),
            _ => self.call(function, None),
        }
    }

    /// A storage, from `("storage", class, key, device, count)`; older files add a sixth part, which is nothing.
    pub(super) fn persistent(&mut self) -> Result<()> {
        let id = self.pop()?;
        let parts = match self.value(id) {
            Value::Tuple(parts) if parts.len() <= 6 => parts.clone(),
            _ => return self.malformed("a storage is not described as PyTorch does"),
        };
        let kind = match parts.first().map(|id| self.value(*id)) {
            Some(Value::Text(kind)) => &**kind,
            _ => return self.malformed("a storage is not described as PyTorch does"),
        };
        match (kind, parts.as_slice()) {
            // A whole model that was saved as an object: its class, and the text of its source.
            ("module", [_, class, ..]) => self.push_id(*class),
            ("storage", [_, class, key, _, count, rest @ ..]) => {
                if rest.iter().any(|id| !matches!(self.value(*id), Value::None)) {
                    return self.malformed("a storage is a part of another one");
                }
                match (self.value(*class), self.value(*key), self.value(*count)) {
                    (Value::StorageClass(dtype), Value::Text(text), Value::Int(count))
                        if text.len() <= MAX_KEY =>
                    {
                        let (dtype, key) = (*dtype, *key);
                        let Ok(count) = u64::try_from(*count) else {
                            return self.malformed("a storage has a negative size");
                        };
                        let storage = Storage { dtype, key, count };
                        self.storages.push(storage);
                        self.push(Value::Storage(storage))
                    }
                    (Value::Opaque { .. }, _, _) => self.push_id(*class),
                    _ => self.malformed("a storage is not described as PyTorch does"),
                }
            }
            _ => self.malformed("a storage is not described as PyTorch does"),
        }
    }
}
