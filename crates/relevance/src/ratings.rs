//! Ratings and similarities to the observations of a fit.
//!
//! People rated how well clips match queries. A rated clip has several captions, each with its own similarity
//! to the query: [`Aggregate`] says how they make one h. Beta regression needs ratings strictly between 0 and
//! 1: [`Bound`] says how those at the ends are moved inside. The paper's constants come from the mean and
//! from clipping to [0.001, 0.999].

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use hark_nearest::Vectors;

use crate::function::check_similarity;
use crate::{Error, similarity, spec};

/// One row of a regression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Similarity h of the query and the captions of the rated clip, in [-1, 1].
    pub similarity: f64,
    /// Rating, scaled to [0, 1].
    pub rating: f64,
}

/// A rated clip: the similarities of the query to its captions, and the rating.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rated<'a> {
    /// Similarity of the query to each caption of the clip; at least one.
    pub similarities: &'a [f64],
    /// Rating, scaled to [0, 1].
    pub rating: f64,
}

/// How the similarities to several captions of a clip make one h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aggregate {
    /// Their mean: the choice that gives the paper's constants.
    #[default]
    Mean,
    /// The largest.
    Max,
    /// One observation for each caption, all with the clip's rating.
    Each,
}

/// How ratings of 0 and 1 are moved inside the open interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// Every rating is clipped to [by, 1 - by].
    Clip {
        /// Distance kept from both ends, above 0 and below 1/2.
        by: f64,
    },
    /// y becomes (y (n - 1) + 1/2) / n with n observations (Smithson and Verkuilen, 2006).
    Squeeze,
}

impl Default for Bound {
    /// The choice that gives the paper's constants.
    fn default() -> Self {
        Self::Clip { by: CLIP }
    }
}

const CLIP: f64 = 0.001;

/// Observations from rated clips.
///
/// ```
/// use hark_relevance::ratings::{Aggregate, Rated, observations};
///
/// let rated = [Rated { similarities: &[0.25, 0.75], rating: 0.4 }];
/// assert_eq!(observations(&rated, Aggregate::Mean)?[0].similarity, 0.5);
/// assert_eq!(observations(&rated, Aggregate::Each)?.len(), 2);
/// # Ok::<(), hark_relevance::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::TooFew`] for a clip without captions, [`Error::NotFinite`] and [`Error::OutOfRange`] for a rating
/// outside [0, 1] or a similarity outside [-1, 1]; the position is that of the rated clip.
pub fn observations(rated: &[Rated<'_>], aggregate: Aggregate) -> Result<Vec<Observation>, Error> {
    let mut observations = Vec::with_capacity(rated.len());
    for (position, &Rated { similarities, rating }) in rated.iter().enumerate() {
        check_rating(position, rating)?;
        if similarities.is_empty() {
            return Err(Error::TooFew { needed: 1, got: 0 });
        }
        for &similarity in similarities {
            check_similarity(position, similarity)?;
        }
        let mut add = |similarity| observations.push(Observation { similarity, rating });
        match aggregate {
            Aggregate::Mean => add(similarities.iter().sum::<f64>() / similarities.len() as f64),
            Aggregate::Max => add(similarities.iter().copied().fold(-1.0, f64::max)),
            Aggregate::Each => similarities.iter().copied().for_each(add),
        }
    }
    Ok(observations)
}

/// A rated clip before anything was embedded.
#[derive(Debug, Clone, PartialEq)]
pub struct RatedText<'a> {
    /// The query that the clip was rated for.
    pub query: &'a str,
    /// The captions of the rated clip; at least one.
    pub captions: Vec<&'a str>,
    /// Rating, scaled to [0, 1].
    pub rating: f64,
}

/// The texts of several files of ratings, each once, for a sentence encoder; then the observations of each file, from
/// the vectors.
///
/// ```
/// use hark_relevance::Vectors;
/// use hark_relevance::ratings::{Aggregate, RatedText, RatedTexts};
///
/// let rated = vec![RatedText { query: "rain", captions: vec!["rain", "wind"], rating: 0.7 }];
/// let texts = RatedTexts::new(vec![rated]);
/// assert_eq!(texts.texts(), ["rain", "wind"]);
/// let vectors = Vectors::new(&[1.0, 0.0, 0.6, 0.8], 2)?;
/// let files = texts.observations(vectors, Aggregate::Mean)?;
/// assert!((files[0][0].similarity - 0.8).abs() < 1e-6);
/// # Ok::<(), hark_relevance::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RatedTexts<'a> {
    files: Vec<Vec<RatedText<'a>>>,
    texts: Vec<&'a str>,
    rows: HashMap<&'a str, usize>,
}

impl<'a> RatedTexts<'a> {
    /// Collects the texts of several files.
    pub fn new(files: Vec<Vec<RatedText<'a>>>) -> Self {
        let mut rows = HashMap::new();
        let mut texts = Vec::new();
        for RatedText { query, captions, .. } in files.iter().flatten() {
            for &text in captions.iter().chain([query]) {
                rows.entry(text).or_insert_with(|| {
                    texts.push(text);
                    texts.len() - 1
                });
            }
        }
        Self { files, texts, rows }
    }

    /// The texts to embed, in order of first appearance.
    pub fn texts(&self) -> &[&'a str] {
        &self.texts
    }

    /// The observations of each file, from the unit vectors of [`RatedTexts::texts`].
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] unless there is one vector for each text, and those of [`observations`].
    pub fn observations(
        &self,
        vectors: Vectors<'_>,
        aggregate: Aggregate,
    ) -> Result<Vec<Vec<Observation>>, Error> {
        if vectors.rows() != self.texts.len() {
            return Err(Error::LengthMismatch {
                what: "vectors",
                expected: self.texts.len(),
                got: vectors.rows(),
            });
        }
        let row = |text: &str| vectors.row(self.rows[text]);
        let of_file = |rated: &Vec<RatedText<'_>>| {
            let mut similarities: Vec<Vec<f64>> = Vec::with_capacity(rated.len());
            for RatedText { query, captions, .. } in rated {
                let one = |caption: &&str| Ok(similarity::dot(row(query), row(caption))?.clamp(-1.0, 1.0));
                similarities.push(captions.iter().map(one).collect::<Result<_, Error>>()?);
            }
            let rated = rated
                .iter()
                .zip(&similarities)
                .map(|(rated, similarities)| Rated {
                    similarities,
                    rating: rated.rating,
                });
            observations(&rated.collect::<Vec<_>>(), aggregate)
        };
        self.files.iter().map(of_file).collect()
    }
}

impl Bound {
    /// Whether the parameter makes a bound.
    ///
    /// # Errors
    ///
    /// [`Error::BadParameter`].
    pub fn check(&self) -> Result<(), Error> {
        match *self {
            Self::Clip { by } if !(by > 0.0 && by < 0.5) => Err(Error::BadParameter {
                owner: "clip",
                parameter: "by",
                value: by,
                reason: "it must be above 0 and below 0.5",
            }),
            _ => Ok(()),
        }
    }

    /// The observations with every rating strictly between 0 and 1.
    ///
    /// # Errors
    ///
    /// [`Error::BadParameter`], [`Error::NotFinite`] and [`Error::OutOfRange`] for a rating outside [0, 1].
    pub fn apply(&self, observations: &[Observation]) -> Result<Vec<Observation>, Error> {
        self.check()?;
        let count = observations.len() as f64;
        let bounded = |rating: f64| match *self {
            Self::Clip { by } => rating.clamp(by, 1.0 - by),
            Self::Squeeze => (rating * (count - 1.0) + 0.5) / count,
        };
        let mut inside = Vec::with_capacity(observations.len());
        for (position, &Observation { similarity, rating }) in observations.iter().enumerate() {
            check_rating(position, rating)?;
            inside.push(Observation {
                similarity,
                rating: bounded(rating),
            });
        }
        Ok(inside)
    }
}

fn check_rating(position: usize, rating: f64) -> Result<(), Error> {
    if !rating.is_finite() {
        return Err(Error::NotFinite {
            what: "rating",
            position,
            value: rating,
        });
    }
    if !(0.0..=1.0).contains(&rating) {
        return Err(Error::OutOfRange {
            what: "rating",
            position,
            value: rating,
            low: 0.0,
            high: 1.0,
        });
    }
    Ok(())
}

const AGGREGATES: [&str; 3] = ["mean", "max", "each"];

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mean => "mean",
            Self::Max => "max",
            Self::Each => "each",
        })
    }
}

impl FromStr for Aggregate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "mean" => Ok(Self::Mean),
            "max" => Ok(Self::Max),
            "each" => Ok(Self::Each),
            name => Err(spec::unknown("aggregate", name, &AGGREGATES)),
        }
    }
}

const BOUNDS: [&str; 2] = ["a number such as 0.001", "squeeze"];

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clip { by } => write!(f, "{by}"),
            Self::Squeeze => f.write_str("squeeze"),
        }
    }
}

impl FromStr for Bound {
    type Err = Error;

    /// A number is the distance of [`Bound::Clip`]; the other choice is called `squeeze`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bound = match (text.parse(), text) {
            (Ok(by), _) => Self::Clip { by },
            (_, "squeeze") => Self::Squeeze,
            (_, name) => return Err(spec::unknown("bound", name, &BOUNDS)),
        };
        bound.check()?;
        Ok(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captions_make_one_similarity_or_many() {
        let rated = [
            Rated {
                similarities: &[0.2, 0.4, 0.9],
                rating: 0.3,
            },
            Rated {
                similarities: &[-0.5],
                rating: 1.0,
            },
        ];
        let of = |aggregate| {
            let found = observations(&rated, aggregate).unwrap();
            found
                .iter()
                .map(|observation| (observation.similarity, observation.rating))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(Aggregate::Mean), [(0.5, 0.3), (-0.5, 1.0)]);
        assert_eq!(of(Aggregate::Max), [(0.9, 0.3), (-0.5, 1.0)]);
        assert_eq!(
            of(Aggregate::Each),
            [(0.2, 0.3), (0.4, 0.3), (0.9, 0.3), (-0.5, 1.0)]
        );
    }

    #[test]
    fn bad_ratings_are_refused() {
        let refused = |similarities: &[f64], rating| {
            observations(&[Rated { similarities, rating }], Aggregate::Mean).unwrap_err()
        };
        assert!(matches!(
            refused(&[0.5], 50.0),
            Error::OutOfRange { what: "rating", .. }
        ));
        assert!(matches!(
            refused(&[0.5], f64::NAN),
            Error::NotFinite { what: "rating", .. }
        ));
        assert!(matches!(
            refused(&[0.5, 1.5], 0.5),
            Error::OutOfRange {
                what: "similarity",
                ..
            }
        ));
        assert!(matches!(refused(&[], 0.5), Error::TooFew { needed: 1, got: 0 }));
    }

    #[test]
    fn bounds_move_ratings_inside() {
        let data = [0.0, 0.25, 1.0].map(|rating| Observation {
            similarity: 0.5,
            rating,
        });
        let ratings = |bound: Bound| {
            let bounded = bound.apply(&data).unwrap();
            bounded
                .iter()
                .map(|observation| observation.rating)
                .collect::<Vec<_>>()
        };
        assert_eq!(ratings(Bound::default()), [0.001, 0.25, 0.999]);
        assert_eq!(ratings(Bound::Squeeze), [0.5 / 3.0, 1.0 / 3.0, 2.5 / 3.0]);
        let outside = [Observation {
            similarity: 0.5,
            rating: -0.1,
        }];
        assert!(matches!(
            Bound::Squeeze.apply(&outside),
            Err(Error::OutOfRange { .. })
        ));
    }

    #[test]
    fn text_goes_round() {
        for text in ["mean", "max", "each"] {
            assert_eq!(text.parse::<Aggregate>().unwrap().to_string(), text);
        }
        for text in ["0.01", "squeeze"] {
            assert_eq!(text.parse::<Bound>().unwrap().to_string(), text);
        }
        assert_eq!("0.001".parse(), Ok(Bound::default()));
        assert_eq!(
            "means".parse::<Aggregate>().unwrap_err().to_string(),
            "no aggregate is called `means` (did you mean `mean`?); there are: mean, max, each"
        );
        for text in ["0", "0.5", "nan", "clip", "squeeze:by=0.1", "squeze"] {
            assert!(text.parse::<Bound>().is_err(), "{text}");
        }
    }
}
