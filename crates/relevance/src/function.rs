//! The functions f that turn a similarity h into a relevance g = f(h).
//!
//! Every f is non-decreasing on [-1, 1] with values in [0, 1]; parameters that would break that are refused.
//!
//! | name | formula | parameters | target of a list |
//! |---|---|---|---|
//! | `logistic` | g = 1 / (1 + exp(-(intercept + slope h))) | `intercept` = -2.73, `slope` = 4.58 | softmax |
//! | `minmax` | g = (h - lo) / (hi - lo), clamped to [0, 1] | `lo` and `hi`, or `per-batch` | softmax |
//! | `binary` | g = 1 for captions of the same clip, else 0 | none | row sum |
//! | `threshold` | g = h for h >= at, else 0 | `at` = 0.7 | row sum |
//! | `steep` | g = 1 / (1 + exp(-(slope h - shift))) | `slope` = 25, `shift` = 20 | row sum |
//!
//! `logistic` with its defaults is the paper's choice, g = 1 / (1 + exp(2.73 - 4.58 h)).

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use hark_nearest::Vectors;
use hark_work::progress::Progress;
use serde::{Deserialize, Serialize};

use crate::spec::{self, Spec};
use crate::{Error, similarity};

/// A choice of f, with its parameters.
///
/// Written as text, `name` or `name:parameter=value,...`, and in a recipe as a table with a `name`.
/// Parameters left out have their defaults. [`FromStr`] and serde check the parameters; values built by hand
/// are checked by [`RelevanceFunction::check`], which everything that applies a function calls.
///
/// ```
/// use hark_relevance::RelevanceFunction;
///
/// let f: RelevanceFunction = "logistic:slope=5".parse()?;
/// assert_eq!(f, RelevanceFunction::Logistic { intercept: -2.73, slope: 5.0 });
/// assert_eq!(f.to_string(), "logistic:intercept=-2.73,slope=5");
/// assert!(f.apply(1.0, false)? > 0.9);
///
/// let error = "logistik".parse::<RelevanceFunction>().unwrap_err();
/// assert!(error.to_string().contains("did you mean `logistic`?"));
/// # Ok::<(), hark_relevance::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum RelevanceFunction {
    /// g = 1 / (1 + exp(-(intercept + slope h))).
    Logistic {
        /// Log-odds of the relevance at h = 0.
        intercept: f64,
        /// Log-odds gained over h from 0 to 1; not negative.
        slope: f64,
    },
    /// g = (h - lo) / (hi - lo), clamped to [0, 1].
    MinMax {
        /// Where lo and hi come from.
        range: Range,
    },
    /// g = 1 for the annotated pair and for other captions of the same clip, else 0. It does not depend on h.
    Binary,
    /// g = h for h >= at, else 0.
    Threshold {
        /// The least similarity that counts, in [0, 1].
        at: f64,
    },
    /// g = 1 / (1 + exp(-(slope h - shift))).
    Steep {
        /// Log-odds gained over h from 0 to 1; not negative.
        slope: f64,
        /// Log-odds against relevance at h = 0.
        shift: f64,
    },
}

/// Where `minmax` takes its range from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// The smallest and the largest similarity between different training captions. Not known until someone
    /// has looked: see [`RelevanceFunction::with_range`].
    Training,
    /// These two numbers.
    Fixed {
        /// The similarity that has relevance 0, and all below it.
        lo: f64,
        /// The similarity that has relevance 1, and all above it.
        hi: f64,
    },
    /// The smallest and the largest similarity in the batch's own table. Its diagonal is 1, so `hi` is 1. In
    /// a batch whose captions are all the same every relevance is 1.
    PerBatch,
}

/// How the relevances of a list become a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalisation {
    /// P = softmax(G / omega).
    Softmax,
    /// P = G / sum of G.
    RowSum,
}

/// The names, in the order of the module's table.
const NAMES: [&str; 5] = ["logistic", "minmax", "binary", "threshold", "steep"];

const LOGISTIC: (f64, f64) = (-2.73, 4.58);
const THRESHOLD: f64 = 0.7;
const STEEP: (f64, f64) = (25.0, 20.0);

/// With `shift` further above `slope` than this, even a caption's relevance to its own clip would vanish in
/// 32 bits, and with it the row sum: exp(-80) is still a normal number.
const MAX_SHIFT_ABOVE_SLOPE: f64 = 80.0;

impl Default for RelevanceFunction {
    /// The paper's choice.
    fn default() -> Self {
        Self::logistic()
    }
}

impl RelevanceFunction {
    /// `logistic` with the paper's parameters, fitted to human ratings: the default.
    pub const fn logistic() -> Self {
        Self::Logistic {
            intercept: LOGISTIC.0,
            slope: LOGISTIC.1,
        }
    }

    /// The names of all functions.
    pub fn names() -> &'static [&'static str] {
        &NAMES
    }

    /// The name of this one.
    pub fn name(&self) -> &'static str {
        NAMES[match self {
            Self::Logistic { .. } => 0,
            Self::MinMax { .. } => 1,
            Self::Binary => 2,
            Self::Threshold { .. } => 3,
            Self::Steep { .. } => 4,
        }]
    }

    /// Whether the parameters make a non-decreasing function with values in [0, 1].
    ///
    /// # Errors
    ///
    /// [`Error::BadParameter`] for the first that does not.
    pub fn check(&self) -> Result<(), Error> {
        let bad = |parameter, value, reason| {
            Err(Error::BadParameter {
                owner: self.name(),
                parameter,
                value,
                reason,
            })
        };
        let parameters: &[(&'static str, f64)] = match *self {
            Self::Logistic { intercept, slope } => &[("intercept", intercept), ("slope", slope)],
            Self::MinMax {
                range: Range::Fixed { lo, hi },
            } => &[("lo", lo), ("hi", hi)],
            Self::MinMax {
                range: Range::Training | Range::PerBatch,
            }
            | Self::Binary => &[],
            Self::Threshold { at } => &[("at", at)],
            Self::Steep { slope, shift } => &[("slope", slope), ("shift", shift)],
        };
        if let Some(&(parameter, value)) = parameters.iter().find(|(_, value)| !value.is_finite()) {
            return bad(parameter, value, "it must be a finite number");
        }
        match *self {
            Self::Logistic { slope, .. } | Self::Steep { slope, .. } if slope < 0.0 => bad(
                "slope",
                slope,
                "relevance must not fall as similarity grows: it must be at least 0",
            ),
            Self::Steep { slope, shift } if shift - slope > MAX_SHIFT_ABOVE_SLOPE => bad(
                "shift",
                shift,
                "a caption would have no relevance to its own clip: at most slope + 80",
            ),
            Self::MinMax {
                range: Range::Fixed { lo, hi },
            } if lo >= hi => bad("lo", lo, "it must be below hi"),
            Self::Threshold { at } if !(0.0..=1.0).contains(&at) => bad("at", at, "it must be from 0 to 1"),
            _ => Ok(()),
        }
    }

    /// Whether this is a `minmax` that still needs the range of the training captions.
    pub fn needs_range(&self) -> bool {
        matches!(
            self,
            Self::MinMax {
                range: Range::Training
            }
        )
    }

    /// The same function with its range fixed, if it is a `minmax` that needs the range of the training
    /// captions (see [`similarity_range`](crate::similarity::similarity_range)); any other function as it is.
    ///
    /// # Errors
    ///
    /// [`Error::BadParameter`] when lo is not below hi.
    pub fn with_range(self, lo: f64, hi: f64) -> Result<Self, Error> {
        if !self.needs_range() {
            return Ok(self);
        }
        let fixed = Self::MinMax {
            range: Range::Fixed { lo, hi },
        };
        fixed.check()?;
        Ok(fixed)
    }

    /// The same function with everything known that it needs: a `minmax` without a range gets the range of
    /// similarities between different captions of `vectors`, whose texts are `texts`; any other function is
    /// returned unchanged, without reading the captions. `threads` of `None` uses the caller's rayon pool.
    ///
    /// ```
    /// use hark_relevance::{RelevanceFunction, Vectors, no_progress};
    ///
    /// let vectors = Vectors::new(&[1.0, 0.0, 0.6, 0.8, 0.0, 1.0, 1.0, 0.0], 2)?;
    /// let texts = ["rain", "wind", "birds", "rain"];
    /// let f: RelevanceFunction = "minmax".parse()?;
    /// let f = f.resolved(vectors, &texts, None, &no_progress)?;
    /// assert!((f.apply(0.8, false)? - 1.0).abs() < 1e-6);
    /// # Ok::<(), hark_relevance::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`similarity_range`](crate::similarity::similarity_range) and of
    /// [`RelevanceFunction::with_range`].
    pub fn resolved<T: AsRef<str>>(
        self,
        vectors: Vectors<'_>,
        texts: &[T],
        threads: Option<NonZeroUsize>,
        progress: Progress<'_>,
    ) -> Result<Self, Error> {
        if !self.needs_range() {
            return Ok(self);
        }
        let range = similarity::similarity_range(vectors, &similarity::same_text(texts), threads, progress)?;
        self.with_range(f64::from(range.lo), f64::from(range.hi))
    }

    /// The relevance between two captions of different clips, from their vectors, which may have any length.
    ///
    /// ```
    /// let f = hark_relevance::RelevanceFunction::logistic();
    /// let g = f.between(&[3.0, 0.0], &[1.0, 1.0])?;
    /// assert!((g - f.apply(0.5_f64.sqrt(), false)?).abs() < 1e-6);
    /// # Ok::<(), hark_relevance::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`cosine`](similarity::cosine) and of [`RelevanceFunction::apply`].
    pub fn between(&self, a: &[f32], b: &[f32]) -> Result<f64, Error> {
        self.apply(similarity::cosine(a, b)?, false)
    }

    /// The relevance of a clip to a caption, given the similarity `h` of the caption to the clip's caption
    /// and whether both are captions of the same clip. Only `binary` looks at `same_clip`; it alone ignores
    /// `h`.
    ///
    /// # Errors
    ///
    /// [`Error::BadParameter`], [`Error::RangeUnknown`] for a `minmax` without fixed range, and
    /// [`Error::NotFinite`] or [`Error::OutOfRange`] when `h` is not in [-1, 1].
    pub fn apply(&self, h: f64, same_clip: bool) -> Result<f64, Error> {
        self.check()?;
        check_similarity(0, h)?;
        self.value(h, same_clip)
    }

    /// As [`RelevanceFunction::apply`], for checked parameters and similarity.
    pub(crate) fn value(&self, h: f64, same_clip: bool) -> Result<f64, Error> {
        Ok(match *self {
            Self::Logistic { intercept, slope } => sigmoid(intercept + slope * h),
            // Halves keep the difference finite for any finite lo and hi.
            Self::MinMax {
                range: Range::Fixed { lo, hi },
            } => ((h / 2.0 - lo / 2.0) / (hi / 2.0 - lo / 2.0)).clamp(0.0, 1.0),
            Self::MinMax {
                range: Range::Training,
            } => {
                return Err(Error::RangeUnknown {
                    reason: "give lo and hi, or find the range of the training captions first",
                });
            }
            Self::MinMax {
                range: Range::PerBatch,
            } => {
                return Err(Error::RangeUnknown {
                    reason: "per-batch has one only within a batch",
                });
            }
            Self::Binary => f64::from(u8::from(same_clip)),
            Self::Threshold { at } => {
                if h >= at {
                    h
                } else {
                    0.0
                }
            }
            Self::Steep { slope, shift } => sigmoid(slope * h - shift),
        })
    }

    /// How relevances of this function become the target of a list. The softmax spreads relevances that are
    /// all moderate; the others are sparse already, and a softmax would give weight to their zeros.
    pub fn normalisation(&self) -> Normalisation {
        match self {
            Self::Logistic { .. } | Self::MinMax { .. } => Normalisation::Softmax,
            Self::Binary | Self::Threshold { .. } | Self::Steep { .. } => Normalisation::RowSum,
        }
    }
}

/// Refuses what is not a similarity.
pub(crate) fn check_similarity(position: usize, h: f64) -> Result<(), Error> {
    if !h.is_finite() {
        return Err(Error::NotFinite {
            what: "similarity",
            position,
            value: h,
        });
    }
    if !(-1.0..=1.0).contains(&h) {
        return Err(Error::OutOfRange {
            what: "similarity",
            position,
            value: h,
            low: -1.0,
            high: 1.0,
        });
    }
    Ok(())
}

/// 1 / (1 + exp(-x)). exp overflows to infinity for very negative x, which gives the right limit, 0.
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl fmt::Display for RelevanceFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Logistic { intercept, slope } => write!(f, ":intercept={intercept},slope={slope}"),
            Self::MinMax {
                range: Range::Fixed { lo, hi },
            } => write!(f, ":lo={lo},hi={hi}"),
            Self::MinMax {
                range: Range::PerBatch,
            } => f.write_str(":per-batch"),
            Self::MinMax {
                range: Range::Training,
            }
            | Self::Binary => Ok(()),
            Self::Threshold { at } => write!(f, ":at={at}"),
            Self::Steep { slope, shift } => write!(f, ":slope={slope},shift={shift}"),
        }
    }
}

impl FromStr for RelevanceFunction {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut spec = Spec::parse(text)?;
        let (function, known): (Self, &[&'static str]) = match spec.name {
            "logistic" => {
                let intercept = spec.number("intercept")?.unwrap_or(LOGISTIC.0);
                let slope = spec.number("slope")?.unwrap_or(LOGISTIC.1);
                (Self::Logistic { intercept, slope }, &["intercept", "slope"])
            }
            "minmax" => {
                let (lo, hi) = (spec.number("lo")?, spec.number("hi")?);
                let range = range(lo, hi, spec.word("per-batch")?).map_err(|reason| spec.syntax(reason))?;
                (Self::MinMax { range }, &["lo", "hi", "per-batch"])
            }
            "binary" => (Self::Binary, &[]),
            "threshold" => {
                let at = spec.number("at")?.unwrap_or(THRESHOLD);
                (Self::Threshold { at }, &["at"])
            }
            "steep" => {
                let slope = spec.number("slope")?.unwrap_or(STEEP.0);
                let shift = spec.number("shift")?.unwrap_or(STEEP.1);
                (Self::Steep { slope, shift }, &["slope", "shift"])
            }
            name => return Err(spec::unknown("relevance function", name, &NAMES)),
        };
        spec.finish(function.name(), known)?;
        function.check()?;
        Ok(function)
    }
}

fn range(lo: Option<f64>, hi: Option<f64>, per_batch: bool) -> Result<Range, &'static str> {
    match (lo, hi, per_batch) {
        (None, None, false) => Ok(Range::Training),
        (None, None, true) => Ok(Range::PerBatch),
        (Some(lo), Some(hi), false) => Ok(Range::Fixed { lo, hi }),
        (_, _, true) => Err("per-batch excludes lo and hi"),
        _ => Err("minmax takes both lo and hi, or neither"),
    }
}

/// A function as a recipe writes it: a TOML table with its name and parameters.
#[derive(Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
enum Written {
    Logistic {
        #[serde(default = "Written::intercept")]
        intercept: f64,
        #[serde(default = "Written::slope")]
        slope: f64,
    },
    Minmax {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lo: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hi: Option<f64>,
        #[serde(default, rename = "per-batch", skip_serializing_if = "std::ops::Not::not")]
        per_batch: bool,
    },
    Binary {},
    Threshold {
        #[serde(default = "Written::at")]
        at: f64,
    },
    Steep {
        #[serde(default = "Written::steep_slope")]
        slope: f64,
        #[serde(default = "Written::shift")]
        shift: f64,
    },
}

/// serde takes defaults only as paths to functions.
impl Written {
    fn intercept() -> f64 {
        LOGISTIC.0
    }

    fn slope() -> f64 {
        LOGISTIC.1
    }

    fn at() -> f64 {
        THRESHOLD
    }

    fn steep_slope() -> f64 {
        STEEP.0
    }

    fn shift() -> f64 {
        STEEP.1
    }
}

impl From<RelevanceFunction> for Written {
    fn from(function: RelevanceFunction) -> Self {
        match function {
            RelevanceFunction::Logistic { intercept, slope } => Self::Logistic { intercept, slope },
            RelevanceFunction::MinMax { range } => {
                let (lo, hi) = match range {
                    Range::Fixed { lo, hi } => (Some(lo), Some(hi)),
                    Range::Training | Range::PerBatch => (None, None),
                };
                Self::Minmax {
                    lo,
                    hi,
                    per_batch: range == Range::PerBatch,
                }
            }
            RelevanceFunction::Binary => Self::Binary {},
            RelevanceFunction::Threshold { at } => Self::Threshold { at },
            RelevanceFunction::Steep { slope, shift } => Self::Steep { slope, shift },
        }
    }
}

impl TryFrom<Written> for RelevanceFunction {
    type Error = Error;

    fn try_from(table: Written) -> Result<Self, Error> {
        let function = match table {
            Written::Logistic { intercept, slope } => Self::Logistic { intercept, slope },
            Written::Minmax { lo, hi, per_batch } => {
                let range = range(lo, hi, per_batch).map_err(|reason| Error::Syntax {
                    text: "minmax".into(),
                    reason,
                })?;
                Self::MinMax { range }
            }
            Written::Binary {} => Self::Binary,
            Written::Threshold { at } => Self::Threshold { at },
            Written::Steep { slope, shift } => Self::Steep { slope, shift },
        };
        function.check()?;
        Ok(function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RelevanceFunction {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn refused(text: &str) -> String {
        text.parse::<RelevanceFunction>().expect_err(text).to_string()
    }

    #[test]
    fn defaults_are_those_of_the_paper() {
        assert_eq!(parse("logistic"), RelevanceFunction::default());
        let g = |text: &str, h| parse(text).apply(h, false).unwrap();
        for h in [-1.0, 0.0, 0.3, 1.0_f64] {
            let paper = 1.0 / (1.0 + (2.73 - 4.58 * h).exp());
            assert!((g("logistic", h) - paper).abs() < 1e-15);
            let steep = 1.0 / (1.0 + (-(25.0 * h - 20.0)).exp());
            assert!((g("steep", h) - steep).abs() < 1e-15);
        }
        assert_eq!(g("threshold", 0.7), 0.7);
        assert_eq!(g("threshold", 0.6999), 0.0);
        assert_eq!(
            [-1.0, -0.2, 0.4, 1.0].map(|h| g("minmax:lo=-0.2,hi=0.4", h)),
            [0.0, 0.0, 1.0, 1.0]
        );
        assert!((g("minmax:lo=-0.2,hi=0.4", 0.1) - 0.5).abs() < 1e-15);
    }

    #[test]
    fn binary_looks_at_the_clip_alone() {
        for h in [-1.0, 0.0, 1.0] {
            assert_eq!(RelevanceFunction::Binary.apply(h, true), Ok(1.0));
            assert_eq!(RelevanceFunction::Binary.apply(h, false), Ok(0.0));
        }
    }

    #[test]
    fn text_goes_round() {
        for text in [
            "logistic:intercept=-2.73,slope=4.58",
            "minmax",
            "minmax:lo=-0.2,hi=1",
            "minmax:per-batch",
            "binary",
            "threshold:at=0.7",
            "steep:slope=25,shift=20",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
        assert_eq!(
            parse("steep: shift = 10 , slope=2").to_string(),
            "steep:slope=2,shift=10"
        );
    }

    #[test]
    fn mistakes_are_named_with_what_exists() {
        let all = "there are: logistic, minmax, binary, threshold, steep";
        assert_eq!(
            refused("logstic"),
            format!("no relevance function is called `logstic` (did you mean `logistic`?); {all}")
        );
        assert_eq!(
            refused("qqq"),
            format!("no relevance function is called `qqq`; {all}")
        );
        assert_eq!(
            refused("logistic:slop=3"),
            "`logistic` has no parameter `slop` (did you mean `slope`?); it has: intercept, slope"
        );
        assert_eq!(
            refused("binary:at=1"),
            "`binary` has no parameter `at`; it has none"
        );
        assert_eq!(
            refused("minmax:lo=1"),
            "`minmax:lo=1`: minmax takes both lo and hi, or neither"
        );
        assert_eq!(
            refused("minmax:per-batch,lo=0,hi=1"),
            "`minmax:per-batch,lo=0,hi=1`: per-batch excludes lo and hi"
        );
        assert_eq!(
            refused("threshold:at=half"),
            "`threshold:at=half`: a value is not a number"
        );
        assert_eq!(
            refused("threshold:at"),
            "`threshold:at`: a parameter has no value"
        );
        assert_eq!(
            refused("threshold:at=1,at=0"),
            "`threshold:at=1,at=0`: a parameter is given twice"
        );
        assert_eq!(refused("threshold:"), "`threshold:`: a parameter has no name");
        assert_eq!(
            refused("minmax:per-batch=1"),
            "`minmax:per-batch=1`: this parameter takes no value"
        );
    }

    #[test]
    fn parameters_that_make_no_relevance_are_refused() {
        for text in [
            "logistic:slope=-1",
            "logistic:intercept=nan",
            "logistic:slope=inf",
            "minmax:lo=1,hi=1",
            "minmax:lo=0,hi=nan",
            "threshold:at=-0.1",
            "threshold:at=1.1",
            "steep:slope=-2",
            "steep:slope=0,shift=81",
        ] {
            let error = text.parse::<RelevanceFunction>().unwrap_err();
            assert!(matches!(error, Error::BadParameter { .. }), "{text}: {error}");
        }
        // Built by hand, without a parser in between.
        let by_hand = RelevanceFunction::Logistic {
            intercept: 0.0,
            slope: -1.0,
        };
        assert!(matches!(
            by_hand.apply(0.5, false),
            Err(Error::BadParameter { .. })
        ));
    }

    #[test]
    fn similarities_that_are_none_are_refused() {
        let f = RelevanceFunction::default();
        assert!(matches!(f.apply(f64::NAN, false), Err(Error::NotFinite { .. })));
        assert!(matches!(f.apply(1.01, false), Err(Error::OutOfRange { .. })));
    }

    #[test]
    fn minmax_waits_for_its_range() {
        let training = parse("minmax");
        assert!(training.needs_range());
        assert!(matches!(
            training.apply(0.5, false),
            Err(Error::RangeUnknown { .. })
        ));
        assert_eq!(
            training.with_range(-0.2, 1.0).unwrap().to_string(),
            "minmax:lo=-0.2,hi=1"
        );
        assert!(matches!(
            training.with_range(1.0, 1.0),
            Err(Error::BadParameter { .. })
        ));
        let fixed = parse("minmax:lo=0,hi=1");
        assert_eq!(fixed.with_range(-0.2, 0.9), Ok(fixed));
        assert!(matches!(
            parse("minmax:per-batch").apply(0.5, false),
            Err(Error::RangeUnknown { .. })
        ));
    }

    #[test]
    fn tables_go_round() {
        for (text, table) in [
            (
                "logistic",
                r#"{"name":"logistic","intercept":-2.73,"slope":4.58}"#,
            ),
            ("minmax", r#"{"name":"minmax"}"#),
            ("minmax:lo=-0.2,hi=1", r#"{"name":"minmax","lo":-0.2,"hi":1.0}"#),
            ("minmax:per-batch", r#"{"name":"minmax","per-batch":true}"#),
            ("binary", r#"{"name":"binary"}"#),
            ("threshold:at=0.5", r#"{"name":"threshold","at":0.5}"#),
            ("steep", r#"{"name":"steep","slope":25.0,"shift":20.0}"#),
        ] {
            assert_eq!(serde_json::to_string(&parse(text)).unwrap(), table);
            assert_eq!(
                serde_json::from_str::<RelevanceFunction>(table).unwrap(),
                parse(text)
            );
        }
        let left_out: RelevanceFunction = serde_json::from_str(r#"{"name":"logistic","slope":5}"#).unwrap();
        assert_eq!(left_out, parse("logistic:slope=5"));
    }

    #[test]
    fn bad_tables_are_refused() {
        for (table, needle) in [
            (r#"{"name":"logistic","slop":5}"#, "unknown field `slop`"),
            (r#"{"name":"binary","at":5}"#, "unknown field `at`"),
            (r#"{"name":"linear"}"#, "unknown variant `linear`"),
            (r#"{"slope":5}"#, "missing field `name`"),
            (r#"{"name":"threshold","at":2}"#, "from 0 to 1"),
            (r#"{"name":"minmax","lo":0}"#, "both lo and hi"),
        ] {
            let error = serde_json::from_str::<RelevanceFunction>(table)
                .unwrap_err()
                .to_string();
            assert!(error.contains(needle), "{table}: {error}");
        }
    }
}
