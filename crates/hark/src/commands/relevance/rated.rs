//! Ratings and the similarities that belong to them: what `fit` and `agree` start from.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args as ClapArgs;
use hark_corpus::{rated_captions, read_ratings};
use hark_relevance::ratings::{Aggregate, Observation, RatedText, RatedTexts};

use crate::commands::inputs::{CaptionArgs, ModelArgs};

/// Ratings of clips for captions, and the clips' own captions.
#[derive(Debug, ClapArgs)]
pub struct RatedArgs {
    #[command(flatten)]
    pub captions: CaptionArgs,
    /// File of ratings with the columns query, query_file, candidate_file, group and rating (0 to 100) (repeatable)
    #[arg(long, value_name = "FILE", required = true)]
    pub ratings: Vec<PathBuf>,
    /// How to combine the similarities of a query to all captions of the rated clip [mean, max, each]
    #[arg(long, value_name = "HOW", default_value = "mean")]
    pub aggregate: Aggregate,
    #[command(flatten)]
    pub model: ModelArgs,
}

impl RatedArgs {
    /// Reads everything, embeds the captions that ratings name, and gives the observations of each ratings file.
    pub fn observe(&self) -> Result<Vec<Vec<Observation>>> {
        let sets = self.captions.read_each()?;
        let files = self
            .ratings
            .iter()
            .map(|path| read_ratings(path))
            .collect::<Result<Vec<_>, _>>()?;
        let mut rated = Vec::new();
        for (path, ratings) in self.ratings.iter().zip(&files) {
            let captions = rated_captions(ratings, path, &sets)?;
            let texts = ratings.iter().zip(captions).map(|(rating, captions)| RatedText {
                query: &rating.query,
                captions,
                rating: rating.rating / 100.0,
            });
            rated.push(texts.collect());
        }
        let texts = RatedTexts::new(rated);
        let vectors = self.model.embed(texts.texts())?;
        Ok(texts.observations(vectors.view(), self.aggregate)?)
    }
}
