//! How relevant is the clip of one caption to another caption?
//!
//! ```text
//! cargo run -p hark-relevance --example caption_relevance -- "a cat cries" "a cat meows"
//! ```
//!
//! The encoder is the one that is part of hark: nothing is downloaded.

use hark_encode::SentenceEncoder;
use hark_relevance::{RelevanceFunction, similarity};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [a, b] = match arguments.as_slice() {
        [] => ["a cat cries", "a cat meows"],
        [a, b] => [a.as_str(), b.as_str()],
        _ => return Err("usage: caption_relevance CAPTION CAPTION".into()),
    };

    let c = SentenceEncoder::built_in()?.embed(&[a, b])?;
    let g = RelevanceFunction::logistic().between(c.row(0), c.row(1))?;

    println!("similarity h = {:.3}", similarity::cosine(c.row(0), c.row(1))?);
    println!("relevance  g = {g:.3}");
    Ok(())
}
