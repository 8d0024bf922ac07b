//! The relevances of a training batch, and the targets made of them.
//!
//! A batch is B pairs of a caption and its clip. In: caption vectors `[B, dim]` and clip ids `[B]`. Out: G
//! `[B, B]` with `G[i][j] = f(h(x_i, x_j))`, the relevance of clip j to caption i, and P `[B, B]`, whose rows
//! are the target distributions of the lists. h is symmetric, so G is too: row i of P is the target both for
//! caption i as a list over clips and for clip i as a list over captions.

use hark_nearest::Vectors;

use crate::function::{Normalisation, Range, RelevanceFunction, check_similarity};
use crate::{Error, similarity};

/// G `[B, B]` of a batch, from unit caption vectors `[B, dim]` and the clip of each caption.
///
/// ```
/// use hark_relevance::{RelevanceFunction, Vectors, batch};
///
/// let captions = Vectors::new(&[1.0, 0.0, 0.6, 0.8], 2)?;
/// let f = RelevanceFunction::default();
/// let relevance = batch::relevance(&f, captions, &[0, 1])?;
/// let target = batch::targets(f.normalisation(), &relevance, 2, 0.05)?;
/// assert!(target[0] > 0.99 && (target[0] + target[1] - 1.0).abs() < 1e-6);
/// # Ok::<(), hark_relevance::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::LengthMismatch`], those of [`similarity::matrix`] and of [`from_similarity`].
pub fn relevance(
    function: &RelevanceFunction,
    captions: Vectors<'_>,
    clips: &[u32],
) -> Result<Vec<f32>, Error> {
    if clips.len() != captions.rows() {
        return Err(Error::LengthMismatch {
            what: "clip ids",
            expected: captions.rows(),
            got: clips.len(),
        });
    }
    from_similarity(function, &similarity::matrix(captions)?, clips)
}

/// G `[B, B]` from a table of similarities `[B, B]` and the clip of each caption.
///
/// # Errors
///
/// [`Error::LengthMismatch`], [`Error::NotFinite`], [`Error::OutOfRange`], [`Error::BadParameter`], and
/// [`Error::RangeUnknown`] for a `minmax` that still needs the range of the training captions.
pub fn from_similarity(
    function: &RelevanceFunction,
    similarities: &[f32],
    clips: &[u32],
) -> Result<Vec<f32>, Error> {
    let size = clips.len();
    let expected = size.saturating_mul(size);
    if similarities.len() != expected {
        return Err(Error::LengthMismatch {
            what: "similarities",
            expected,
            got: similarities.len(),
        });
    }
    function.check()?;
    for (position, &h) in similarities.iter().enumerate() {
        check_similarity(position, f64::from(h))?;
    }
    let function = match *function {
        RelevanceFunction::MinMax {
            range: Range::PerBatch,
        } => {
            let lo = similarities.iter().copied().fold(f32::INFINITY, f32::min);
            let hi = similarities.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            if lo >= hi {
                // All captions are the same, or there are none.
                return Ok(vec![1.0; similarities.len()]);
            }
            RelevanceFunction::MinMax {
                range: Range::Fixed {
                    lo: lo.into(),
                    hi: hi.into(),
                },
            }
        }
        other => other,
    };
    let mut relevances = Vec::with_capacity(similarities.len());
    for (list, &clip) in similarities.chunks_exact(size.max(1)).zip(clips) {
        for (&h, &other) in list.iter().zip(clips) {
            relevances.push(function.value(f64::from(h), clip == other)? as f32);
        }
    }
    Ok(relevances)
}

/// G `[B, B]` of `binary`, which needs no vectors: 1 where two pairs share a clip, else 0.
///
/// ```
/// let relevance = hark_relevance::batch::same_clip(&[7, 3, 7]);
/// assert_eq!(relevance, [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
/// ```
pub fn same_clip(clips: &[u32]) -> Vec<f32> {
    clips
        .iter()
        .flat_map(|a| clips.iter().map(move |b| f32::from(u8::from(a == b))))
        .collect()
}

/// P `[lists, width]` from G `[lists, width]`: every row becomes a distribution.
///
/// With [`Normalisation::Softmax`], P = softmax(G / omega), with the largest entry of the row subtracted
/// first so that nothing overflows. With [`Normalisation::RowSum`], P = G / sum of G and `omega` plays no
/// part; a list without any relevance has no target and is refused. In a batch that cannot happen: the
/// diagonal of G is 1 for `binary` and `threshold` and above 0 for `steep`.
///
/// # Errors
///
/// [`Error::LengthMismatch`] when G does not divide into rows of `width`, [`Error::BadParameter`] when omega
/// is not above 0, [`Error::NotFinite`], [`Error::OutOfRange`] for a relevance outside [0, 1],
/// [`Error::EmptyList`].
pub fn targets(
    normalisation: Normalisation,
    relevances: &[f32],
    width: usize,
    omega: f32,
) -> Result<Vec<f32>, Error> {
    if relevances.is_empty() {
        return Ok(Vec::new());
    }
    if width == 0 || !relevances.len().is_multiple_of(width) {
        let expected = relevances.len().next_multiple_of(width.max(1));
        return Err(Error::LengthMismatch {
            what: "relevances",
            expected,
            got: relevances.len(),
        });
    }
    if !(omega.is_finite() && omega > 0.0) {
        return Err(Error::BadParameter {
            owner: "target",
            parameter: "omega",
            value: omega.into(),
            reason: "it must be a finite number above 0",
        });
    }
    for (position, &relevance) in relevances.iter().enumerate() {
        let value = f64::from(relevance);
        if !value.is_finite() {
            return Err(Error::NotFinite {
                what: "relevance",
                position,
                value,
            });
        }
        if !(0.0..=1.0).contains(&value) {
            return Err(Error::OutOfRange {
                what: "relevance",
                position,
                value,
                low: 0.0,
                high: 1.0,
            });
        }
    }
    let mut targets = Vec::with_capacity(relevances.len());
    for (list, relevances) in relevances.chunks_exact(width).enumerate() {
        let largest = f64::from(relevances.iter().copied().fold(0.0, f32::max));
        let weight = |relevance: f32| match normalisation {
            Normalisation::Softmax => ((f64::from(relevance) - largest) / f64::from(omega)).exp(),
            Normalisation::RowSum => f64::from(relevance),
        };
        let sum: f64 = relevances.iter().map(|&relevance| weight(relevance)).sum();
        if sum <= 0.0 {
            return Err(Error::EmptyList { list });
        }
        targets.extend(
            relevances
                .iter()
                .map(|&relevance| (weight(relevance) / sum) as f32),
        );
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(text: &str) -> RelevanceFunction {
        text.parse().unwrap()
    }

    #[test]
    fn relevance_is_the_function_of_every_similarity() {
        let captions = Vectors::new(&[1.0, 0.0, 0.6, 0.8, 0.0, 1.0], 2).unwrap();
        let f = function("logistic");
        let got = relevance(&f, captions, &[0, 1, 2]).unwrap();
        let h = [1.0, 0.6, 0.0, 0.6, 1.0, 0.8, 0.0, 0.8, 1.0];
        for (got, h) in got.into_iter().zip(h) {
            assert!((f64::from(got) - f.apply(h, false).unwrap()).abs() < 1e-6);
        }
    }

    #[test]
    fn binary_shares_the_mass_among_captions_of_a_clip() {
        let captions = Vectors::new(&[1.0, 0.0, 0.6, 0.8, 0.0, 1.0], 2).unwrap();
        let f = RelevanceFunction::Binary;
        let got = relevance(&f, captions, &[5, 9, 5]).unwrap();
        assert_eq!(got, same_clip(&[5, 9, 5]));
        let target = targets(f.normalisation(), &got, 3, 0.05).unwrap();
        assert_eq!(target, [0.5, 0.0, 0.5, 0.0, 1.0, 0.0, 0.5, 0.0, 0.5]);
    }

    #[test]
    fn per_batch_takes_the_range_of_the_batch() {
        let similarities = [1.0, 0.5, 0.0, 0.5, 1.0, 0.25, 0.0, 0.25, 1.0];
        let got = from_similarity(&function("minmax:per-batch"), &similarities, &[0, 1, 2]).unwrap();
        assert_eq!(got, similarities);
        let alike = from_similarity(&function("minmax:per-batch"), &[1.0; 4], &[0, 1]).unwrap();
        assert_eq!(alike, [1.0; 4]);
    }

    #[test]
    fn the_diagonal_keeps_every_row_sum_above_zero() {
        // The least favourable batch: nobody is like anybody else.
        let similarities = [1.0, -1.0, -1.0, 1.0];
        for text in [
            "binary",
            "threshold",
            "threshold:at=1",
            "steep",
            "steep:slope=1,shift=81",
        ] {
            let f = function(text);
            let relevance = from_similarity(&f, &similarities, &[0, 1]).unwrap();
            assert!(relevance[0] > 0.0 && relevance[3] > 0.0, "{text}: {relevance:?}");
            let target = targets(f.normalisation(), &relevance, 2, 0.05).unwrap();
            assert!((target[0] + target[1] - 1.0).abs() < 1e-6, "{text}: {target:?}");
            if matches!(f, RelevanceFunction::Threshold { .. } | RelevanceFunction::Binary) {
                assert_eq!(relevance, [1.0, 0.0, 0.0, 1.0]);
            }
        }
    }

    #[test]
    fn softmax_is_safe_at_any_temperature() {
        let relevance = [0.9, 0.1, 0.5];
        let target = |omega| targets(Normalisation::Softmax, &relevance, 3, omega).unwrap();
        assert_eq!(target(1e-30), [1.0, 0.0, 0.0]);
        for share in target(1e30) {
            assert!((share - 1.0 / 3.0).abs() < 1e-6);
        }
        let expected: Vec<f64> = relevance
            .iter()
            .map(|&g: &f32| (f64::from(g) / 0.05).exp())
            .collect();
        let sum: f64 = expected.iter().sum();
        for (got, expected) in target(0.05).into_iter().zip(expected) {
            assert!((f64::from(got) - expected / sum).abs() < 1e-7);
        }
    }

    #[test]
    fn bad_batches_are_refused() {
        let f = RelevanceFunction::default();
        let captions = Vectors::new(&[1.0, 0.0, 0.6, 0.8], 2).unwrap();
        assert!(matches!(
            relevance(&f, captions, &[0]),
            Err(Error::LengthMismatch { .. })
        ));
        let long = Vectors::new(&[1.0, 0.0, 6.0, 8.0], 2).unwrap();
        assert!(matches!(
            relevance(&f, long, &[0, 1]),
            Err(Error::Nearest(hark_nearest::Error::NotUnit { row: 1, .. }))
        ));
        assert!(matches!(
            from_similarity(&f, &[1.0; 3], &[0, 1]),
            Err(Error::LengthMismatch { .. })
        ));
        let nan = from_similarity(&f, &[1.0, f32::NAN, 0.0, 1.0], &[0, 1]);
        assert!(matches!(nan, Err(Error::NotFinite { position: 1, .. })));
        let unresolved = from_similarity(&function("minmax"), &[1.0], &[0]);
        assert!(matches!(unresolved, Err(Error::RangeUnknown { .. })));
        for omega in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let target = targets(Normalisation::Softmax, &[0.5], 1, omega);
            assert!(matches!(
                target,
                Err(Error::BadParameter {
                    parameter: "omega",
                    ..
                })
            ));
        }
        assert_eq!(
            targets(Normalisation::RowSum, &[1.0, 0.0, 0.0, 0.0], 2, 0.05),
            Err(Error::EmptyList { list: 1 })
        );
        assert!(matches!(
            targets(Normalisation::RowSum, &[1.0; 3], 2, 0.05),
            Err(Error::LengthMismatch {
                expected: 4,
                got: 3,
                ..
            })
        ));
        assert!(matches!(
            targets(Normalisation::RowSum, &[1.0; 3], 0, 0.05),
            Err(Error::LengthMismatch { .. })
        ));
        assert!(matches!(
            targets(Normalisation::RowSum, &[1.5], 1, 0.05),
            Err(Error::OutOfRange { .. })
        ));
    }

    #[test]
    fn an_empty_batch_is_empty() {
        let none = Vectors::new(&[], 4).unwrap();
        for text in ["logistic", "minmax:per-batch", "binary"] {
            let f = function(text);
            assert_eq!(relevance(&f, none, &[]), Ok(vec![]));
            assert_eq!(targets(f.normalisation(), &[], 0, 0.05), Ok(vec![]));
        }
    }
}
