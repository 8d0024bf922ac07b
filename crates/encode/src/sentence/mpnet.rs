//! MPNet's relative positions: a learned bias per head and bucket of the distance between two tokens.
//!
//! The distance key − query falls into one of `buckets`: half of them for keys before the query (and the query itself),
//! half for keys after it. Of each half the first half holds one distance each, the rest grow logarithmically up to
//! 128, and all that is farther shares the last one (Raffel et al. 2020, section 2.1).

/// The first token's position: MPNet counts from its padding id, 1, as RoBERTa does.
pub(super) const POSITION_OFFSET: usize = 2;

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
pub(super) fn buckets(tokens: usize, buckets: usize) -> Vec<i32> {
    let pairs = (0..tokens).flat_map(|query| (0..tokens).map(move |key| (query, key)));
    pairs
        .map(|(query, key)| bucket(query, key, buckets) as i32)
        .collect()
}
