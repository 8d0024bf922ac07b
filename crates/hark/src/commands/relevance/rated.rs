//! Ratings and the similarities that belong to them: what `fit` and `agree` start from.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use hark_corpus::{CaptionSet, Rating, read_ratings};
use hark_nearest::Vectors;
use hark_relevance::ratings::{Aggregate, Observation, Rated, observations};
use hark_relevance::similarity;

use crate::commands::inputs::{CaptionArgs, ModelArgs};

/// Ratings of clips for captions, and the clips' own captions.
#[derive(Debug, ClapArgs)]
pub struct RatedArgs {
    #[command(flatten)]
    pub captions: CaptionArgs,
    /// A file of ratings (query, query_file, candidate_file, group, rating from 0 to 100); may be given several times
    #[arg(long, value_name = "FILE", required = true)]
    pub ratings: Vec<PathBuf>,
    /// How the similarities of a query to all captions of the rated clip make one [mean, max, each]
    #[arg(long, value_name = "HOW", default_value = "mean")]
    pub aggregate: Aggregate,
    #[command(flatten)]
    pub model: ModelArgs,
}

/// The observations of one ratings file.
#[derive(Debug)]
pub struct RatedFile {
    /// The file.
    pub path: PathBuf,
    /// Similarity and rating (0 to 1) of each rated pair, or of each of its captions.
    pub observations: Vec<Observation>,
}

impl RatedArgs {
    /// Reads everything, embeds the captions that ratings name, and measures.
    pub fn observe(&self) -> Result<Vec<RatedFile>> {
        let sets = self.captions.read_each()?;
        let files = self
            .ratings
            .iter()
            .map(|path| Ok((path, read_ratings(path)?)))
            .collect::<Result<Vec<_>>>()?;
        let pairings = files
            .iter()
            .map(|(path, ratings)| Pairing::find(ratings, &sets).with_context(|| path.display().to_string()));
        let pairings = pairings.collect::<Result<Vec<_>>>()?;

        // Each text once, with its row among the vectors.
        let mut rows: HashMap<&str, usize> = HashMap::new();
        let mut texts: Vec<&str> = Vec::new();
        for pairing in &pairings {
            for (rating, captions) in &pairing.rated {
                for text in captions.iter().copied().chain([rating.query.as_str()]) {
                    rows.entry(text).or_insert_with(|| {
                        texts.push(text);
                        texts.len() - 1
                    });
                }
            }
        }
        let vectors = self.model.embed(&texts)?;
        let vectors = vectors.view()?;
        let measured = files.iter().zip(&pairings).map(|((path, _), pairing)| {
            let observations = self.measure(pairing, &rows, vectors)?;
            Ok(RatedFile {
                path: (*path).clone(),
                observations,
            })
        });
        measured.collect()
    }

    fn measure(
        &self,
        pairing: &Pairing<'_>,
        rows: &HashMap<&str, usize>,
        vectors: Vectors<'_>,
    ) -> Result<Vec<Observation>> {
        let mut similarities: Vec<Vec<f64>> = Vec::with_capacity(pairing.rated.len());
        for (rating, captions) in &pairing.rated {
            let query = vectors.row(rows[rating.query.as_str()]);
            let one =
                |text: &&str| similarity::dot(query, vectors.row(rows[text])).map(|h| h.clamp(-1.0, 1.0));
            similarities.push(captions.iter().map(one).collect::<Result<_, _>>()?);
        }
        let rated: Vec<Rated<'_>> = pairing
            .rated
            .iter()
            .zip(&similarities)
            .map(|((rating, _), similarities)| Rated {
                similarities,
                rating: rating.rating / 100.0,
            })
            .collect();
        Ok(observations(&rated, self.aggregate)?)
    }
}

/// The ratings of a file, each with the captions of its clip.
struct Pairing<'a> {
    rated: Vec<(&'a Rating, Vec<&'a str>)>,
}

impl<'a> Pairing<'a> {
    /// Takes the captions from the one file that has all the rated clips. Splits of a data set share some clip names, so
    /// that two files which both have them all and disagree leave no honest choice.
    fn find(ratings: &'a [Rating], sets: &'a [CaptionSet]) -> Result<Self> {
        let mut missing = None;
        let mut found: Option<(Self, &CaptionSet)> = None;
        for set in sets {
            let index = set.clip_index();
            let unknown = |rating: &&Rating| !index.contains_key(rating.candidate_clip.as_str());
            if let Some(rating) = ratings.iter().find(unknown) {
                missing = missing.or(Some(rating));
                continue;
            }
            let captions = set.captions_by_clip();
            let texts = |rating: &Rating| -> Vec<&str> {
                let clip = index[rating.candidate_clip.as_str()];
                captions[clip]
                    .iter()
                    .map(|&caption| set.captions[caption].text.as_str())
                    .collect()
            };
            let rated: Vec<_> = ratings.iter().map(|rating| (rating, texts(rating))).collect();
            if let Some((first, other)) = &found {
                if let Some((rating, _)) = rated
                    .iter()
                    .zip(&first.rated)
                    .find_map(|(a, b)| (a.1 != b.1).then_some(a))
                {
                    let (a, b) = (file(other), file(set));
                    bail!(
                        "line {}: {a} and {b} have different captions for {:?}",
                        rating.line,
                        rating.candidate_clip
                    );
                }
                continue;
            }
            found = Some((Self { rated }, set));
        }
        match (found, missing) {
            (Some((pairing, _)), _) => Ok(pairing),
            (None, Some(rating)) => bail!(
                "line {}: no caption file has all the rated clips; the first one that is missing is {:?}",
                rating.line,
                rating.candidate_clip
            ),
            (None, None) => bail!("no caption files"),
        }
    }
}

/// The file that a set was read from.
fn file(set: &CaptionSet) -> String {
    set.captions
        .first()
        .map_or_else(String::new, |caption| caption.path.display().to_string())
}
