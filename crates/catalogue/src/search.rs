//! Answers a [`Query`]: vectors and words each rank the files, and reciprocal rank fusion merges the two rankings.
//!
//! Cosines and word scores are not comparable, so ranks are fused instead (Cormack, Clarke and Büttcher 2009, with their constant
//! of 60). A file with only some of the words gets that share of its reciprocal rank: one word of four in a file name does not
//! outweigh what the recording sounds like. A file whose name has all words of the query comes before all others: who types
//! a name wants that file. Equal scores share a rank and are ordered by path.
//!
//! A recording that is longer than a window is ranked by its best window, never by the vector of the whole: a mean of many
//! windows is near to every query, and nonsense would put the longest recording first.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::words::QueryWords;
use crate::{Error, File, Filter, Store, TextHit, TextQuery, WindowHit, prepare};

/// Weight of an excluded embedding against a wanted one in [`combine_queries`].
pub const NEGATIVE_WEIGHT: f32 = 0.5;
/// Added to a rank before its reciprocal is taken.
const RRF_K: f64 = 60.0;
/// Least number of files from each ranking to fuse. It grows in powers of two, not with every page: pages of one answer must
/// come from the same fusion.
const DEPTH: usize = 256;
/// Most windows tied with the last hit that are fetched to order them by path.
const TIES: usize = 4096;

/// Added to the score of a file whose name has all words of the query. No other score reaches it: fused ones stay below 2 / 61,
/// those of words alone at 1 or below.
const EXACT_NAME: f64 = 2.0;
/// A recording of more than so many windows has vectors of its windows: a rest of less than a twentieth of a window gets none.
const MIN_WINDOWS: f64 = 1.06;

/// Hits of an answer if the caller sets no limit.
pub(crate) const DEFAULT_LIMIT: usize = 10;

/// A search whose embeddings are known; [`ask`](crate::ask) makes one from a [`Question`](crate::Question). It searches by the
/// vector, by the words, or by both, fused. With neither, it lists all files that pass the filter, by path.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The direction to search in; any norm but zero. Excluded embeddings have been subtracted already.
    pub vector: Option<Vec<f32>>,
    /// Words to look for in names, folders, tags, captions and metadata.
    pub words: Option<String>,
    /// See [`TextQuery::prefix`].
    pub prefix: bool,
    /// Files with any word of these texts are left out.
    pub exclude_words: Vec<String>,
    /// This file is left out: the one that the others shall resemble.
    pub exclude_file: Option<i64>,
    /// Restricts which files are searched.
    pub filter: Filter,
    /// Most hits from one file. With 1, the windows of one long recording do not fill the list.
    pub per_file: usize,
    /// Hits to skip at the beginning.
    pub offset: usize,
    /// Most hits to return after these.
    pub limit: usize,
}

impl Default for Query {
    /// Lists the first 10 files.
    fn default() -> Self {
        Self {
            vector: None,
            words: None,
            prefix: false,
            exclude_words: Vec::new(),
            exclude_file: None,
            filter: Filter::default(),
            per_file: 1,
            offset: 0,
            limit: DEFAULT_LIMIT,
        }
    }
}

/// A file, or a moment of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hit {
    /// From 1.
    pub rank: usize,
    /// Higher is better: the sum of reciprocal ranks, or the cosine in a search by vector alone, or the score in a search by
    /// words alone; plus 2 if the name of the file has all words of the query.
    pub score: f64,
    /// Cosine of the moment's vector and the query's, if the search by vector found it.
    #[serde(rename = "meaning")]
    pub similarity: Option<f32>,
    /// Share of the query's words that the file has, if the search by words found it.
    #[serde(rename = "words")]
    pub word_coverage: Option<f64>,
    /// Start of the moment, in seconds; none if the hit is the whole recording.
    pub start: Option<f64>,
    /// End of the moment.
    pub end: Option<f64>,
    /// The recording.
    pub file: File,
}

/// What may become a hit.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    file: i64,
    score: f64,
    similarity: Option<f32>,
    word_coverage: Option<f64>,
    moment: Option<(f64, f64)>,
}

/// Answers a question.
///
/// # Errors
/// If the store cannot be read, or the question's vector does not fit it.
pub fn search(store: &dyn Store, query: &Query) -> Result<Vec<Hit>, Error> {
    if query.limit == 0 {
        return Ok(Vec::new());
    }
    let need = query.offset.saturating_add(query.limit);
    let words = query
        .words
        .as_deref()
        .filter(|text| !QueryWords::new(text, false).is_empty());
    let mut candidates: Vec<Candidate> = match (&query.vector, words) {
        (None, None) if query.words.as_deref().is_some_and(|text| !text.trim().is_empty()) => {
            return Ok(Vec::new());
        }
        (None, None) => return browsed(store, query),
        (Some(vector), None) => {
            let near = moments(store, query, vector, need)?;
            near.iter()
                .map(|near| meant(near, f64::from(near.score)))
                .collect()
        }
        (None, Some(text)) => {
            let found = named(store, query, text, need)?;
            found.iter().map(|found| worded(found, found.score)).collect()
        }
        (Some(vector), Some(text)) => {
            let depth = need.max(DEPTH).checked_next_power_of_two().unwrap_or(usize::MAX);
            fused(
                &moments(store, query, vector, depth)?,
                &named(store, query, text, depth)?,
            )
        }
    };
    if let Some(text) = words {
        raise_exact_names(store, &QueryWords::new(text, query.prefix), &mut candidates)?;
    }
    page(store, query, candidates)
}

/// Raises the scores of files whose names have all words of the query.
fn raise_exact_names(
    store: &dyn Store,
    asked: &QueryWords,
    candidates: &mut [Candidate],
) -> Result<(), Error> {
    let has_all = |candidate: &&mut Candidate| candidate.word_coverage.is_some_and(|share| share >= 1.0);
    let mut ids: Vec<i64> = candidates
        .iter_mut()
        .filter(has_all)
        .map(|candidate| candidate.file)
        .collect();
    ids.dedup();
    let files = store.files(&ids)?;
    let named = files.iter().filter(|file| asked.are_in_name(&file.path));
    let named: HashSet<i64> = named.map(|file| file.id).collect();
    for candidate in candidates
        .iter_mut()
        .filter(|candidate| named.contains(&candidate.file))
    {
        candidate.score += EXACT_NAME;
    }
    Ok(())
}

/// The sum of the wanted vectors minus `weight` times the sum of the excluded ones, all normalized first, and the result
/// normalized too. None if nothing remains of it, or if nothing is wanted: nearly all sounds are far from any one sound, so the
/// opposite of a sound means nothing.
///
/// ```
/// let (dog, cat) = (vec![1.0, 0.0], vec![0.0, 1.0]);
/// let dogs = hark_catalogue::combine_queries(&[dog.clone()], &[cat], 0.5).unwrap();
/// assert!(dogs[0] > 0.0 && dogs[1] < 0.0);
/// assert_eq!(hark_catalogue::combine_queries(&[dog.clone()], &[dog], 1.0), None);
/// ```
pub fn combine_queries(wanted: &[Vec<f32>], excluded: &[Vec<f32>], weight: f32) -> Option<Vec<f32>> {
    let dim = wanted.first()?.len();
    let mut sum = vec![0.0_f64; dim];
    let signed = wanted.iter().map(|vector| (vector, 1.0));
    for (vector, sign) in signed.chain(excluded.iter().map(|vector| (vector, -f64::from(weight)))) {
        if vector.len() != dim {
            return None;
        }
        for (sum, value) in sum.iter_mut().zip(prepare::unit(vector)?) {
            *sum += sign * f64::from(value);
        }
    }
    let sum: Vec<f32> = sum.into_iter().map(|value| value as f32).collect();
    // What remains of equal vectors is the rounding of their 32 bits, which is no direction.
    (prepare::norm(&sum) > 1e-5)
        .then(|| prepare::unit(&sum))
        .flatten()
}

fn meant(near: &WindowHit, score: f64) -> Candidate {
    let moment = (!near.whole).then_some((near.start, near.end));
    Candidate {
        file: near.file,
        score,
        similarity: Some(near.score),
        word_coverage: None,
        moment,
    }
}

fn worded(found: &TextHit, score: f64) -> Candidate {
    Candidate {
        file: found.file,
        score,
        similarity: None,
        word_coverage: Some(found.share),
        moment: None,
    }
}

/// The nearest windows, at most `per_file` of each file: `need` of them and those with the score of the last, if there are.
fn moments(store: &dyn Store, query: &Query, vector: &[f32], need: usize) -> Result<Vec<WindowHit>, Error> {
    let barred = barred(store, query)?;
    let longest = MIN_WINDOWS * store.settings().window_seconds;
    let mut k = need
        .saturating_mul(2)
        .saturating_add(barred.len().min(need))
        .max(32);
    loop {
        let mut near = store.search_vector(vector, k, &query.filter)?;
        let all = near.len() < k;
        near.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then(a.file.cmp(&b.file))
                .then(a.start.total_cmp(&b.start))
        });
        let mut of_file: HashMap<i64, usize> = HashMap::new();
        near.retain(|near| !near.whole || near.end - near.start <= longest);
        near.retain(|near| {
            let count = of_file.entry(near.file).or_default();
            *count += 1;
            *count <= query.per_file.max(1) && !barred.contains(&near.file)
        });
        let last = need
            .checked_sub(1)
            .and_then(|last| near.get(last))
            .map(|near| near.score);
        let tied = near.last().is_some_and(|near| Some(near.score) == last);
        if all || (last.is_some() && (!tied || k > need.saturating_mul(4).saturating_add(TIES))) {
            near.retain(|near| last.is_none_or(|last| near.score >= last));
            return Ok(near);
        }
        k = k.saturating_mul(4);
    }
}

/// The files with the words, without the one that is not to be shown.
fn named(store: &dyn Store, query: &Query, text: &str, need: usize) -> Result<Vec<TextHit>, Error> {
    let words = TextQuery {
        text,
        prefix: query.prefix,
        exclude: &query.exclude_words,
    };
    let mut found = store.search_text(&words, need.saturating_add(1), &query.filter)?;
    found.retain(|found| Some(found.file) != query.exclude_file);
    found.truncate(need);
    Ok(found)
}

/// Files that are not shown.
fn barred(store: &dyn Store, query: &Query) -> Result<HashSet<i64>, Error> {
    let mut barred: HashSet<i64> = query.exclude_file.into_iter().collect();
    for text in &query.exclude_words {
        let found = store.search_text(&TextQuery::new(text), usize::MAX, &query.filter)?;
        barred.extend(found.iter().map(|found| found.file));
    }
    Ok(barred)
}

/// Files by path.
fn browsed(store: &dyn Store, query: &Query) -> Result<Vec<Hit>, Error> {
    let barred = barred(store, query)?;
    // Of files that are not shown nobody knows the places: with any, those of the pages before are asked for, too.
    let mut from = if barred.is_empty() { query.offset } else { 0 };
    let leave = query.offset - from;
    let wanted = query.limit.saturating_add(leave);
    let mut found: Vec<i64> = Vec::new();
    while found.len() < wanted {
        let step = wanted - found.len();
        let ids = store.browse(&query.filter, from, step)?;
        let last = ids.len() < step;
        from = from.saturating_add(ids.len());
        found.extend(ids.into_iter().filter(|id| !barred.contains(id)));
        if last {
            break;
        }
    }
    let blank = |&file: &i64| Candidate {
        file,
        score: 0.0,
        similarity: None,
        word_coverage: None,
        moment: None,
    };
    let candidates: Vec<Candidate> = found.iter().skip(leave).map(blank).collect();
    Ok(numbered(shown(store, &candidates)?, query.offset))
}

/// Sums of reciprocal ranks.
fn fused(near: &[WindowHit], found: &[TextHit]) -> Vec<Candidate> {
    let places = ranks(found.iter().map(|found| found.score));
    let mut words: HashMap<i64, (f64, f64)> = HashMap::new();
    for (found, rank) in found.iter().zip(places) {
        words.insert(found.file, (found.share, found.share / (RRF_K + rank)));
    }
    let mut heard = HashSet::new();
    let places = ranks(near.iter().map(|near| f64::from(near.score)));
    let mut all: Vec<Candidate> = Vec::with_capacity(near.len() + found.len());
    for (near, rank) in near.iter().zip(places) {
        heard.insert(near.file);
        let mut candidate = meant(near, 1.0 / (RRF_K + rank));
        if let Some(&(share, part)) = words.get(&near.file) {
            candidate.word_coverage = Some(share);
            candidate.score += part;
        }
        all.push(candidate);
    }
    let unheard = found.iter().filter(|found| !heard.contains(&found.file));
    all.extend(unheard.map(|found| worded(found, words.get(&found.file).map_or(0.0, |&(_, part)| part))));
    all
}

/// Ranks from 1 of scores that come best first; equal scores have the rank of the first of them.
fn ranks(scores: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut ranks: Vec<f64> = Vec::new();
    let mut before: Option<(f64, f64)> = None;
    for (place, score) in scores.enumerate() {
        let rank = match before {
            Some((equal, rank)) if equal.total_cmp(&score).is_eq() => rank,
            _ => place as f64 + 1.0,
        };
        before = Some((score, rank));
        ranks.push(rank);
    }
    ranks
}

/// The hits that were asked for, of all that were found.
fn page(store: &dyn Store, query: &Query, mut all: Vec<Candidate>) -> Result<Vec<Hit>, Error> {
    all.sort_by(|a, b| b.score.total_cmp(&a.score));
    let last = query.offset.saturating_add(query.limit - 1);
    if let Some(last) = all.get(last).map(|last| last.score) {
        all.retain(|candidate| candidate.score >= last);
    }
    let mut hits = shown(store, &all)?;
    let start = |hit: &Hit| hit.start.unwrap_or(-1.0);
    hits.sort_by(|a, b| {
        let score = b.score.total_cmp(&a.score);
        score
            .then_with(|| a.file.path.cmp(&b.file.path))
            .then(start(a).total_cmp(&start(b)))
    });
    hits.drain(..query.offset.min(hits.len()));
    hits.truncate(query.limit);
    Ok(numbered(hits, query.offset))
}

/// Candidates with their files; one whose file has gone since is left out.
fn shown(store: &dyn Store, candidates: &[Candidate]) -> Result<Vec<Hit>, Error> {
    let mut ids: Vec<i64> = candidates.iter().map(|candidate| candidate.file).collect();
    ids.sort_unstable();
    ids.dedup();
    let files: HashMap<i64, File> = store
        .files(&ids)?
        .into_iter()
        .map(|file| (file.id, file))
        .collect();
    let hit = |candidate: &Candidate| {
        let mut file = files.get(&candidate.file)?.clone();
        if file.sound.date.is_empty() {
            // As in every form of the answer: the day by which filters know it.
            file.sound.date = file.day();
        }
        let (start, end) = candidate.moment.unzip();
        let Candidate {
            score,
            similarity,
            word_coverage,
            ..
        } = *candidate;
        Some(Hit {
            rank: 0,
            score,
            similarity,
            word_coverage,
            start,
            end,
            file,
        })
    };
    Ok(candidates.iter().filter_map(hit).collect())
}

/// Gives hits their places, after those that were left out.
fn numbered(mut hits: Vec<Hit>, skip: usize) -> Vec<Hit> {
    for (place, hit) in hits.iter_mut().enumerate() {
        hit.rank = skip.saturating_add(place).saturating_add(1);
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_avoided_is_turned_away_from() {
        let (east, north) = (vec![2.0, 0.0, 0.0], vec![0.0, 5.0, 0.0]);
        let close = |got: Option<Vec<f32>>, expected: [f32; 3]| {
            let got = got.unwrap();
            assert!(
                got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6),
                "{got:?}"
            );
        };
        let half = 0.5_f32.sqrt();
        close(
            combine_queries(&[east.clone(), north.clone()], &[], 1.0),
            [half, half, 0.0],
        );
        close(
            combine_queries(std::slice::from_ref(&east), std::slice::from_ref(&north), 1.0),
            [half, -half, 0.0],
        );
        close(
            combine_queries(std::slice::from_ref(&east), std::slice::from_ref(&north), 0.0),
            [1.0, 0.0, 0.0],
        );
        assert_eq!(
            combine_queries(std::slice::from_ref(&east), std::slice::from_ref(&east), 1.0),
            None
        );
        assert_eq!(combine_queries(&[], std::slice::from_ref(&east), 1.0), None);
        assert_eq!(
            combine_queries(&[east.clone(), vec![1.0]], &[], 1.0),
            None,
            "of two dimensions"
        );
        assert_eq!(combine_queries(&[vec![0.0; 3]], &[], 1.0), None);
        assert_eq!(combine_queries(&[vec![f32::NAN; 3]], &[], 1.0), None);
        assert_eq!(combine_queries(&[east], &[north], f32::INFINITY), None);
    }

    #[test]
    fn equal_scores_have_equal_ranks() {
        assert_eq!(
            ranks([0.9, 0.5, 0.5, 0.5, 0.1].into_iter()),
            [1.0, 2.0, 2.0, 2.0, 5.0]
        );
        assert!(ranks(std::iter::empty()).is_empty());
    }
}
