//! Distilling a sentence encoder into a static one.
//!
//! In: captions, and a teacher that gives vectors for any text. Out: the [`Parts`] of a
//! [`StaticEncoder`](hark_encode::sentence::StaticEncoder) whose similarities follow the teacher's. The way:
//!
//! 1. choose the units (`units.rs`): words of the captions, more of the teacher's own words, pieces of words, pairs of words;
//! 2. find the leading directions (`subspace.rs`) of the captions' teacher vectors;
//! 3. begin with the teacher's vector of each single word in these directions, weighted down by how common the word is
//!    (a / (a + p), Arora et al. 2017); pairs begin at zero;
//! 4. fit (`fit.rs`) to the teacher's similarities; half of every batch is random captions, half a near neighbour of each.
//!
//! The same seed gives the same bytes.

mod fit;
mod save;
mod subspace;
mod units;

use std::num::NonZeroUsize;

use hark_encode::sentence::Parts;
use hark_encode::sentence::lexicon::Lexicon;
use hark_nearest::{Vectors, exact};

use crate::Error;
use fit::{Batch, Student};
use hark_work::progress::Progress;
use hark_work::random::Random;
pub use save::Saved;

/// The constant a of step 3: words more frequent than one in a thousand lose weight.
const COMMON: f64 = 1e-3;
/// Neighbours of a caption among which a batch draws.
const NEIGHBOURS: usize = 10;
/// The rate rises over this many steps.
const WARM_UP: usize = 50;

/// How to distil.
#[derive(Debug, Clone)]
pub struct Options {
    /// Length of the student's vectors.
    pub dim: usize,
    /// Units at most: words, pieces and pairs together.
    pub units: usize,
    /// Pieces of words at most.
    pub pieces: usize,
    /// Pairs of words at most.
    pub pairs: usize,
    /// Passes over the captions.
    pub epochs: usize,
    /// Captions in a batch.
    pub batch: usize,
    /// The largest step size; it falls to nothing along a half cosine.
    pub rate: f32,
    /// Decides every random choice.
    pub seed: u64,
    /// Threads for the neighbour search.
    pub threads: NonZeroUsize,
}

/// As options of `hark models distil`.
impl std::fmt::Display for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "--dim {} --units {} --pieces {} --pairs {} --epochs {} --batch {} --rate {} --seed {}",
            self.dim, self.units, self.pieces, self.pairs, self.epochs, self.batch, self.rate, self.seed
        )
    }
}

/// Texts to vectors of length 1, one after the other.
pub type Embed<'a> = &'a mut dyn FnMut(&[&str]) -> Result<Vec<f32>, hark_encode::Error>;

/// The encoder to learn from.
pub struct Teacher<'a> {
    /// Length of its vectors.
    pub dim: usize,
    /// Its tokens, in the order of their ids; pieces that continue a word begin with `##`.
    pub vocabulary: Vec<String>,
    /// Its vectors.
    pub embed: Embed<'a>,
}

/// What was made.
#[derive(Debug)]
pub struct Distilled {
    /// The encoder's numbers.
    pub parts: Parts,
    /// The mean loss of every pass.
    pub losses: Vec<f32>,
    /// How many units are words or pieces.
    pub words: usize,
    /// How many units are pairs.
    pub pairs: usize,
    /// Different captions that were fitted on.
    pub captions: usize,
}

/// Distils the teacher on these captions. `progress` gets the steps done and all steps of the fit.
///
/// # Errors
/// [`Error::TooFew`], [`Error::Option`], [`Error::Diverged`], [`Error::Cancelled`], and what the teacher returns.
pub fn distil(
    captions: &[&str],
    teacher: &mut Teacher<'_>,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Distilled, Error> {
    let mut different: Vec<&str> = captions.iter().map(|caption| caption.trim()).collect();
    different.sort_unstable();
    different.dedup();
    let captions = different;
    options.check(captions.len(), teacher.dim)?;
    let mut random = Random::new(options.seed);

    let units = units::choose(
        &captions,
        &teacher.vocabulary,
        options.units,
        options.pieces,
        options.pairs,
    );
    let teacher_vectors = (teacher.embed)(&captions)?;
    let teacher_dim = teacher.dim;
    let vectors = Vectors::new(&teacher_vectors, teacher_dim)?;
    let basis = subspace::leading(vectors, options.dim, &mut random)?;
    let basis = Vectors::new(&basis, teacher_dim)?;
    let mut targets = exact::products(vectors, basis)?;
    for target in targets.chunks_exact_mut(options.dim) {
        let length = target.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-6);
        for x in target.iter_mut() {
            *x /= length;
        }
    }
    let rows = begin(&units, basis, &mut *teacher.embed)?;
    let near = {
        let exact_options = exact::Options {
            groups: None,
            threads: Some(options.threads),
        };
        exact::neighbours(
            vectors,
            NEIGHBOURS,
            exact_options,
            &hark_work::progress::no_progress,
        )?
    };

    let lexicon = Lexicon::new(units.all());
    let bags: Vec<Vec<u32>> = captions.iter().map(|caption| lexicon.units(caption)).collect();
    let mut student = Student::new(rows, options.dim);
    let half = options.batch / 2;
    let steps_per_epoch = captions.len() / half;
    let steps = options.epochs * steps_per_epoch;
    let mut losses = Vec::with_capacity(options.epochs);
    let mut order: Vec<usize> = (0..captions.len()).collect();
    for epoch in 0..options.epochs {
        random.shuffle(&mut order);
        let mut total = 0.0;
        for (nth, drawn) in order.chunks_exact(half).enumerate() {
            let step = epoch * steps_per_epoch + nth;
            if progress(step as u64, steps as u64).is_break() {
                return Err(Error::Cancelled);
            }
            let neighbour = |&caption: &usize| {
                let (ids, _) = near.row(caption);
                ids[random.below(ids.len())] as usize
            };
            let mut chosen = drawn.to_vec();
            chosen.extend(drawn.iter().map(neighbour));
            let gather = |from: &[f32], dim: usize| -> Vec<f32> {
                chosen
                    .iter()
                    .flat_map(|&caption| &from[caption * dim..][..dim])
                    .copied()
                    .collect()
            };
            let batch = Batch {
                units: chosen.iter().map(|&caption| bags[caption].as_slice()).collect(),
                teacher: gather(&teacher_vectors, teacher_dim),
                targets: gather(&targets, options.dim),
            };
            total += match student.learn(&batch, rate(options.rate, step, steps)) {
                // Vectors that are no numbers are refused by the first product.
                Err(hark_nearest::Error::NotFinite { value, .. }) => {
                    return Err(Error::Diverged {
                        epoch: epoch + 1,
                        loss: value,
                    });
                }
                other => other?,
            };
        }
        let loss = total / steps_per_epoch as f32;
        if !loss.is_finite() {
            return Err(Error::Diverged {
                epoch: epoch + 1,
                loss,
            });
        }
        losses.push(loss);
    }
    let _ = progress(steps as u64, steps as u64);
    let (words, pairs) = (units.words.len(), units.pairs.len());
    Ok(Distilled {
        parts: quantise(&student, &units),
        losses,
        words,
        pairs,
        captions: captions.len(),
    })
}

impl Options {
    fn check(&self, captions: usize, teacher_dim: usize) -> Result<(), Error> {
        let wrong = |option, value, allowed| {
            Err(Error::Option {
                option,
                value,
                allowed,
            })
        };
        let least = [
            ("dim", self.dim, 2),
            ("epochs", self.epochs, 1),
            ("batch", self.batch, 4),
        ];
        for (option, value, least) in least {
            if value < least {
                return wrong(option, value.to_string(), format!("at least {least}"));
            }
        }
        if self.dim > teacher_dim {
            return wrong(
                "dim",
                self.dim.to_string(),
                format!("at most the teacher's {teacher_dim}"),
            );
        }
        if self.units <= self.pieces + self.pairs {
            let others = self.pieces + self.pairs;
            return wrong(
                "units",
                self.units.to_string(),
                format!("more than the {others} pieces and pairs"),
            );
        }
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return wrong("rate", self.rate.to_string(), "a positive number".to_owned());
        }
        if captions < self.batch {
            return Err(Error::TooFew {
                got: captions,
                needed: self.batch,
            });
        }
        Ok(())
    }
}

/// Up over the first steps, then down along a half cosine.
fn rate(largest: f32, step: usize, steps: usize) -> f32 {
    let rise = ((step + 1) as f32 / WARM_UP as f32).min(1.0);
    let fall = 0.5 * (1.0 + (std::f32::consts::PI * step as f32 / steps as f32).cos());
    largest * rise * fall.max(1e-3)
}

/// The table to begin with, `[units + 1, dim]`: words where the teacher has them, pairs and the bias at zero.
fn begin(units: &units::Units, basis: Vectors<'_>, embed: Embed<'_>) -> Result<Vec<f32>, Error> {
    let texts: Vec<&str> = units
        .words
        .iter()
        .map(|word| word.trim_start_matches('#'))
        .collect();
    let alone = embed(&texts)?;
    let mut rows = exact::products(Vectors::new(&alone, basis.dim())?, basis)?;
    let all: u64 = units.counts.iter().sum();
    for (row, &count) in rows.chunks_exact_mut(basis.rows()).zip(&units.counts) {
        // Half an occurrence for a word that was not seen: rare, and not infinitely so.
        let share = (count as f64).max(0.5) / all.max(1) as f64;
        let weight = (COMMON / (COMMON + share)) as f32;
        for x in row.iter_mut() {
            *x *= weight;
        }
    }
    rows.resize(rows.len() + (units.pairs.len() + 1) * basis.rows(), 0.0);
    Ok(rows)
}

/// Eight bits a number, with a scale for each row.
fn quantise(student: &Student, units: &units::Units) -> Parts {
    let (table, bias) = student.rows.split_at(student.rows.len() - student.dim);
    let mut vectors = Vec::with_capacity(table.len());
    let mut scales = Vec::with_capacity(table.len() / student.dim);
    for row in table.chunks_exact(student.dim) {
        let scale = row.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / 127.0;
        scales.push(scale);
        vectors.extend(
            row.iter()
                .map(|x| if scale > 0.0 { (x / scale).round() as i8 } else { 0 }),
        );
    }
    Parts {
        units: units.all().map(str::to_owned).collect(),
        vectors,
        scales,
        bias: bias.to_vec(),
    }
}
