//! Many recordings through an audio network: read as a stream, cut into segments, averaged.
//!
//! Decoding is done by whichever thread next needs a segment, one segment ahead of the network and no more, so that a
//! recording of ten hours takes the memory of a few segments. A clip's mean is summed in the order of its segments, in 64
//! bits: the number of threads changes nothing.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use hark_audio::Stream;

use crate::card::Clip;
use crate::model::ClipVector;
use crate::{Error, workers};

/// What is next to be done.
enum Piece {
    Segment {
        file: usize,
        nth: usize,
        samples: Vec<f32>,
    },
    End {
        file: usize,
        end: End,
    },
    Failed {
        file: usize,
        error: Error,
    },
}

/// What is known of a recording when it has been read.
struct End {
    segments: usize,
    seconds: f64,
    damage: Option<String>,
}

/// The segments of recordings, one after the other.
pub(crate) struct Segments<'a> {
    paths: &'a [PathBuf],
    rate: u32,
    size: usize,
    clip: Clip,
    next_file: usize,
    open: Option<Open>,
}

/// The recording that is being read.
struct Open {
    file: usize,
    stream: Stream,
    /// Samples that were decoded and are not yet in a segment.
    waiting: Vec<f32>,
    /// Samples in segments so far.
    taken: usize,
    segments: usize,
    ended: bool,
}

impl<'a> Segments<'a> {
    pub(crate) fn new(paths: &'a [PathBuf], rate: u32, size: usize, clip: Clip) -> Self {
        Self {
            paths,
            rate,
            size,
            clip,
            next_file: 0,
            open: None,
        }
    }

    /// Samples and segments that a clip has at most.
    fn limits(&self) -> (usize, usize) {
        match self.clip {
            Clip::True => (usize::MAX, usize::MAX),
            Clip::Padded { seconds } => {
                let samples = ((seconds * f64::from(self.rate)).round() as usize).max(1);
                (samples, samples.div_ceil(self.size))
            }
        }
    }

    fn next(&mut self) -> Option<Piece> {
        if self.open.is_none() {
            let file = self.next_file;
            let path = self.paths.get(file)?;
            self.next_file += 1;
            match Stream::open(path, self.rate) {
                Ok(stream) => {
                    self.open = Some(Open {
                        file,
                        stream,
                        waiting: Vec::new(),
                        taken: 0,
                        segments: 0,
                        ended: false,
                    });
                }
                Err(error) => {
                    return Some(Piece::Failed {
                        file,
                        error: error.into(),
                    });
                }
            }
        }
        let (max_samples, max_segments) = self.limits();
        let open = self.open.as_mut()?;
        let file = open.file;
        match open.next_segment(self.size, max_samples, max_segments) {
            Ok(Some(samples)) => {
                open.segments += 1;
                Some(Piece::Segment {
                    file,
                    nth: open.segments - 1,
                    samples,
                })
            }
            Ok(None) => {
                let end = End {
                    segments: open.segments,
                    seconds: open.taken as f64 / f64::from(self.rate),
                    damage: open.stream.damage().map(ToString::to_string),
                };
                self.open = None;
                Some(Piece::End { file, end })
            }
            Err(error) => {
                self.open = None;
                Some(Piece::Failed { file, error })
            }
        }
    }
}

impl Open {
    /// The next segment's samples, fewer than `size` at the end; in a padded clip perhaps none at all.
    fn next_segment(
        &mut self,
        size: usize,
        max_samples: usize,
        max_segments: usize,
    ) -> Result<Option<Vec<f32>>, Error> {
        if self.segments >= max_segments {
            return Ok(None);
        }
        let wanted = size.min(max_samples - self.taken.min(max_samples));
        while !self.ended && self.waiting.len() < wanted {
            match self.stream.next_block()? {
                Some(block) => self.waiting.extend_from_slice(block),
                None => self.ended = true,
            }
        }
        let rest = self.waiting.split_off(self.waiting.len().min(wanted));
        let samples = std::mem::replace(&mut self.waiting, rest);
        self.taken += samples.len();
        if samples.is_empty() && max_segments == usize::MAX {
            return Ok(None);
        }
        Ok(Some(samples))
    }
}

/// A recording on its way through the network.
#[derive(Default)]
struct Progressing {
    sum: Vec<f64>,
    /// Segments in the sum.
    summed: usize,
    /// Features that came before their turn.
    early: BTreeMap<usize, Vec<f32>>,
    end: Option<End>,
}

impl Progressing {
    fn add(&mut self, nth: usize, features: Vec<f32>) {
        self.early.insert(nth, features);
        while let Some(features) = self.early.remove(&self.summed) {
            self.sum.resize(features.len(), 0.0);
            for (sum, &feature) in self.sum.iter_mut().zip(&features) {
                *sum += f64::from(feature);
            }
            self.summed += 1;
        }
    }

    fn mean(&self) -> Vec<f32> {
        let count = self.summed as f64;
        self.sum.iter().map(|sum| (sum / count) as f32).collect()
    }
}

/// What a worker hands over.
enum Done {
    Features {
        file: usize,
        nth: usize,
        features: Result<Vec<f32>, Error>,
    },
    End {
        file: usize,
        end: End,
    },
    Failed {
        file: usize,
        error: Error,
    },
}

/// Runs all segments through `features`, each clip's mean through `project`, and delivers.
pub(crate) fn embed(
    segments: Segments<'_>,
    threads: usize,
    features: &(dyn Fn(Vec<f32>) -> Result<Vec<f32>, Error> + Sync),
    project: &dyn Fn(Vec<f32>) -> Option<Vec<f32>>,
    deliver: &mut dyn FnMut(usize, Result<ClipVector, Error>) -> ControlFlow<()>,
) -> Result<(), Error> {
    let paths = segments.paths;
    let segments = Mutex::new(segments);
    let mut under_way: HashMap<usize, Progressing> = HashMap::new();
    let mut failed = vec![false; paths.len()];
    workers::run(
        threads,
        threads,
        &|| segments.lock().unwrap_or_else(PoisonError::into_inner).next(),
        &|piece| match piece {
            Piece::Segment { file, nth, samples } => Done::Features {
                file,
                nth,
                features: features(samples),
            },
            Piece::End { file, end } => Done::End { file, end },
            Piece::Failed { file, error } => Done::Failed { file, error },
        },
        &mut |done| {
            let (file, outcome) = match done {
                Done::Failed { file, error }
                | Done::Features {
                    file,
                    features: Err(error),
                    ..
                } => {
                    under_way.remove(&file);
                    // One error a recording, although more of its segments may come.
                    if std::mem::replace(&mut failed[file], true) {
                        return Ok(());
                    }
                    (file, Err(error))
                }
                Done::Features { file, .. } | Done::End { file, .. } if failed[file] => return Ok(()),
                Done::Features {
                    file,
                    nth,
                    features: Ok(features),
                } => {
                    let clip = under_way.entry(file).or_default();
                    clip.add(nth, features);
                    match finished(clip) {
                        Some(end) => (file, finish(clip.mean(), end, project, &paths[file])),
                        None => return Ok(()),
                    }
                }
                Done::End { file, end } => {
                    let clip = under_way.entry(file).or_default();
                    clip.end = Some(end);
                    match finished(clip) {
                        Some(end) => (file, finish(clip.mean(), end, project, &paths[file])),
                        None => return Ok(()),
                    }
                }
            };
            under_way.remove(&file);
            match deliver(file, outcome) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Error::Cancelled),
            }
        },
    )
}

/// What is known of a recording, once all of its segments are in the sum.
fn finished(clip: &mut Progressing) -> Option<End> {
    let summed = clip.summed;
    clip.end.take_if(|end| end.segments == summed)
}

fn finish(
    mean: Vec<f32>,
    end: End,
    project: &dyn Fn(Vec<f32>) -> Option<Vec<f32>>,
    path: &std::path::Path,
) -> Result<ClipVector, Error> {
    let vector = project(mean).ok_or_else(|| Error::NoDirection {
        of: path.display().to_string(),
    })?;
    Ok(ClipVector {
        vector,
        seconds: end.seconds,
        segments: end.segments,
        damage: end.damage,
    })
}
