//! Positions of tokens: absolute ones behind the padding id, as RoBERTa and MPNet count them, and MPNet's relative ones, a
//! learned bias per head and bucket of the distance between two tokens.
//!
//! The distance key − query falls into one of `buckets`: half of them for keys before the query (and the query itself),
//! half for keys after it. Of each half the first half holds one distance each, the rest grow logarithmically up to
//! 128, and all that is farther shares the last one (Raffel et al. 2020, section 2.1).

/// The padding id of both families, fixed in MPNet's reference whatever the configuration says.
pub(crate) const PADDING: i32 = 1;

/// The first token's position.
pub(crate) const POSITION_OFFSET: usize = PADDING as usize + 1;

/// Positions of a text's tokens: counted from [`POSITION_OFFSET`], and where a text spells out `<pad>`, that token has
/// the padding's position and is not counted.
pub(crate) fn positions(ids: &[i32]) -> impl Iterator<Item = i32> {
    ids.iter().scan(PADDING, |last, &id| {
        if id == PADDING {
            return Some(PADDING);
        }
        *last += 1;
        Some(*last)
    })
}

const MAX_DISTANCE: f32 = 128.0;

/// The bucket of the distance from `query` to `key`.
fn bucket(query: usize, key: usize, buckets: usize) -> usize {
    let half = buckets / 2;
    let first = if key > query { half } else { 0 };
    let distance = query.abs_diff(key);
    let exact = half / 2;
    if distance < exact {
        return first + distance;
    }
    // In f32 and in this order, as the reference computes it: a distance at the edge of a bucket must fall alike.
    let scale = f32::ln(distance as f32 / exact as f32) / f32::ln(MAX_DISTANCE / exact as f32);
    let large = exact + (scale * (half - exact) as f32) as usize;
    first + large.min(half - 1)
}

/// Buckets of all pairs of a text of `tokens` tokens, `[query, key]` flattened.
pub(crate) fn buckets(tokens: usize, buckets: usize) -> Vec<i32> {
    let pairs = (0..tokens).flat_map(|query| (0..tokens).map(move |key| (query, key)));
    pairs
        .map(|(query, key)| bucket(query, key, buckets) as i32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All distances that the model can see, against `MPNetEncoder.relative_position_bucket`.
    #[test]
    fn buckets_equal_the_reference() {
        let golden = include_str!("../../tests/golden/mpnet-tiny/expected.json");
        let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
        let golden = &golden["relative_position_buckets"];
        let max_input = golden["reach"].as_i64().unwrap();
        let expected = golden["buckets"].as_array().unwrap();
        assert_eq!(expected.len() as i64, 2 * max_input + 1);
        for (distance, expected) in (-max_input..=max_input).zip(expected) {
            let (query, key) = if distance < 0 {
                (distance.unsigned_abs() as usize, 0)
            } else {
                (0, distance as usize)
            };
            assert_eq!(
                bucket(query, key, 32) as i64,
                expected.as_i64().unwrap(),
                "distance {distance}"
            );
        }
    }
}
