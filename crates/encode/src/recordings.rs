//! Many recordings through an audio network: read as a stream, cut into segments, averaged.
//!
//! Decoding is done by whichever thread next needs a segment, one segment ahead of the network and no more, so that a
//! recording of ten hours takes the memory of a few segments. A clip's mean is summed in the order of its segments, in 64
//! bits: the number of threads changes nothing.
//!
//! Where windows are asked for, segments that begin at every hop get a vector of their own. One that is a segment of the
//! clip too is computed once.

use std::collections::{BTreeMap, HashMap};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use hark_audio::{AudioSummary, Stream};

use crate::card::ClipLength;
use crate::labels::ClassScore;
use crate::model::{ClipVector, EmbedEvent, WindowVector};
use hark_work::workers;

use crate::Error;

/// A clip's end of less than this part of a segment does not count beside other segments, unless the card says that it does
/// ([`ClipLength::Begun`]); nor has it a window of its own.
const SHORT_TAIL: usize = 20;

/// What is next to be done.
enum Piece {
    Segment(Segment),
    End { file: usize, end: End },
    Failed { file: usize, error: Error },
}

/// A segment of a recording.
struct Segment {
    file: usize,
    place: Place,
    samples: Vec<f32>,
}

/// What a segment is to its recording.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    /// Its number among the segments that are computed.
    nth: usize,
    /// Whether it counts for the vector of the whole.
    part: bool,
    /// Whether it has a vector of its own.
    window: bool,
    /// The first of its samples, and how many there are.
    start: usize,
    samples: usize,
    /// What it counts for the vector of the whole: 1, or its length where segments are not padded.
    weight: f64,
}

/// What is known of a recording when it has been read.
struct End {
    segments: usize,
    seconds: f64,
    /// Of the whole recording.
    total_seconds: f64,
    damage: Option<String>,
    summary: Option<Box<AudioSummary>>,
}

/// Which segments of a recording are computed.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Samples of a segment.
    size: usize,
    /// Segments that count for the whole: at least, though there be silence alone in them, and at most.
    least: usize,
    most: usize,
    /// Samples that a segment behind the first one holds at least, to count for the whole.
    tail: usize,
    /// Samples that are read at most.
    samples: usize,
    /// Samples from window to window, if windows are wanted.
    hop: Option<usize>,
    /// Whether segments are filled up with silence.
    padded: bool,
}

impl Cut {
    /// Those of a clip, as a model's card says.
    fn clip(clip: ClipLength, rate: u32, size: usize) -> Self {
        let (least, most, samples) = match clip.samples(rate) {
            None => (0, usize::MAX, usize::MAX),
            Some(samples) => {
                let segments = samples.div_ceil(size);
                (segments, segments, samples)
            }
        };
        Self {
            size,
            least,
            most,
            tail: match clip {
                ClipLength::Begun => 1,
                _ => short_tail(size),
            },
            samples,
            hop: None,
            padded: clip != ClipLength::Unpadded,
        }
    }

    /// Those of a clip, and windows. Nothing is cropped: a window that lies behind the length of clips is part of the whole too.
    fn windows(clip: ClipLength, rate: u32, size: usize, hop: usize) -> Self {
        Self {
            most: usize::MAX,
            samples: usize::MAX,
            hop: Some(hop.clamp(1, size)),
            ..Self::clip(clip, rate, size)
        }
    }
}

/// The segments of recordings, one after the other.
pub(crate) struct Segments<'a> {
    paths: &'a [PathBuf],
    rate: u32,
    cut: Cut,
    /// Whether recordings are summarized on the way.
    summarize: bool,
    next_file: usize,
    open: Option<Open>,
}

/// The recording that is being read.
struct Open {
    file: usize,
    stream: Stream,
    read: Read,
    plan: Plan,
}

/// What has been decoded of a recording and is still needed.
#[derive(Default)]
struct Read {
    samples: Vec<f32>,
    /// How many came before these.
    before: usize,
    ended: bool,
}

impl Read {
    /// Samples so far.
    fn total(&self) -> usize {
        self.before + self.samples.len()
    }
}

impl<'a> Segments<'a> {
    /// The segments of clips.
    pub(crate) fn new(paths: &'a [PathBuf], rate: u32, size: usize, clip: ClipLength) -> Self {
        Self::cut(paths, rate, Cut::clip(clip, rate, size))
    }

    /// The segments of clips and windows at every `hop` samples.
    pub(crate) fn with_windows(
        paths: &'a [PathBuf],
        rate: u32,
        size: usize,
        clip: ClipLength,
        hop: usize,
    ) -> Self {
        Self::cut(paths, rate, Cut::windows(clip, rate, size, hop))
    }

    fn cut(paths: &'a [PathBuf], rate: u32, cut: Cut) -> Self {
        Self {
            paths,
            rate,
            cut,
            summarize: false,
            next_file: 0,
            open: None,
        }
    }

    /// The same segments, with a summary of each recording from the same decoding.
    pub(crate) fn summarized(self) -> Self {
        Self {
            summarize: true,
            ..self
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
            let opened = if self.summarize {
                Stream::open_summarized(path, self.rate)
            } else {
                Stream::open(path, self.rate)
            };
            match opened {
                Ok(stream) => {
                    self.open = Some(Open {
                        file,
                        stream,
                        read: Read::default(),
                        plan: Plan::new(self.cut),
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
        let open = self.open.as_mut()?;
        let file = open.file;
        match open.next_segment() {
            Ok(Some((place, samples))) => Some(Piece::Segment(Segment { file, place, samples })),
            Ok(None) => {
                let read = open.read.total() as f64 / f64::from(self.rate);
                let samples = open.read.total().min(self.cut.samples);
                let stated = open.stream.info().seconds.filter(|_| !open.read.ended);
                let end = End {
                    segments: open.plan.segments,
                    seconds: samples as f64 / f64::from(self.rate),
                    total_seconds: stated.map_or(read, |stated| stated.max(read)),
                    damage: open.stream.damage().map(ToString::to_string),
                    summary: open.stream.summary().map(Box::new),
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
    /// The next segment's samples, fewer than a segment's size at the end; in a padded clip perhaps none at all.
    fn next_segment(&mut self) -> Result<Option<(Place, Vec<f32>)>, Error> {
        while let Some(start) = self.plan.next_start() {
            let end = start
                .saturating_add(self.plan.cut.size)
                .min(self.plan.cut.samples);
            let read = &mut self.read;
            let passed = (start - read.before).min(read.samples.len());
            read.samples.drain(..passed);
            read.before += passed;
            while !read.ended && read.total() < end {
                match self.stream.next_block()? {
                    Some(block) => read.samples.extend_from_slice(block),
                    None => read.ended = true,
                }
            }
            let from = (start - read.before).min(read.samples.len());
            let to = end.saturating_sub(read.before).clamp(from, read.samples.len());
            let whole_length = read.ended.then_some(read.total());
            if let Some(place) = self.plan.take(start, to - from, whole_length) {
                return Ok(Some((place, read.samples[from..to].to_vec())));
            }
        }
        Ok(None)
    }
}

/// The samples that the end of a clip has at least where a shorter one does not count.
fn short_tail(size: usize) -> usize {
    (size / SHORT_TAIL).max(1)
}

/// Which segment comes next.
struct Plan {
    cut: Cut,
    /// Where the next segment of the whole begins, and the next window, if there are more.
    part: Option<usize>,
    window: Option<usize>,
    parts: usize,
    segments: usize,
}

impl Plan {
    fn new(cut: Cut) -> Self {
        Self {
            cut,
            part: Some(0),
            window: cut.hop.map(|_| 0),
            parts: 0,
            segments: 0,
        }
    }

    fn next_start(&self) -> Option<usize> {
        match (self.part, self.window) {
            (Some(part), Some(window)) => Some(part.min(window)),
            (part, window) => part.or(window),
        }
    }

    /// Decides on the segment at `start`, which has that many samples of a recording whose length is known once it is read.
    fn take(&mut self, start: usize, samples: usize, length: Option<usize>) -> Option<Place> {
        let Cut { size, hop, tail, .. } = self.cut;
        let holds = |least| samples >= if start == 0 { 1 } else { least };
        let part = self.part == Some(start) && (self.parts < self.cut.least || holds(tail));
        if self.part == Some(start) {
            self.parts += usize::from(part);
            self.part = (part && self.parts < self.cut.most).then_some(start + size);
        }
        let mut window = false;
        if let Some(hop) = hop.filter(|_| self.window == Some(start)) {
            // What the window before it has reached needs no other.
            let reached = start > 0 && length.is_some_and(|length| length <= start - hop + size);
            window = holds(short_tail(size)) && !reached;
            self.window = window.then_some(start + hop);
        }
        (part || window).then(|| {
            self.segments += 1;
            Place {
                nth: self.segments - 1,
                part,
                window,
                start,
                samples,
                weight: if self.cut.padded { 1.0 } else { samples as f64 },
            }
        })
    }
}

/// The samples of each segment of a clip that is in memory, as many as it has of them: a segment may be shorter than its
/// size at the end, and lie behind the end where clips are padded.
pub fn segment_ranges(clip: ClipLength, rate: u32, size: usize, length: usize) -> Vec<Range<usize>> {
    let cut = Cut::clip(clip, rate, size);
    let mut plan = Plan::new(cut);
    let mut ranges = Vec::new();
    while let Some(start) = plan.next_start() {
        let end = start.saturating_add(size).min(cut.samples).min(length);
        let range = start.min(end)..end;
        if plan.take(start, range.len(), Some(length)).is_some() {
            ranges.push(range);
        }
    }
    ranges
}

/// The mean of a clip's segments, added in their order.
#[derive(Default)]
pub(crate) struct ClipMean {
    sum: Vec<f64>,
    weight: f64,
    segments: usize,
}

impl ClipMean {
    /// Adds a segment that counts `weight` times.
    pub(crate) fn add(&mut self, features: &[f32], weight: f64) {
        self.sum.resize(features.len(), 0.0);
        for (sum, &feature) in self.sum.iter_mut().zip(features) {
            *sum += weight * f64::from(feature);
        }
        self.weight += weight;
        self.segments += 1;
    }

    pub(crate) fn mean(&self) -> Vec<f32> {
        self.sum.iter().map(|sum| (sum / self.weight) as f32).collect()
    }
}

/// A recording on its way through the network.
#[derive(Default)]
struct Progressing {
    mean: ClipMean,
    /// Segments that have had their turn.
    taken: usize,
    /// Features that came before their turn.
    early: BTreeMap<usize, (Place, Vec<f32>)>,
    windows: Vec<(Place, Vec<f32>)>,
    end: Option<End>,
}

impl Progressing {
    fn add(&mut self, place: Place, features: Vec<f32>) {
        self.early.insert(place.nth, (place, features));
        while let Some((place, features)) = self.early.remove(&self.taken) {
            self.taken += 1;
            if place.part {
                self.mean.add(&features, place.weight);
            }
            if place.window {
                self.windows.push((place, features));
            }
        }
    }
}

/// What a worker hands over.
enum Done {
    Features {
        file: usize,
        place: Place,
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

/// The vector and the strongest classes of a mean of features; `None` if it has no direction.
type Project<'a> = dyn Fn(Vec<f32>) -> Result<Option<(Vec<f32>, Vec<ClassScore>)>, Error> + 'a;

/// Runs all segments through `features`, each clip's mean through `project`, and delivers. A device that breaks down ends the work.
pub(crate) fn embed(
    segments: Segments<'_>,
    threads: usize,
    features: &(dyn Fn(Vec<f32>) -> Result<Vec<f32>, Error> + Sync),
    project: &Project<'_>,
    deliver: &mut dyn FnMut(EmbedEvent) -> ControlFlow<()>,
) -> Result<(), Error> {
    let paths = segments.paths;
    let rate = f64::from(segments.rate);
    let segments = Mutex::new(segments);
    let mut gathering = Gathering {
        paths,
        under_way: HashMap::new(),
        failed: vec![false; paths.len()],
        rate,
        project,
    };
    workers::as_done(
        threads,
        threads,
        &|| lock(&segments).next(),
        &|piece| match piece {
            Piece::Segment(Segment { file, place, samples }) => Done::Features {
                file,
                place,
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
            if let Done::Features { place, .. } = done {
                tell(EmbedEvent::Segment {
                    seconds: place.samples as f64 / rate,
                })?;
            }
            match gathering.take(done) {
                // No fault of the recording: nothing more can be embedded.
                Some((_, Err(error @ Error::DeviceBroke { .. }))) => Err(error),
                Some((file, result)) => {
                    if result.is_err() {
                        lock(&segments).give_up(file);
                    }
                    tell(EmbedEvent::Recording { file, result })
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
    rate: f64,
    project: &'a Project<'a>,
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
                place,
                features: Ok(features),
                ..
            } => clip.add(place, features),
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
        let clip = self.under_way.remove(&file)?;
        Some((file, self.finish(file, &clip, end)))
    }

    fn finish(&self, file: usize, clip: &Progressing, end: End) -> Result<ClipVector, Error> {
        let project = |features: Vec<f32>| {
            (self.project)(features)?.ok_or_else(|| Error::NoDirection {
                of: self.paths[file].display().to_string(),
            })
        };
        let (vector, classes) = project(clip.mean.mean())?;
        // A single window is the recording, as far as anybody can hear.
        let windows = if clip.windows.len() < 2 {
            &[]
        } else {
            &clip.windows[..]
        };
        let windows = windows.iter().map(|(place, features)| {
            let (vector, classes) = project(features.clone())?;
            Ok(WindowVector {
                start: place.start as f64 / self.rate,
                end: (place.start + place.samples) as f64 / self.rate,
                vector,
                classes,
            })
        });
        Ok(ClipVector {
            vector,
            classes,
            windows: windows.collect::<Result<_, Error>>()?,
            seconds: end.seconds,
            total_seconds: end.total_seconds,
            segments: clip.mean.segments,
            damage: end.damage,
            summary: end.summary,
        })
    }
}

/// What is known of a recording, once all of its segments are in the sum.
fn finished(clip: &mut Progressing) -> Option<End> {
    let taken = clip.taken;
    clip.end.take_if(|end| end.segments == taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The segments of a recording of so many seconds at one sample a second, ten a segment: start, samples, part, window.
    fn cut(cut: Cut, length: usize) -> Vec<(usize, usize, bool, bool)> {
        let mut plan = Plan::new(cut);
        let mut places = Vec::new();
        while let Some(start) = plan.next_start() {
            let end = (start + cut.size).min(cut.samples);
            let samples = end.min(length).saturating_sub(start);
            let known = (length < end).then_some(length);
            if let Some(place) = plan.take(start, samples, known) {
                assert_eq!(place.nth, places.len());
                places.push((place.start, place.samples, place.part, place.window));
            }
        }
        places
    }

    /// Clips in memory are cut where streams are.
    #[test]
    fn ranges_are_those_of_streams() {
        let fixed = ClipLength::Fixed { seconds: 150.0 };
        for clip in [ClipLength::Full, ClipLength::Begun, fixed] {
            for length in [0, 1, 4, 5, 30, 99, 100, 104, 105, 150, 151, 200, 900] {
                let streamed = cut(Cut::clip(clip, 1, 100), length);
                let streamed = streamed.into_iter().map(|(_, samples, ..)| samples);
                let ranges = segment_ranges(clip, 1, 100, length);
                assert!(ranges.iter().all(|range| range.end <= length), "{ranges:?}");
                assert_eq!(
                    ranges.iter().map(Range::len).collect::<Vec<_>>(),
                    streamed.collect::<Vec<_>>(),
                    "{clip:?} {length}"
                );
            }
        }
    }

    #[test]
    fn clips_are_cut_as_the_card_says() {
        let whole = |length| cut(Cut::clip(ClipLength::Full, 1, 100), length);
        assert_eq!(whole(30), [(0, 30, true, false)]);
        assert_eq!(whole(104), [(0, 100, true, false)]);
        assert_eq!(whole(105), [(0, 100, true, false), (100, 5, true, false)]);
        assert_eq!(whole(0), []);
        let begun = |length| cut(Cut::clip(ClipLength::Begun, 1, 100), length);
        assert_eq!(begun(100), [(0, 100, true, false)]);
        assert_eq!(begun(101), [(0, 100, true, false), (100, 1, true, false)]);
        let padded = |length| cut(Cut::clip(ClipLength::Fixed { seconds: 150.0 }, 1, 100), length);
        assert_eq!(padded(30), [(0, 30, true, false), (100, 0, true, false)]);
        assert_eq!(padded(900), [(0, 100, true, false), (100, 50, true, false)]);
    }

    #[test]
    fn windows_cover_a_recording_once() {
        let windows = |hop, length| cut(Cut::windows(ClipLength::Full, 1, 100, hop), length);
        assert_eq!(windows(100, 80), [(0, 80, true, true)]);
        assert_eq!(
            windows(100, 250),
            [
                (0, 100, true, true),
                (100, 100, true, true),
                (200, 50, true, true)
            ]
        );
        // The window at 50 reaches the end, so that the one at 100 would add nothing; the whole needs that stretch.
        assert_eq!(
            windows(50, 140),
            [
                (0, 100, true, true),
                (50, 90, false, true),
                (100, 40, true, false)
            ]
        );
        // Hops that do not divide a segment: parts of the whole and windows in the order of time.
        assert_eq!(
            windows(40, 170),
            [
                (0, 100, true, true),
                (40, 100, false, true),
                (80, 90, false, true),
                (100, 70, true, false)
            ]
        );
        // Padding counts for the whole and has no window.
        assert_eq!(
            cut(
                Cut::windows(ClipLength::Fixed { seconds: 200.0 }, 1, 100, 100),
                80
            ),
            [(0, 80, true, true), (100, 0, true, false)]
        );
        let long = cut(
            Cut::windows(ClipLength::Fixed { seconds: 200.0 }, 1, 100, 100),
            350,
        );
        assert_eq!(long.len(), 4);
        assert!(long.iter().all(|&(.., part, window)| part && window));
    }
}
