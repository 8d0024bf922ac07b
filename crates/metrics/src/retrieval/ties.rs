//! The order of items for one query: by score, and where scores are equal by [`Ties`].
//!
//! In: the scores of one query, and the items whose rank is wanted or the number of best items. Out: exact
//! ranks, without sorting the rest (an item's rank is one more than the number of items ahead of it), or the
//! best items in order.
//!
//! The hash is SplitMix64's mixing function (Steele, Lea and Flood 2014). For a given query it maps different
//! keys to different numbers, so that with distinct keys no tie remains, and no position in a list matters.

use std::cmp::Ordering;

use hark_nearest::blocks::at_least;
use hark_work::random::{finish, mix};

/// How items with equal scores are ordered. Keys are all different, so no tie remains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// By a hash of the query's key, the item's key and a seed. Every order of tied items is equally likely
    /// over seeds, so that nothing is gained or lost by a tie.
    Hashed {
        /// 0 gives the order that every report has by default.
        seed: u64,
    },
    /// The item with the higher key ranks first. Where keys number the ids in the order of their bytes, this
    /// is trec_eval's order: score descending, then id descending. It favours the same items in every query.
    Keys,
}

impl Default for Ties {
    fn default() -> Self {
        Self::Hashed { seed: 0 }
    }
}

/// The key of an id, for [`WithIds`](super::WithIds): the same on every machine and in every version.
///
/// ```
/// use hark_metrics::tie_key;
///
/// assert_ne!(tie_key("rain.wav#1"), tie_key("rain.wav#2"));
/// ```
pub fn tie_key(id: &str) -> u64 {
    // Starting from the length keeps apart ids that differ only in zero bytes at the end.
    let mut key = mix(id.len() as u64);
    for chunk in id.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        key = mix(key ^ u64::from_le_bytes(word));
    }
    key
}

/// Keys that rise with the order of the names' bytes, for [`Ties::Keys`]: the name that is last in the alphabet
/// ranks first, as in trec_eval.
pub fn name_keys<T: AsRef<str>>(names: &[T]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_unstable_by(|&a, &b| names[a].as_ref().cmp(names[b].as_ref()));
    let mut keys = vec![0; names.len()];
    for (key, place) in (0..).zip(order) {
        keys[place] = key;
    }
    keys
}

/// The scores of one query with all items.
pub(crate) struct Ranking<'a> {
    scores: &'a [f32],
    ties: QueryTies,
    /// As many as scores, all different.
    item_keys: &'a [u64],
}

/// [`Ties`] for one query.
#[derive(Debug, Clone, Copy)]
enum QueryTies {
    /// The query's key and the seed, mixed once, so that query and item do not play the same part in the hash.
    Hashed(u64),
    Keys,
}

/// An item with what decides its rank.
#[derive(Debug, Clone, Copy)]
struct Standing {
    score: f32,
    tie: u64,
    /// Position in the list of wanted items, or the item itself.
    position: usize,
}

impl Standing {
    /// Best first.
    fn order(&self, other: &Self) -> Ordering {
        // Scores are never NaN. `total_cmp` would part 0.0 from -0.0, which are one score.
        let by_score = other.score.partial_cmp(&self.score);
        by_score.unwrap_or(Ordering::Equal).then(self.tie.cmp(&other.tie))
    }
}

/// The rank of a wanted item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankedItem {
    /// From 1.
    pub(crate) rank: u32,
    /// Position in the list of wanted items.
    pub(crate) position: usize,
}

/// What [`Ranking::ranks`] and [`Ranking::best`] work in, kept from query to query.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    standings: Vec<Standing>,
    ahead: Vec<u32>,
    placed: Vec<RankedItem>,
}

impl<'a> Ranking<'a> {
    pub(crate) fn new(scores: &'a [f32], query_key: u64, item_keys: &'a [u64], ties: Ties) -> Self {
        debug_assert_eq!(scores.len(), item_keys.len());
        Self {
            scores,
            ties: match ties {
                // Seed 0 leaves the key as it is; others change it in all bits, so that the numbers of seeds
                // and the numbers of queries cannot meet.
                Ties::Hashed { seed } => QueryTies::Hashed(mix(query_key ^ finish(seed))),
                Ties::Keys => QueryTies::Keys,
            },
            item_keys,
        }
    }

    /// Of two items with equal scores, the one with the lower number ranks first.
    fn tie(&self, item: usize) -> u64 {
        let key = self.item_keys[item];
        match self.ties {
            QueryTies::Hashed(query) => mix(query ^ key),
            QueryTies::Keys => !key,
        }
    }

    /// The ranks of the wanted items, best first. The items must be below the number of scores and all
    /// different. Takes `n log r` steps for `n` items of which `r` are wanted.
    #[expect(
        clippy::float_cmp,
        reason = "a tie is equality; a margin would not be transitive"
    )]
    pub(crate) fn ranks<'s>(
        &self,
        wanted: impl Iterator<Item = u32>,
        scratch: &'s mut Scratch,
    ) -> &'s [RankedItem] {
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
        standings.sort_unstable_by(Standing::order);
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
            placed.push(RankedItem {
                rank,
                position: standing.position,
            });
        }
        placed
    }

    /// The `k` best items (at least 1) with their scores, best first; all of them where there are fewer.
    ///
    /// Candidates are gathered in a reservoir, which is cut to the best `k` when it is half full. Few scores are
    /// candidates after that, so most are only compared with the floor, many at a time.
    pub(crate) fn best<'s>(
        &self,
        k: usize,
        scratch: &'s mut Scratch,
    ) -> impl Iterator<Item = (u32, f32)> + use<'s> {
        let candidates = &mut scratch.standings;
        candidates.clear();
        let window = k.saturating_mul(2).max(512);
        let mut floor = f32::NEG_INFINITY;
        for (number, scores) in self.scores.chunks(window).enumerate() {
            at_least(scores, floor, |offset, score| {
                let item = number * window + offset;
                candidates.push(Standing {
                    score,
                    tie: self.tie(item),
                    position: item,
                });
            });
            if candidates.len() >= window {
                let (_, worst, _) = candidates.select_nth_unstable_by(k - 1, Standing::order);
                floor = worst.score;
                candidates.truncate(k);
            }
        }
        candidates.sort_unstable_by(Standing::order);
        candidates.truncate(k);
        candidates
            .iter()
            .map(|standing| (standing.position as u32, standing.score))
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
        assert_eq!(tie_key(""), mix(0));
        assert_eq!(tie_key("a"), mix(mix(1) ^ 0x61));
        assert_eq!(
            tie_key("abcdefghi"),
            mix(mix(mix(9) ^ 0x6867_6665_6463_6261) ^ 0x69)
        );
        assert_ne!(tie_key("a"), tie_key("a\0"));
        assert_ne!(tie_key("ab"), tie_key("ba"));
    }

    #[test]
    fn ranks_count_the_items_ahead() {
        let scores = [0.1, 0.9, 0.5, 0.7, 0.3];
        let ranking = Ranking::new(&scores, 7, &[1, 2, 3, 4, 5], Ties::default());
        let mut scratch = Scratch::default();
        let placed = ranking.ranks([4, 3].into_iter(), &mut scratch);
        assert_eq!(
            placed,
            [
                RankedItem { rank: 2, position: 1 },
                RankedItem { rank: 4, position: 0 }
            ]
        );
        assert_eq!(ranking.ranks([].into_iter(), &mut scratch), []);
    }

    #[test]
    fn positive_and_negative_zero_are_one_score() {
        let keys: Vec<u64> = (0..40).collect();
        let mixed: Vec<f32> = (0..40).map(|i| if i % 3 == 0 { -0.0 } else { 0.0 }).collect();
        let zeros = [0.0; 40];
        let (mut first, mut second) = (Scratch::default(), Scratch::default());
        assert_eq!(
            Ranking::new(&mixed, 1, &keys, Ties::default()).ranks(0..40, &mut first),
            Ranking::new(&zeros, 1, &keys, Ties::default()).ranks(0..40, &mut second)
        );
    }
}
