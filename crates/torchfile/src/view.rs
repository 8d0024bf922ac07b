//! A tensor as a view of a storage: element `(i, j, …)` stands at `offset + i·stride₀ + j·stride₁ + …`.
//!
//! In: an offset, a shape and strides as a file has them. Out: which elements of the storage the view covers, and
//! those elements in row-major order. Refused: a view that reaches beyond its storage, one with more dimensions than
//! any model has, and one that repeats a small storage without end.

/// The most dimensions; NumPy has the same limit.
const MAX_DIMENSIONS: usize = 64;
/// The most elements of a view that has more of them than its storage, which a stride of 0 makes possible.
const MAX_REPEATED: u64 = 1 << 28;

/// Why a view is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ViewError {
    #[error("{shape} dimensions and {strides} strides")]
    Dimensions { shape: usize, strides: usize },
    #[error(
        "the shape {shape:?}, with strides {strides:?} from element {offset}, is beyond its storage of {count}"
    )]
    Beyond {
        shape: Vec<u64>,
        strides: Vec<u64>,
        offset: u64,
        count: u64,
    },
    #[error("the shape {shape:?} repeats the {count} elements of its storage too often")]
    Repeated { shape: Vec<u64>, count: u64 },
}

/// A view that is known to lie within its storage.
#[derive(Debug, Clone)]
pub(super) struct View {
    shape: Vec<usize>,
    strides: Vec<usize>,
    /// How many elements the view has.
    elements: usize,
    /// The first element of the storage that the view covers, and how many from there on.
    extent: (u64, usize),
}

impl View {
    /// Checks a view of a storage of `count` elements.
    pub(super) fn new(offset: u64, shape: &[u64], strides: &[u64], count: u64) -> Result<Self, ViewError> {
        if shape.len() != strides.len() || shape.len() > MAX_DIMENSIONS {
            return Err(ViewError::Dimensions {
                shape: shape.len(),
                strides: strides.len(),
            });
        }
        let beyond = || ViewError::Beyond {
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            offset,
            count,
        };
        let sizes = |numbers: &[u64]| -> Option<Vec<usize>> {
            numbers.iter().map(|n| usize::try_from(*n).ok()).collect()
        };
        let wide_shape = sizes(shape).ok_or_else(beyond)?;
        if shape.contains(&0) {
            return Ok(Self {
                strides: vec![0; wide_shape.len()],
                shape: wide_shape,
                elements: 0,
                extent: (0, 0),
            });
        }
        let reach = shape
            .iter()
            .zip(strides)
            .try_fold(0_u64, |sum, (size, stride)| {
                sum.checked_add((size - 1).checked_mul(*stride)?)
            })
            .ok_or_else(beyond)?;
        let end = offset
            .checked_add(reach)
            .and_then(|last| last.checked_add(1))
            .ok_or_else(beyond)?;
        if end > count {
            return Err(beyond());
        }
        let elements = shape.iter().try_fold(1_u64, |product, n| product.checked_mul(*n));
        let elements = elements.filter(|n| *n <= count.max(MAX_REPEATED));
        let Some(elements) = elements else {
            return Err(ViewError::Repeated {
                shape: shape.to_vec(),
                count,
            });
        };
        // A dimension of one element may have any stride: it is never stepped along.
        let stepped: Vec<u64> = shape
            .iter()
            .zip(strides)
            .map(|(n, s)| if *n == 1 { 0 } else { *s })
            .collect();
        Ok(Self {
            shape: wide_shape,
            strides: sizes(&stepped).ok_or_else(beyond)?,
            elements: usize::try_from(elements).map_err(|_| beyond())?,
            extent: (offset, usize::try_from(reach + 1).map_err(|_| beyond())?),
        })
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(super) fn elements(&self) -> usize {
        self.elements
    }

    /// The first element of the storage that is needed, and how many from there on.
    pub(super) fn extent(&self) -> (u64, usize) {
        self.extent
    }

    /// Puts the elements of the view's extent in row-major order.
    pub(super) fn gather(&self, extent: Vec<f32>) -> Vec<f32> {
        if self.is_contiguous() {
            return extent;
        }
        let mut out = Vec::with_capacity(self.elements);
        let mut index = vec![0_usize; self.shape.len()];
        let mut position = 0;
        while out.len() < self.elements {
            out.push(extent.get(position).copied().unwrap_or_default());
            // The last index goes up by one; one that is at its end goes back to 0 and the one before it goes up.
            for ((i, size), stride) in index.iter_mut().zip(&self.shape).zip(&self.strides).rev() {
                *i += 1;
                if *i < *size {
                    position += stride;
                    break;
                }
                position -= (*size - 1) * stride;
                *i = 0;
            }
        }
        out
    }

    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (size, stride) in self.shape.iter().zip(&self.strides).rev() {
            if *size != 1 && *stride != expected {
                return false;
            }
            expected *= size;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The formula itself, one element at a time.
    fn naive(offset: u64, shape: &[u64], strides: &[u64], storage: &[f32]) -> Vec<f32> {
        let elements: u64 = shape.iter().product();
        (0..elements)
            .map(|nth| {
                let mut rest = nth;
                let mut at = offset;
                for (size, stride) in shape.iter().zip(strides).rev() {
                    at += rest % size * stride;
                    rest /= size;
                }
                storage[at as usize]
            })
            .collect()
    }

    fn read(view: &View, storage: &[f32]) -> Vec<f32> {
        let (start, length) = view.extent();
        view.gather(storage[start as usize..][..length].to_vec())
    }

    proptest! {
        #[test]
        fn gathers_what_the_formula_says(
            offset in 0_u64..5,
            dimensions in prop::collection::vec((0_u64..5, 0_u64..7), 0..5),
            spare in 0_u64..3,
        ) {
            let (shape, strides): (Vec<u64>, Vec<u64>) = dimensions.into_iter().unzip();
            let reach: u64 = shape.iter().zip(&strides).map(|(n, s)| n.saturating_sub(1) * s).sum();
            let count = offset + reach + 1 + spare;
            let storage: Vec<f32> = (0..count).map(|n| n as f32).collect();
            let view = View::new(offset, &shape, &strides, count).unwrap();
            prop_assert_eq!(read(&view, &storage), naive(offset, &shape, &strides, &storage));
            prop_assert_eq!(view.elements() as u64, shape.iter().product::<u64>());
        }

        #[test]
        fn refuses_or_stays_within(
            offset: u64,
            shape in prop::collection::vec(prop_oneof![0_u64..4, any::<u64>()], 0..4),
            strides in prop::collection::vec(prop_oneof![0_u64..4, any::<u64>()], 0..4),
            count in 0_u64..20,
        ) {
            if let Ok(view) = View::new(offset % 8, &shape, &strides, count) {
                let (start, length) = view.extent();
                prop_assert!(start + length as u64 <= count);
                prop_assert!(view.elements() as u64 <= MAX_REPEATED);
            }
        }
    }

    #[test]
    fn one_element_more_is_beyond() {
        assert!(View::new(0, &[2, 3], &[3, 1], 6).is_ok());
        for (offset, shape, strides) in [
            (1, [2, 3], [3, 1]),
            (0, [2, 4], [3, 1]),
            (0, [2, 3], [4, 1]),
            (u64::MAX, [2, 3], [3, 1]),
            (0, [u64::MAX, 3], [u64::MAX, 1]),
        ] {
            let refused = View::new(offset, &shape, &strides, 6).unwrap_err();
            assert!(matches!(refused, ViewError::Beyond { .. }), "{refused}");
        }
    }

    #[test]
    fn a_repeated_element_has_a_limit() {
        assert!(View::new(0, &[MAX_REPEATED], &[0], 1).is_ok());
        for shape in [[MAX_REPEATED + 1, 1, 1], [u64::MAX / 2; 3]] {
            let refused = View::new(0, &shape, &[0; 3], 1).unwrap_err();
            assert!(matches!(refused, ViewError::Repeated { .. }), "{refused}");
        }
        assert!(View::new(0, &[1; MAX_DIMENSIONS + 1], &[0; MAX_DIMENSIONS + 1], 1).is_err());
        assert!(View::new(0, &[1], &[], 1).is_err());
    }

    #[test]
    fn nothing_is_read_for_an_empty_shape_of_any_size() {
        let view = View::new(u64::MAX, &[3, 0, 7], &[u64::MAX; 3], 0).unwrap();
        assert_eq!((view.elements(), view.extent()), (0, (0, 0)));
        assert_eq!(view.shape(), [3, 0, 7]);
        assert!(view.gather(Vec::new()).is_empty());
    }
}
