//! Relevance beyond the annotated pairs: human ratings, caption similarity, the scenes of soundscapes, annotations.
//!
//! In: a source and a split. Out: for each judged caption, clips with gains from 0 to 1. Refused: captions and clips that
//! the split does not have, a pair that is judged twice, gains out of range.
//!
//! Files are CSV. Ratings (`query,query_file,candidate_file,group,rating`): several ratings of one pair are averaged, and
//! a rating of 100 is a gain of 1. Annotations (`query,clip` or `caption,file_name`, optionally `relevance`): the query is
//! a caption of the split or its id. Without a column `relevance`, every named clip has a gain of 1, and so has the clip
//! that the caption was written for, whether it is named or not; with one, gains are taken as they are.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use hark_corpus::{Dataset, DatasetConfig, read_ratings};
use hark_metrics::{GradedReport, Options, WithIds, evaluate_graded};
use hark_nearest::Vectors;
use hark_relevance::{RelevanceFunction, similarity};
use hark_soundscape::{Split, Truth as Scenes};

use crate::Error;
use crate::retrieval::{SplitEmbeddings, caption_ids, clip_ids, keys};

/// Where relevance comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum TruthSource {
    /// The soundscapes' own scenes.
    Scenes,
    /// The similarity of captions, by a sentence encoder and a function.
    Computed(RelevanceFunction),
    /// A file of ratings or annotations.
    File(PathBuf),
}

impl std::str::FromStr for TruthSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            _ if text == "scenes" => Ok(Self::Scenes),
            _ if text == "computed" => Ok(Self::Computed("logistic".parse().map_err(|e| format!("{e}"))?)),
            Some(("computed", function)) => Ok(Self::Computed(function.parse().map_err(|e| format!("{e}"))?)),
            _ => Ok(Self::File(text.into())),
        }
    }
}

impl TruthSource {
    /// As part of a file name.
    pub fn name(&self) -> String {
        match self {
            Self::Scenes => "scenes".into(),
            Self::Computed(function) => format!("computed-{}", function.name()),
            Self::File(path) => path
                .file_stem()
                .map_or_else(|| "file".into(), |name| name.to_string_lossy().into_owned()),
        }
    }

    /// Whether every pair of a caption and a clip has a gain, so that there is nothing that was not judged.
    pub fn is_complete(&self) -> bool {
        !matches!(self, Self::File(_))
    }
}

impl std::fmt::Display for TruthSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scenes => f.write_str("the scenes"),
            Self::Computed(function) => write!(f, "computed relevance ({function})"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Gains of clips for captions.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    /// The captions that were judged, by their place in the split, ascending.
    pub captions: Vec<usize>,
    /// For each of them, the clips that were judged, ascending, with their gains. Gains of 0 are there where someone gave them.
    pub gains: Vec<Vec<(u32, f64)>>,
}

/// Pairs that are held at most, of 16 bytes each: scenes and computed relevance have one for every caption and clip.
const MAX_PAIRS: usize = 20_000_000;

fn check_size(data: &Dataset) -> Result<(), Error> {
    let (captions, clips) = (data.pairs.len(), data.clips.len());
    if captions.saturating_mul(clips) > MAX_PAIRS {
        return Err(Error::TooManyPairs { captions, clips });
    }
    Ok(())
}

impl Truth {
    fn new(judged: BTreeMap<usize, BTreeMap<u32, f64>>) -> Self {
        let (captions, gains) = judged
            .into_iter()
            .map(|(caption, gains)| (caption, gains.into_iter().collect()))
            .unzip();
        Self { captions, gains }
    }

    /// Gains of soundscapes, from their folder.
    ///
    /// # Errors
    /// [`Error::NoScenes`] if these are no soundscapes, and as [`Truth::of_scenes`].
    pub fn scenes(sets: &[DatasetConfig], data: &Dataset) -> Result<Self, Error> {
        let [DatasetConfig::Clotho { root, split }] = sets else {
            return Err(Error::NoScenes { source: None });
        };
        let split = match split.as_str() {
            "development" => Split::Train,
            "validation" => Split::Validation,
            _ => Split::Test,
        };
        let scenes = Scenes::read(root, split).map_err(|error| Error::NoScenes { source: Some(error) })?;
        Self::of_scenes(&scenes, data)
    }

    /// Gains of scenes that were read before.
    ///
    /// # Errors
    /// [`Error::OtherSplit`] and [`Error::TooManyPairs`].
    pub fn of_scenes(scenes: &Scenes, data: &Dataset) -> Result<Self, Error> {
        check_size(data)?;
        if (scenes.captions(), scenes.clips()) != (data.pairs.len(), data.clips.len()) {
            return Err(Error::OtherSplit {
                what: "scenes",
                got_captions: scenes.captions(),
                got_clips: scenes.clips(),
                captions: data.pairs.len(),
                clips: data.clips.len(),
            });
        }
        let gains = (0..scenes.captions()).map(|caption| {
            let gains =
                (0..scenes.clips()).map(|clip| (clip as u32, f64::from(scenes.relevance(caption, clip))));
            gains.filter(|(_, gain)| *gain > 0.0).collect()
        });
        Ok(Self {
            captions: (0..scenes.captions()).collect(),
            gains: gains.collect(),
        })
    }

    /// nDCG@10 of all captions, text to audio.
    ///
    /// # Errors
    /// [`Error::PartlyJudged`] unless every caption is judged; if the embeddings do not belong to the split.
    pub fn graded(&self, data: &Dataset, embedded: &SplitEmbeddings) -> Result<GradedReport, Error> {
        let (judged, captions) = (self.captions.len(), data.pairs.len());
        if judged != captions {
            return Err(Error::PartlyJudged { judged, captions });
        }
        let options = Options::default();
        let clip_keys = keys(&clip_ids(data), options.ties);
        let caption_keys = keys(&caption_ids(data), options.ties);
        let clips = WithIds::new(Vectors::new(&embedded.clips, embedded.dim)?, &clip_keys)?;
        let captions = WithIds::new(Vectors::new(&embedded.captions, embedded.dim)?, &caption_keys)?;
        let gains = |caption: usize, out: &mut Vec<(u32, f64)>| out.extend(&self.gains[caption]);
        let watch = &hark_work::progress::no_progress;
        Ok(evaluate_graded(captions, clips, &gains, options, watch)?)
    }

    /// From the captions' sentence embeddings: a clip's gain is the relevance of its captions' mean similarity to the
    /// query, and 1 for the query's own clip.
    ///
    /// # Errors
    /// [`Error::TooManyPairs`], or if the function cannot be applied.
    pub fn computed(
        data: &Dataset,
        captions: Vectors<'_>,
        function: &RelevanceFunction,
    ) -> Result<Self, Error> {
        check_size(data)?;
        let (count, clips) = (data.pairs.len(), data.clips.len());
        let texts: Vec<&str> = data.pairs.iter().map(|pair| pair.caption.as_str()).collect();
        let function = function.resolved(captions, &texts, None, &hark_work::progress::no_progress)?;
        let mut sizes = vec![0_u32; clips];
        for pair in &data.pairs {
            sizes[pair.clip] += 1;
        }
        let mut gains = Vec::with_capacity(count);
        for (caption, own) in data.pairs.iter().enumerate() {
            let row = similarity::row(captions.row(caption), captions)?;
            let mut means = vec![0.0_f64; clips];
            for (h, pair) in row.iter().zip(&data.pairs) {
                means[pair.clip] += f64::from(*h) / f64::from(sizes[pair.clip]);
            }
            let gain = |(clip, h): (usize, f64)| -> Result<(u32, f64), Error> {
                let is_own = clip == own.clip;
                Ok((
                    clip as u32,
                    if is_own {
                        1.0
                    } else {
                        function.apply(h.clamp(-1.0, 1.0), false)?
                    },
                ))
            };
            let list = means
                .into_iter()
                .enumerate()
                .map(gain)
                .collect::<Result<Vec<_>, Error>>()?;
            gains.push(list.into_iter().filter(|(_, gain)| *gain > 0.0).collect());
        }
        Ok(Self {
            captions: (0..count).collect(),
            gains,
        })
    }

    /// From a file of ratings or annotations.
    ///
    /// # Errors
    /// [`Error::Malformed`] and what [`read_ratings`] refuses.
    pub fn file(path: &Path, data: &Dataset) -> Result<Self, Error> {
        let mut reader = csv::Reader::from_reader(fs_err::File::open(path)?);
        let header = reader.headers().map_err(|error| csv_error(path, &error))?.clone();
        if header.iter().any(|name| name == "rating") {
            return ratings(path, data);
        }
        annotations(path, data, &header, reader)
    }
}

fn malformed(path: &Path, line: Option<u64>, what: String) -> Error {
    Error::Malformed {
        path: path.to_owned(),
        line,
        what,
    }
}

fn csv_error(path: &Path, error: &csv::Error) -> Error {
    malformed(path, error.position().map(csv::Position::line), error.to_string())
}

/// Finds captions by their words or their ids, and clips by their names.
struct Index<'a> {
    by_text: HashMap<&'a str, Vec<usize>>,
    by_id: HashMap<String, usize>,
    clips: HashMap<&'a str, u32>,
    data: &'a Dataset,
}

impl<'a> Index<'a> {
    fn new(data: &'a Dataset) -> Self {
        let mut by_text: HashMap<&str, Vec<usize>> = HashMap::new();
        for (caption, pair) in data.pairs.iter().enumerate() {
            by_text.entry(pair.caption.trim()).or_default().push(caption);
        }
        Self {
            by_text,
            by_id: caption_ids(data).into_iter().zip(0..).collect(),
            clips: data.clips.iter().map(|clip| clip.id.as_str()).zip(0..).collect(),
            data,
        }
    }

    fn clip(&self, name: &str) -> Result<u32, String> {
        let found = self.clips.get(name).copied();
        found.ok_or_else(|| format!("the split has no clip {name:?}"))
    }

    /// A caption; of several with the same words, that of the clip which is named.
    fn caption(&self, query: &str, of_clip: Option<u32>) -> Result<usize, String> {
        if let Some(&caption) = self.by_id.get(query) {
            return Ok(caption);
        }
        let all = self.by_text.get(query.trim());
        let all = all.ok_or_else(|| format!("the split has no caption {query:?}"))?;
        let own =
            |caption: &&usize| of_clip.is_none_or(|clip| self.data.pairs[**caption].clip == clip as usize);
        let mut of_these = all.iter().filter(own);
        match (of_these.next(), of_these.next()) {
            (Some(&caption), None) => Ok(caption),
            (Some(&caption), Some(_)) if of_clip.is_some() => Ok(caption),
            (Some(_), Some(_)) => Err(format!(
                "several captions read {query:?}; use their ids, such as CLIP#1"
            )),
            (None, _) => Err(format!("the caption {query:?} is not one of that clip")),
        }
    }
}

fn ratings(path: &Path, data: &Dataset) -> Result<Truth, Error> {
    let index = Index::new(data);
    let mut sums: BTreeMap<usize, BTreeMap<u32, (f64, f64)>> = BTreeMap::new();
    for rating in read_ratings(path)? {
        let refused = |what: String| malformed(path, Some(rating.line), what);
        let own = index.clip(&rating.query_clip).map_err(refused)?;
        let caption = index.caption(&rating.query, Some(own)).map_err(refused)?;
        let clip = index.clip(&rating.candidate_clip).map_err(refused)?;
        let (sum, count) = sums.entry(caption).or_default().entry(clip).or_default();
        *sum += rating.rating / 100.0;
        *count += 1.0;
    }
    let means = sums.into_iter().map(|(caption, clips)| {
        (
            caption,
            clips
                .into_iter()
                .map(|(clip, (sum, count))| (clip, sum / count))
                .collect(),
        )
    });
    Ok(Truth::new(means.collect()))
}

fn annotations(
    path: &Path,
    data: &Dataset,
    header: &csv::StringRecord,
    mut reader: csv::Reader<fs_err::File>,
) -> Result<Truth, Error> {
    let column = |names: &[&str]| header.iter().position(|name| names.contains(&name.trim()));
    let missing = |names: &str| malformed(path, None, format!("no column {names}"));
    let query = column(&["query", "caption"]).ok_or_else(|| missing("`query` or `caption`"))?;
    let clip = column(&["clip", "file_name", "file"]).ok_or_else(|| missing("`clip` or `file_name`"))?;
    let gain = column(&["relevance", "gain"]);
    let index = Index::new(data);
    let mut judged: BTreeMap<usize, BTreeMap<u32, f64>> = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|error| csv_error(path, &error))?;
        let refused = |what: String| malformed(path, record.position().map(csv::Position::line), what);
        let text = |column: usize| record.get(column).unwrap_or_default();
        let found = index.clip(text(clip)).map_err(refused)?;
        let caption = index.caption(text(query), None).map_err(refused)?;
        let value = match gain.map(text) {
            None => 1.0,
            Some(text) => match text.trim().parse::<f64>() {
                Ok(value) if (0.0..=1.0).contains(&value) => value,
                _ => return Err(refused(format!("the relevance {text:?} is not between 0 and 1"))),
            },
        };
        if judged.entry(caption).or_default().insert(found, value).is_some() {
            let (query, clip) = (text(query), text(clip));
            return Err(refused(format!("{query:?} and {clip:?} are judged twice")));
        }
    }
    if judged.is_empty() {
        return Err(malformed(path, None, "it judges nothing".into()));
    }
    if gain.is_none() {
        for (caption, clips) in &mut judged {
            clips.insert(data.pairs[*caption].clip as u32, 1.0);
        }
    }
    Ok(Truth::new(judged))
}

#[cfg(test)]
mod tests {
    use hark_corpus::{Clip, Pair};

    use super::*;

    fn data() -> Dataset {
        let clip = |id: &str| Clip {
            id: id.into(),
            path: PathBuf::new(),
            set: 0,
        };
        let pair = |clip, caption: &str| Pair {
            clip,
            caption: caption.into(),
        };
        Dataset {
            name: "test".into(),
            clips: vec![clip("rain.wav"), clip("dog.wav")],
            pairs: vec![
                pair(0, "Rain falls"),
                pair(0, "Water"),
                pair(1, "A dog barks"),
                pair(1, "Water"),
            ],
            left_out: Vec::new(),
        }
    }

    fn read(content: &str) -> Result<Truth, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.csv");
        fs_err::write(&path, content).unwrap();
        Truth::file(&path, &data())
    }

    #[test]
    fn ratings_of_a_pair_are_averaged() {
        let truth = read(
            "query,query_file,candidate_file,group,rating\nWater,dog.wav,rain.wav,C15,80\nWater,dog.wav,rain.wav,C15,40\n\
             Water,dog.wav,dog.wav,TP,100\nRain falls,rain.wav,dog.wav,TN,0\n",
        )
        .unwrap();
        assert_eq!(truth.captions, [0, 3]);
        assert_eq!(truth.gains[0], [(1, 0.0)]);
        assert_eq!(truth.gains[1].len(), 2);
        assert!((truth.gains[1][0].1 - 0.6).abs() < 1e-12);
    }

    #[test]
    fn annotations_name_captions_by_words_or_ids() {
        let truth =
            read("caption,file_name\nRain falls,rain.wav\nRain falls,dog.wav\ndog.wav#2,rain.wav\n").unwrap();
        assert_eq!(truth.captions, [0, 3]);
        // The clip that a caption was written for is relevant without a word.
        assert_eq!(truth.gains, [vec![(0, 1.0), (1, 1.0)], vec![(0, 1.0), (1, 1.0)]]);
        let graded = read("query,clip,relevance\nRain falls,dog.wav,0.25\n").unwrap();
        assert_eq!(graded.gains, [[(1, 0.25)]]);
    }

    #[test]
    fn what_the_split_does_not_have_is_refused() {
        for (content, expected) in [
            ("query,clip\nA cat,rain.wav\n", "no caption \"A cat\""),
            ("query,clip\nRain falls,cat.wav\n", "no clip \"cat.wav\""),
            ("query,clip\nWater,rain.wav\n", "several captions"),
            ("query,clip\nRain falls,rain.wav\nRain falls,rain.wav\n", "twice"),
            (
                "query,clip,relevance\nRain falls,rain.wav,1.5\n",
                "not between 0 and 1",
            ),
            (
                "query,clip,relevance\nRain falls,rain.wav,NaN\n",
                "not between 0 and 1",
            ),
            ("query,clip\n", "judges nothing"),
            ("words,clip\nx,y\n", "no column `query`"),
            (
                "query,query_file,candidate_file,group,rating\nRain falls,dog.wav,rain.wav,C15,80\n",
                "not one of that clip",
            ),
        ] {
            let error = read(content).unwrap_err().to_string();
            assert!(error.contains(expected), "{content}: {error}");
        }
    }
}
