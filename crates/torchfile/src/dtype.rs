//! The element types that a PyTorch file can name, as `torch.float16` or as `torch.HalfStorage`.

use std::fmt;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// `torch.float32`.
    F32,
    /// `torch.float16`.
    F16,
    /// `torch.bfloat16`.
    BF16,
    /// `torch.float64`.
    F64,
    /// `torch.int64`.
    I64,
    /// `torch.int32`.
    I32,
    /// `torch.int16`.
    I16,
    /// `torch.int8`.
    I8,
    /// `torch.uint8`; also the bytes of a storage without a type.
    U8,
    /// `torch.bool`.
    Bool,
    /// `torch.uint16`.
    U16,
    /// `torch.uint32`.
    U32,
    /// `torch.uint64`.
    U64,
    /// `torch.complex64`.
    C64,
    /// `torch.complex128`.
    C128,
    /// `torch.float8_e4m3fn`.
    F8E4M3,
    /// `torch.float8_e5m2`.
    F8E5M2,
    /// `torch.qint8`.
    QI8,
    /// `torch.quint8`.
    QU8,
    /// `torch.qint32`.
    QI32,
}

/// A type, its name in the module `torch`, the older class of its storages there, and the bytes of an element.
struct Row(Dtype, &'static str, Option<&'static str>, u64);

/// Every type has its own row: [`Dtype::row`] looks there.
const ROWS: [Row; 20] = [
    Row(Dtype::F32, "float32", Some("FloatStorage"), 4),
    Row(Dtype::F16, "float16", Some("HalfStorage"), 2),
    Row(Dtype::BF16, "bfloat16", Some("BFloat16Storage"), 2),
    Row(Dtype::F64, "float64", Some("DoubleStorage"), 8),
    Row(Dtype::I64, "int64", Some("LongStorage"), 8),
    Row(Dtype::I32, "int32", Some("IntStorage"), 4),
    Row(Dtype::I16, "int16", Some("ShortStorage"), 2),
    Row(Dtype::I8, "int8", Some("CharStorage"), 1),
    Row(Dtype::U8, "uint8", Some("ByteStorage"), 1),
    Row(Dtype::Bool, "bool", Some("BoolStorage"), 1),
    Row(Dtype::U16, "uint16", None, 2),
    Row(Dtype::U32, "uint32", None, 4),
    Row(Dtype::U64, "uint64", None, 8),
    Row(Dtype::C64, "complex64", Some("ComplexFloatStorage"), 8),
    Row(Dtype::C128, "complex128", Some("ComplexDoubleStorage"), 16),
    Row(Dtype::F8E4M3, "float8_e4m3fn", None, 1),
    Row(Dtype::F8E5M2, "float8_e5m2", None, 1),
    Row(Dtype::QI8, "qint8", Some("QInt8Storage"), 1),
    Row(Dtype::QU8, "quint8", Some("QUInt8Storage"), 1),
    Row(Dtype::QI32, "qint32", Some("QInt32Storage"), 4),
];

impl Dtype {
    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The bytes of one element.
    pub fn size(self) -> u64 {
        self.row().3
    }

    /// Whether the elements are real numbers of floating point that [`super::TorchFile::read_f32`] converts.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16 | Self::F64)
    }

    /// The type by its name in the module `torch`.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// The type of the elements of a storage class of the module `torch`.
    pub(super) fn by_storage_class(class: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.2 == Some(class)).map(|row| row.0)
    }
}

/// As PyTorch writes it: `torch.float16`.
impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "torch.{}", self.row().1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_finds_its_own_row() {
        for row in &ROWS {
            assert_eq!(row.0.row().1, row.1);
            assert_eq!(Dtype::by_name(row.1), Some(row.0));
            if let Some(class) = row.2 {
                assert_eq!(Dtype::by_storage_class(class), Some(row.0));
            }
        }
        assert_eq!(Dtype::BF16.to_string(), "torch.bfloat16");
        assert_eq!(Dtype::by_name("float128"), None);
    }
}
