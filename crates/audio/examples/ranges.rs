//! How much faster a part of a file is read by seeking than by decoding the file: ratios, for each path given as an argument.
//!
//! Parts of 30 s at 32 kHz lie at places drawn from a fixed seed. All ways are timed in turns, and must give the same samples:
//! decoding all of the file (what a training without seeking does), decoding from the beginning to the part's end, looking the file
//! through and seeking (the first part of a file), and seeking alone (all later ones).

use std::path::Path;
use std::time::{Duration, Instant};

use hark_audio::{SeekIndex, read, read_range};
use hark_work::random::{Random, key};

const RATE: u32 = 32_000;
const LENGTH: usize = 30 * RATE as usize;
const ROUNDS: u64 = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        report(Path::new(&path))?;
    }
    Ok(())
}

fn report(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let whole = read(path, RATE, None)?.samples;
    let places = whole.len().saturating_sub(LENGTH) + 1;
    let mut times: [Vec<Duration>; 4] = Default::default();
    for round in 0..ROUNDS {
        let start = Random::new(key(&[round])).below(places);
        let wanted = &whole[start..whole.len().min(start + LENGTH)];
        let mut index = None;
        for (way, times) in times.iter_mut().enumerate() {
            let since = Instant::now();
            let part = match way {
                0 => read(path, RATE, None)?.samples[start..][..wanted.len()].to_vec(),
                1 => read_range(path, RATE, start as u64, LENGTH, None)?,
                2 => {
                    index = SeekIndex::of(path)?;
                    read_range(path, RATE, start as u64, LENGTH, index.as_ref())?
                }
                _ => read_range(path, RATE, start as u64, LENGTH, index.as_ref())?,
            };
            times.push(since.elapsed());
            assert!(
                part.iter()
                    .map(|s| s.to_bits())
                    .eq(wanted.iter().map(|s| s.to_bits())),
                "way {way} differs"
            );
        }
    }
    let [all, from_start, first, again] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64()
    });
    println!(
        "{}: {:.0} s; decoding all {:.1} ms; from the start {:.2}x, first seek {:.2}x, later seeks {:.2}x faster",
        path.display(),
        whole.len() as f64 / f64::from(RATE),
        1e3 * all,
        all / from_start,
        all / first,
        all / again
    );
    Ok(())
}
