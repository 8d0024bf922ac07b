//! A reader of pickles that builds values and can do nothing else.
//!
//! In: a stream that stands at the first byte of a pickle. Out: the values it describes, and the stream just behind
//! the pickle. A pickle is a program for a machine with a stack and a memo; Python's own machine imports modules and
//! calls functions when the program says so. This one has no means to: a class or function is a name, and calling it
//! makes the value that the few names in [`Value::of_global`] stand for, or a [`Value::Opaque`].
//!
//! Read are the instructions of protocols 0 to 5 that Python writes for what `torch.save` is given; anything else is
//! refused, as is a pickle over the limits below. The machine has no recursion, and shares values instead of copying
//! them, so that time and memory are bounded by the limits, whatever the pickle says.

mod calls;

use std::collections::HashMap;
use std::io::{self, BufRead, Read, Take};

use super::value::{Id, Pickle, Storage, Value};

/// The longest pickle. Weights are kept outside of it: that of a large model has a few hundred kilobytes.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// The most instructions, counting an element that is copied as one.
const MAX_STEPS: u64 = 16 << 20;
/// The most values, and the most entries of the stack, of the memo and of the list of marks.
const MAX_VALUES: usize = 2 << 20;
/// The longest line of the instructions that end with a line break.
const MAX_LINE: u64 = 1 << 20;

/// Why a pickle is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum PickleError {
    #[error(transparent)]
    Io(io::Error),
    #[error("its pickle ends in the middle")]
    EndsEarly,
    #[error("byte {at} of its pickle: {code:#04x} is no instruction that torch.save writes")]
    Instruction { at: u64, code: u8 },
    #[error("byte {at} of its pickle: {what}")]
    Malformed { at: u64, what: &'static str },
    #[error("a pickle of more than {limit} {what}")]
    TooMuch { what: &'static str, limit: u64 },
}

impl From<io::Error> for PickleError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Self::EndsEarly
        } else {
            Self::Io(error)
        }
    }
}

type Result<T> = std::result::Result<T, PickleError>;

/// Reads one pickle and leaves the stream behind its last byte.
pub(super) fn read(stream: &mut impl BufRead) -> Result<Pickle> {
    let mut machine = Machine {
        input: stream.take(MAX_BYTES),
        at: 0,
        steps: 0,
        values: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        storages: Vec::new(),
    };
    let root = machine.run().map_err(|error| match error {
        PickleError::EndsEarly if machine.input.limit() == 0 => PickleError::TooMuch {
            what: "bytes",
            limit: MAX_BYTES,
        },
        other => other,
    })?;
    Ok(Pickle::new(machine.values, root, machine.storages))
}

struct Machine<R> {
    input: Take<R>,
    /// Where the instruction that runs begins.
    at: u64,
    steps: u64,
    values: Vec<Value>,
    stack: Vec<Id>,
    /// The height of the stack at each mark that is open.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    storages: Vec<Storage>,
}

impl<R: BufRead> Machine<R> {
    fn run(&mut self) -> Result<Id> {
        loop {
            self.at = MAX_BYTES - self.input.limit();
            self.spend(1)?;
            match self.byte()? {
                b'.' => return self.pop(),
                code => self.instruction(code)?,
            }
        }
    }

    /// One instruction. The letters are the format's own; their names are in Python's `pickletools`.
    fn instruction(&mut self, code: u8) -> Result<()> {
        match code {
            // PROTO and FRAME say how the pickle is written, which does not matter here.
            0x80 => self.skip(1),
            0x95 => self.skip(8),
            b'(' => self.mark(),
            b'0' => self.pop_or_unmark(),
            b'1' => self.pop_to_mark().map(drop),
            b'2' => {
                let top = self.top()?;
                self.push_id(top)
            }
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'K' | b'M' | b'J' | b'I' | b'L' | 0x8a | 0x8b => self.integer(code),
            b'G' => {
                self.skip(8)?;
                self.push(Value::Float)
            }
            b'F' => {
                self.line()?;
                self.push(Value::Float)
            }
            b'X' | 0x8c | 0x8d | b'U' | b'T' | b'V' => self.text(code),
            b'B' | b'C' | 0x8e | 0x96 => {
                let length = self.length(code)?;
                self.skip(length)?;
                self.push(Value::Bytes)
            }
            b')' => self.push(Value::Tuple(Vec::new())),
            b']' => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            0x8f => self.push(Value::Set),
            0x85..=0x87 => self.short_tuple(usize::from(code - 0x84)),
            b't' | b'l' | b'd' | 0x91 => self.container(code),
            b'a' | b'e' => self.append(code == b'e'),
            b's' | b'u' => self.set_items(code == b'u'),
            0x90 => self.add_items(),
            b'c' | 0x93 => self.global(code == 0x93),
            b'R' | 0x81 | 0x92 | b'b' | b'o' | b'i' => self.object(code),
            b'Q' => self.persistent(),
            b'q' | b'r' | b'p' | 0x94 => self.put(code),
            b'h' | b'j' | b'g' => self.get(code),
            code => Err(PickleError::Instruction { at: self.at, code }),
        }
    }

    // Values and the stack.

    fn malformed<T>(&self, what: &'static str) -> Result<T> {
        Err(PickleError::Malformed { at: self.at, what })
    }

    fn spend(&mut self, steps: usize) -> Result<()> {
        self.steps = self.steps.saturating_add(steps as u64);
        if self.steps > MAX_STEPS {
            return Err(PickleError::TooMuch {
                what: "instructions",
                limit: MAX_STEPS,
            });
        }
        Ok(())
    }

    fn new_id(&mut self, value: Value) -> Result<Id> {
        let id = Id(self.values.len() as u32);
        within(self.values.len(), "values")?;
        self.values.push(value);
        Ok(id)
    }

    fn push(&mut self, value: Value) -> Result<()> {
        let id = self.new_id(value)?;
        self.push_id(id)
    }

    fn push_id(&mut self, id: Id) -> Result<()> {
        within(self.stack.len(), "values on its stack")?;
        self.stack.push(id);
        Ok(())
    }

    /// The height below which the running instruction may not reach.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Id> {
        match self.stack.last() {
            Some(id) if self.stack.len() > self.floor() => Ok(*id),
            _ => self.malformed("it takes a value from an empty stack"),
        }
    }

    fn pop(&mut self) -> Result<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn mark(&mut self) -> Result<()> {
        within(self.marks.len(), "marks")?;
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Id>> {
        match self.marks.pop() {
            Some(height) => Ok(self.stack.drain(height.min(self.stack.len())..).collect()),
            None => self.malformed("it goes back to a mark that was not set"),
        }
    }

    fn pop_or_unmark(&mut self) -> Result<()> {
        if self.stack.len() > self.floor() {
            self.stack.pop();
            Ok(())
        } else {
            self.pop_to_mark().map(drop)
        }
    }

    fn value(&self, id: Id) -> &Value {
        self.values.get(id.0 as usize).unwrap_or(&Value::None)
    }

    // Reading arguments of instructions.

    fn byte(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0_u8; N];
        self.input.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn skip(&mut self, length: u64) -> Result<()> {
        let skipped = io::copy(&mut self.input.by_ref().take(length), &mut io::sink())?;
        if skipped < length {
            return Err(PickleError::EndsEarly);
        }
        Ok(())
    }

    /// So many bytes; memory grows with what is really there, not with what the length says.
    fn bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.input.by_ref().take(length).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < length {
            return Err(PickleError::EndsEarly);
        }
        Ok(bytes)
    }

    /// The length in front of a text or of bytes, which is of one, four or eight bytes by the instruction.
    fn length(&mut self, code: u8) -> Result<u64> {
        match code {
            0x8c | b'U' | b'C' => self.byte().map(u64::from),
            0x8d | 0x8e | 0x96 => self.array().map(u64::from_le_bytes),
            // Older strings have a length with a sign.
            b'T' => match i32::from_le_bytes(self.array()?).try_into() {
                Ok(length) => Ok(length),
                Err(_) => self.malformed("a length is negative"),
            },
            _ => self.array().map(|b| u64::from(u32::from_le_bytes(b))),
        }
    }

    /// The rest of the line, without its end.
    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        self.input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return if line.len() as u64 + 1 >= MAX_LINE {
                self.malformed("a line is too long")
            } else {
                Err(PickleError::EndsEarly)
            };
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    // Plain values.

    fn integer(&mut self, code: u8) -> Result<()> {
        let value = match code {
            b'K' => Value::Int(self.byte()?.into()),
            b'M' => Value::Int(u16::from_le_bytes(self.array()?).into()),
            b'J' => Value::Int(i32::from_le_bytes(self.array()?).into()),
            0x8a => {
                let length = self.byte()?.into();
                self.long(length)?
            }
            0x8b => match i32::from_le_bytes(self.array()?).try_into() {
                Ok(length) => self.long(length)?,
                Err(_) => return self.malformed("a length is negative"),
            },
            _ => self.decimal()?,
        };
        self.push(value)
    }

    /// An integer in two's complement, the lowest byte first.
    fn long(&mut self, length: u64) -> Result<Value> {
        if length > 16 {
            self.skip(length)?;
            return Ok(Value::HugeInt);
        }
        let bytes = self.bytes(length)?;
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 16];
        for (to, from) in wide.iter_mut().zip(bytes) {
            *to = from;
        }
        Ok(Value::Int(i128::from_le_bytes(wide)))
    }

    /// An integer as decimals. `00` and `01` are how the oldest protocols write truth values.
    fn decimal(&mut self) -> Result<Value> {
        let line = self.line()?;
        Ok(match line.as_str() {
            "00" => Value::Bool(false),
            "01" => Value::Bool(true),
            other => {
                let digits = other.strip_suffix('L').unwrap_or(other);
                match digits.parse() {
                    Ok(value) => Value::Int(value),
                    Err(_) if digits.bytes().all(|b| b.is_ascii_digit() || b == b'-') => Value::HugeInt,
                    Err(_) => return self.malformed("an integer is not one"),
                }
            }
        })
    }

    /// A text. Python lets a text hold half of a surrogate pair, which is replaced here as any fault of UTF-8 is.
    fn text(&mut self, code: u8) -> Result<()> {
        let text = if code == b'V' {
            unescaped(&self.line()?)
        } else {
            let length = self.length(code)?;
            String::from_utf8_lossy(&self.bytes(length)?).into_owned()
        };
        self.push(Value::Text(text.into()))
    }

    // Containers.

    fn short_tuple(&mut self, length: usize) -> Result<()> {
        let start = self.stack.len().checked_sub(length);
        match start {
            Some(start) if start >= self.floor() => {
                let items = self.stack.drain(start..).collect();
                self.push(Value::Tuple(items))
            }
            _ => self.malformed("it takes a value from an empty stack"),
        }
    }

    fn container(&mut self, code: u8) -> Result<()> {
        let items = self.pop_to_mark()?;
        let value = match code {
            b't' => Value::Tuple(items),
            b'l' => Value::List(items),
            b'd' => Value::Dict(self.pairs(&items)?),
            _ => Value::Set,
        };
        self.push(value)
    }

    fn pairs(&self, items: &[Id]) -> Result<Vec<(Id, Id)>> {
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return self.malformed("a dictionary gets a key without a value");
        }
        Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect())
    }

    fn append(&mut self, many: bool) -> Result<()> {
        let items = if many {
            self.pop_to_mark()?
        } else {
            vec![self.pop()?]
        };
        let list = self.top()?;
        match self.values.get_mut(list.0 as usize) {
            Some(Value::List(list)) => list.extend(items),
            Some(Value::Opaque { .. }) => {}
            _ => return self.malformed("it appends to something that is no list"),
        }
        Ok(())
    }

    fn set_items(&mut self, many: bool) -> Result<()> {
        let items = if many {
            self.pop_to_mark()?
        } else {
            let value = self.pop()?;
            vec![self.pop()?, value]
        };
        let pairs = self.pairs(&items)?;
        let dict = self.top()?;
        match self.values.get_mut(dict.0 as usize) {
            Some(Value::Dict(dict)) => dict.extend(pairs),
            Some(Value::Opaque { .. }) => {}
            _ => return self.malformed("it adds entries to something that is no dictionary"),
        }
        Ok(())
    }

    fn add_items(&mut self) -> Result<()> {
        self.pop_to_mark()?;
        let set = self.top()?;
        match self.value(set) {
            Value::Set | Value::Opaque { .. } => Ok(()),
            _ => self.malformed("it adds to something that is no set"),
        }
    }

    // The memo.

    fn put(&mut self, code: u8) -> Result<()> {
        let index = match code {
            b'q' => self.byte()?.into(),
            b'r' => u32::from_le_bytes(self.array()?),
            b'p' => self.line_index()?,
            _ => self.memo.len() as u32,
        };
        within(self.memo.len(), "entries in its memo")?;
        let top = self.top()?;
        self.memo.insert(index, top);
        Ok(())
    }

    fn get(&mut self, code: u8) -> Result<()> {
        let index = match code {
            b'h' => self.byte()?.into(),
            b'j' => u32::from_le_bytes(self.array()?),
            _ => self.line_index()?,
        };
        match self.memo.get(&index) {
            Some(id) => self.push_id(*id),
            None => self.malformed("it takes a value from the memo that is not there"),
        }
    }

    fn line_index(&mut self) -> Result<u32> {
        match self.line()?.parse() {
            Ok(index) => Ok(index),
            Err(_) => self.malformed("a place in the memo is not a number"),
        }
    }
}

/// That a list of this length may grow.
fn within(length: usize, what: &'static str) -> Result<()> {
    if length >= MAX_VALUES {
        return Err(PickleError::TooMuch {
            what,
            limit: MAX_VALUES as u64,
        });
    }
    Ok(())
}

/// A text of the oldest protocol, where `\uXXXX` and `\UXXXXXXXX` stand for characters.
fn unescaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let digits = match after.as_bytes().first() {
            Some(b'u') => after.get(1..5),
            Some(b'U') => after.get(1..9),
            _ => None,
        };
        let character = digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .and_then(char::from_u32);
        if let (Some(character), Some(digits)) = (character, digits) {
            text.push(character);
            rest = &after[1 + digits.len()..];
        } else {
            text.push('\\');
            rest = after;
        }
    }
    text.push_str(rest);
    text
}
