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
use crate::model::{ClipVector, Told};
use crate::{Error, workers};

/// A clip's end of less than this part of a segment does not count beside other segments.
const SHORT_TAIL: usize = 20;

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

    /// Reads no more of a recording that has failed.
    fn give_up(&mut self, file: usize) {
        self.open.take_if(|open| open.file == file);
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
        if max_segments == usize::MAX {
            let enough = if self.segments == 0 { 1 } else { size / SHORT_TAIL };
            if samples.len() < enough {
                return Ok(None);
            }
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
        /// How many samples the segment has of its own.
        samples: usize,
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
    deliver: &mut dyn FnMut(Told) -> ControlFlow<()>,
) -> Result<(), Error> {
    let paths = segments.paths;
    let rate = f64::from(segments.rate);
    let segments = Mutex::new(segments);
    let mut gathering = Gathering {
        paths,
        under_way: HashMap::new(),
        failed: vec![false; paths.len()],
        project,
    };
    workers::run(
        threads,
        threads,
        &|| lock(&segments).next(),
        &|piece| match piece {
            Piece::Segment { file, nth, samples } => Done::Features {
                file,
                nth,
                samples: samples.len(),
                features: features(samples),
            },
            Piece::End { file, end } => Done::End { file, end },
            Piece::Failed { file, error } => Done::Failed { file, error },
        },
        &mut |done| {
            let mut tell = |told| match deliver(told) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Error::Cancelled),
            };
            if let Done::Features { samples, .. } = done {
                tell(Told::Segment {
                    seconds: samples as f64 / rate,
                })?;
            }
            match gathering.take(done) {
                Some((file, result)) => {
                    if result.is_err() {
                        lock(&segments).give_up(file);
                    }
                    tell(Told::Recording { file, result })
                }
                None => Ok(()),
            }
        },
    )
}

fn lock<'a, 'b>(segments: &'a Mutex<Segments<'b>>) -> std::sync::MutexGuard<'a, Segments<'b>> {
    segments.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Recordings whose segments are coming in.
struct Gathering<'a> {
    paths: &'a [PathBuf],
    under_way: HashMap<usize, Progressing>,
    failed: Vec<bool>,
    project: &'a dyn Fn(Vec<f32>) -> Option<Vec<f32>>,
}

impl Gathering<'_> {
    /// Takes what a worker hands over; the recording that is thereby done, or has failed for the first time.
    fn take(&mut self, done: Done) -> Option<(usize, Result<ClipVector, Error>)> {
        let (Done::Features { file, .. } | Done::End { file, .. } | Done::Failed { file, .. }) = done;
        // One error a recording, although more of its segments may come.
        if self.failed[file] {
            return None;
        }
        let clip = self.under_way.entry(file).or_default();
        match done {
            Done::Features {
                nth,
                features: Ok(features),
                ..
            } => clip.add(nth, features),
            Done::End { end, .. } => clip.end = Some(end),
            Done::Features {
                features: Err(error), ..
            }
            | Done::Failed { error, .. } => {
                self.failed[file] = true;
                self.under_way.remove(&file);
                return Some((file, Err(error)));
            }
        }
        let end = finished(clip)?;
        let mean = clip.mean();
        self.under_way.remove(&file);
        Some((file, finish(mean, end, self.project, &self.paths[file])))
    }
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
