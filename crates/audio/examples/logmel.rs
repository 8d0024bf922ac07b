//! The log-mel spectrogram of a recording or of raw samples, for scripts that compare it with others.
//!
//! `logmel IN OUT [ROUNDS]` reads mono samples at 32 kHz, raw little-endian f32, from a file called `.f32`,
//! or decodes and resamples any other, and writes `[mels, frames]`, raw little-endian f32, with PaSST's
//! settings. With ROUNDS it computes the spectrogram so often on one thread and prints the seconds that the
//! fastest round took.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use hark_audio::mel::{MelConfig, MelSpectrogram};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (input, output, rounds) = match arguments.as_slice() {
        [input, output] => (input, output, None),
        [input, output, rounds] => (input, output, Some(rounds.parse::<u32>()?)),
        _ => return Err("usage: logmel IN OUT [ROUNDS]".into()),
    };
    let config = MelConfig::default();
    let samples = match input.strip_suffix(".f32") {
        Some(_) => read(input)?,
        None => hark_audio::read(Path::new(input), config.rate, None)?.samples,
    };
    let spectrogram = MelSpectrogram::new(config)?;
    let log_mel = spectrogram.compute(&samples)?;
    if let Some(rounds) = rounds {
        let mut fastest = f64::INFINITY;
        for _ in 0..rounds {
            let start = Instant::now();
            std::hint::black_box(spectrogram.compute(std::hint::black_box(&samples))?);
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        println!("{fastest:.6}");
    }
    let bytes: Vec<u8> = log_mel
        .values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    fs_err::write(output, bytes)?;
    Ok(())
}

/// Reads raw little-endian f32.
fn read(path: &str) -> Result<Vec<f32>, Box<dyn Error>> {
    let bytes = fs_err::read(path)?;
    let (values, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(format!(
            "{path}: {} bytes are no whole number of samples of 4 bytes",
            bytes.len()
        )
        .into());
    }
    Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect())
}
