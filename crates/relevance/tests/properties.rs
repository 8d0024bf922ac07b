//! What must hold for every relevance function, batch and target.

#![allow(clippy::float_cmp, reason = "one-hot targets are exact")]

use hark_relevance::function::{Normalisation, Range};
use hark_relevance::{RelevanceFunction, batch};
use proptest::prelude::*;

/// Any function, per-batch included.
fn functions() -> impl Strategy<Value = RelevanceFunction> {
    prop_oneof![
        (-10.0..10.0, 0.0..50.0)
            .prop_map(|(intercept, slope)| RelevanceFunction::Logistic { intercept, slope }),
        (-1.0..1.0, 0.001..2.0).prop_map(|(lo, width)| RelevanceFunction::MinMax {
            range: Range::Fixed { lo, hi: lo + width }
        }),
        Just(RelevanceFunction::MinMax {
            range: Range::PerBatch
        }),
        Just(RelevanceFunction::Binary),
        (0.0..=1.0).prop_map(|at| RelevanceFunction::Threshold { at }),
        (0.0..100.0, 0.0..80.0).prop_map(|(slope, shift)| RelevanceFunction::Steep { slope, shift }),
    ]
}

/// Symmetric similarities with ones on the diagonal, and a clip for each caption.
fn batches() -> impl Strategy<Value = (Vec<f32>, Vec<u32>)> {
    (1_usize..12).prop_flat_map(|size| {
        let similarities = prop::collection::vec(-1.0_f32..=1.0, size * size).prop_map(move |mut table| {
            for i in 0..size {
                table[i * size + i] = 1.0;
                for j in 0..i {
                    table[i * size + j] = table[j * size + i];
                }
            }
            table
        });
        (similarities, prop::collection::vec(0_u32..8, size))
    })
}

proptest! {
    #[test]
    fn relevance_is_in_range_and_does_not_fall(
        function in functions(),
        a in -1.0..=1.0_f64,
        b in -1.0..=1.0_f64,
        same_clip: bool,
    ) {
        prop_assume!(function != RelevanceFunction::MinMax { range: Range::PerBatch });
        let (low, high) = (a.min(b), a.max(b));
        let at_low = function.apply(low, same_clip).unwrap();
        let at_high = function.apply(high, same_clip).unwrap();
        prop_assert!((0.0..=1.0).contains(&at_low) && (0.0..=1.0).contains(&at_high));
        prop_assert!(at_low <= at_high, "f({low}) = {at_low}, f({high}) = {at_high}");
    }

    #[test]
    fn targets_are_distributions_in_the_order_of_similarity(
        function in functions(),
        (similarities, clips) in batches(),
        omega in 0.001_f32..10.0,
    ) {
        let size = clips.len();
        let relevance = batch::from_similarity(&function, &similarities, &clips).unwrap();
        prop_assert!(relevance.iter().all(|g| (0.0..=1.0).contains(g)));
        let target = batch::targets(function.normalisation(), &relevance, size, omega).unwrap();
        for (list, (h, p)) in similarities.chunks(size).zip(target.chunks(size)).enumerate() {
            // Each of at most 11 shares is rounded to 32 bits.
            let sum: f64 = p.iter().map(|&p| f64::from(p)).sum();
            prop_assert!((sum - 1.0).abs() < 1e-6, "list {list} sums to {sum}");
            if function == RelevanceFunction::Binary {
                continue;
            }
            for i in 0..size {
                for j in 0..size {
                    prop_assert!(h[i] > h[j] || p[i] <= p[j], "list {list}: {h:?} gives {p:?}");
                }
            }
        }
    }

    #[test]
    fn clips_that_are_all_different_give_one_hot_targets(size in 1_usize..20) {
        let clips: Vec<u32> = (0..size as u32).collect();
        let relevance = batch::same_clip(&clips);
        let target = batch::targets(Normalisation::RowSum, &relevance, size, 0.05).unwrap();
        for (place, &share) in target.iter().enumerate() {
            prop_assert_eq!(share, f32::from(u8::from(place / size == place % size)));
        }
    }

    #[test]
    fn text_and_table_go_round(function in functions()) {
        prop_assert_eq!(function.to_string().parse::<RelevanceFunction>().unwrap(), function);
        // By value: serde_json reads numbers from text only to within a unit in the last place.
        let table = serde_json::to_value(function).unwrap();
        prop_assert_eq!(serde_json::from_value::<RelevanceFunction>(table).unwrap(), function);
    }

    #[test]
    fn any_text_gives_a_function_or_an_error(text in "[a-z:=,. 0-9-]{0,30}") {
        if let Ok(function) = text.parse::<RelevanceFunction>() {
            prop_assert!(function.check().is_ok());
        }
    }
}
