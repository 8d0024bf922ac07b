//! The order of items for one query: by score, and where scores are equal by a hash of both ids.
//!
//! In: the scores of one query and the items whose rank is wanted. Out: their exact ranks, without sorting the
//! rest: an item's rank is one more than the number of items ahead of it.
//!
//! The hash is SplitMix64's mixing function (Steele, Lea and Flood 2014). For a given query it maps different
//! keys to different numbers, so that with distinct keys no tie remains, and no position in a list matters.

use crate::exact::at_least;

/// One step of SplitMix64: a bijection that leaves no trace of the order of its inputs.
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The key of an id, for [`Keyed`](super::Keyed): the same on every machine and in every version.
///
/// ```
/// use hark_rank::metrics::id_key;
///
/// assert_ne!(id_key("rain.wav#1"), id_key("rain.wav#2"));
/// ```
pub fn id_key(id: &str) -> u64 {
    // Starting from the length keeps apart ids that differ only in zero bytes at the end.
    let mut key = mix(id.len() as u64);
    for chunk in id.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        key = mix(key ^ u64::from_le_bytes(word));
    }
    key
}

/// The scores of one query with all items.
pub(super) struct Contest<'a> {
    scores: &'a [f32],
    /// The query's key, mixed once, so that query and item do not play the same part in the hash.
    query: u64,
    /// As many as scores, all different.
    item_keys: &'a [u64],
}

/// A wanted item.
#[derive(Debug, Clone, Copy)]
struct Standing {
    score: f32,
    tie: u64,
    /// Position in the list of wanted items.
    position: usize,
}

/// Where a wanted item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    /// From 1.
    pub(super) rank: u32,
    /// Position in the list of wanted items.
    pub(super) position: usize,
}

/// What [`Contest::ranks`] works in, kept from query to query.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    standings: Vec<Standing>,
    ahead: Vec<u32>,
    placed: Vec<Placed>,
}

impl<'a> Contest<'a> {
    pub(super) fn new(scores: &'a [f32], query_key: u64, item_keys: &'a [u64]) -> Self {
        debug_assert_eq!(scores.len(), item_keys.len());
        Self {
            scores,
            query: mix(query_key),
            item_keys,
        }
    }

    /// Of two items with equal scores, the one with the lower number stands first.
    fn tie(&self, item: usize) -> u64 {
        mix(self.query ^ self.item_keys[item])
    }

    /// The ranks of the wanted items, best first. The items must be below the number of scores and all
    /// different. Takes `n log r` steps for `n` items of which `r` are wanted.
    #[expect(
        clippy::float_cmp,
        reason = "a tie is equality; a margin would not be transitive"
    )]
    pub(super) fn ranks<'s>(
        &self,
        wanted: impl Iterator<Item = u32>,
        scratch: &'s mut Scratch,
    ) -> &'s [Placed] {
        let Scratch {
            standings,
            ahead,
            placed,
        } = scratch;
        standings.clear();
        standings.extend(wanted.enumerate().map(|(position, item)| Standing {
            score: self.scores[item as usize],
            tie: self.tie(item as usize),
            position,
        }));
        standings.sort_unstable_by(|a, b| {
            // Scores are never NaN. `total_cmp` would part 0.0 from -0.0, which are one score.
            let by_score = b.score.partial_cmp(&a.score);
            by_score
                .unwrap_or(std::cmp::Ordering::Equal)
                .then(a.tie.cmp(&b.tie))
        });
        // ahead[i] counts the items that stand behind exactly i of the wanted ones: they are ahead of all
        // others. A wanted item counts as behind itself.
        ahead.clear();
        ahead.resize(standings.len() + 1, 0);
        let worst = standings.last().map_or(f32::INFINITY, |last| last.score);
        at_least(self.scores, worst, |item, score| {
            let mut behind = standings.partition_point(|wanted| wanted.score > score);
            if standings.get(behind).is_some_and(|wanted| wanted.score == score) {
                let tie = self.tie(item);
                behind +=
                    standings[behind..].partition_point(|wanted| wanted.score == score && wanted.tie <= tie);
            }
            ahead[behind] += 1;
        });
        placed.clear();
        let mut rank = 1;
        for (standing, ahead) in standings.iter().zip(&*ahead) {
            rank += ahead;
            placed.push(Placed {
                rank,
                position: standing.position,
            });
        }
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of SplitMix64 from the seed 0, as published with the algorithm.
    #[test]
    fn the_hash_is_splitmix64s() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }

    /// Written down once: a change would reorder the ties of every report made before it.
    #[test]
    fn keys_stay_as_they_are() {
        assert_eq!(id_key(""), mix(0));
        assert_eq!(id_key("a"), mix(mix(1) ^ 0x61));
        assert_eq!(
            id_key("abcdefghi"),
            mix(mix(mix(9) ^ 0x6867_6665_6463_6261) ^ 0x69)
        );
        assert_ne!(id_key("a"), id_key("a\0"));
        assert_ne!(id_key("ab"), id_key("ba"));
    }

    #[test]
    fn ranks_count_the_items_ahead() {
        let scores = [0.1, 0.9, 0.5, 0.7, 0.3];
        let contest = Contest::new(&scores, 7, &[1, 2, 3, 4, 5]);
        let mut scratch = Scratch::default();
        let placed = contest.ranks([4, 3].into_iter(), &mut scratch);
        assert_eq!(
            placed,
            [Placed { rank: 2, position: 1 }, Placed { rank: 4, position: 0 }]
        );
        assert_eq!(contest.ranks([].into_iter(), &mut scratch), []);
    }

    #[test]
    fn positive_and_negative_zero_are_one_score() {
        let keys: Vec<u64> = (0..40).collect();
        let mixed: Vec<f32> = (0..40).map(|i| if i % 3 == 0 { -0.0 } else { 0.0 }).collect();
        let zeros = [0.0; 40];
        let (mut first, mut second) = (Scratch::default(), Scratch::default());
        assert_eq!(
            Contest::new(&mixed, 1, &keys).ranks(0..40, &mut first),
            Contest::new(&zeros, 1, &keys).ranks(0..40, &mut second)
        );
    }
}
