//! What hark makes of sound files, one JSON object a line: for `bench/decode.py`.
//!
//! In: paths as arguments, or one a line on standard input if there are none. `--samples DIR` before them writes the decoded
//! samples of the file on line n, mixed to one channel, as little-endian `f32` to `DIR/n.f32`. An empty `HARK_FFMPEG`
//! means no fallback on ffmpeg.

use std::io::{BufRead as _, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use hark_audio::{Decoder, Fallback};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    std::panic::set_hook(Box::new(|_| {}));
    Fallback::named(std::env::var_os("HARK_FFMPEG")).set_default();
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut folder = None;
    if arguments.first().is_some_and(|first| first == "--samples") {
        folder = arguments.get(1).map(PathBuf::from);
        arguments.drain(..2.min(arguments.len()));
    }
    let paths: Box<dyn Iterator<Item = String>> = if arguments.is_empty() {
        Box::new(std::io::stdin().lock().lines().map_while(Result::ok))
    } else {
        Box::new(arguments.into_iter())
    };
    for (n, path) in paths.enumerate() {
        let out = folder.as_ref().map(|folder| folder.join(format!("{n}.f32")));
        println!("{}", report(Path::new(&path), out.as_deref())?);
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn report(path: &Path, out: Option<&Path>) -> std::io::Result<String> {
    let mut decoder = match Decoder::open(path) {
        Ok(decoder) => decoder,
        Err(error) => return Ok(format!("{{\"error\": {:?}}}", plain(&error.to_string()))),
    };
    let mut file = match out {
        Some(out) => Some(BufWriter::new(std::fs::File::create(out)?)),
        None => None,
    };
    let mut peak = 0.0_f32;
    loop {
        match decoder.next_block() {
            Ok(Some(block)) => {
                for sample in block {
                    peak = peak.max(sample.abs());
                    if let Some(file) = &mut file {
                        file.write_all(&sample.to_le_bytes())?;
                    }
                }
            }
            Ok(None) => break,
            Err(error) => return Ok(format!("{{\"error\": {:?}}}", plain(&error.to_string()))),
        }
    }
    let info = decoder.info();
    let damage = decoder.damage().map_or_else(
        || "null".to_owned(),
        |damage| format!("{:?}", plain(&damage.to_string())),
    );
    Ok(format!(
        "{{\"container\": {:?}, \"codec\": {:?}, \"rate\": {}, \"channels\": {}, \"frames\": {}, \"seconds\": {:.6}, \
         \"peak\": {peak}, \"damage\": {damage}}}",
        info.container,
        info.codec,
        info.rate,
        info.channels,
        decoder.samples_so_far(),
        decoder.samples_so_far() as f64 / f64::from(info.rate),
    ))
}

/// What Rust's quotes and JSON's write alike.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' })
        .collect()
}
