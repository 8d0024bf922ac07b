//! Floating-point operations of the networks: a multiplication and an addition are two. Matrix products alone are counted;
//! norms, activations and softmax are a few per cent of them.

use hark_encode::towers::cnn::CnnConfig;
use hark_encode::towers::passt::PasstConfig;
use hark_encode::towers::roberta::RobertaConfig;

/// The blocks of a transformer on one sequence.
fn blocks(tokens: usize, width: usize, hidden: usize, layers: usize) -> f64 {
    let [tokens, width, hidden, layers] = [tokens, width, hidden, layers].map(|size| size as f64);
    let products = 2.0 * tokens * (4.0 * width * width + 2.0 * width * hidden);
    let attention = 4.0 * tokens * tokens * width;
    layers * (products + attention)
}

/// PaSST on one log-mel, of whose grid `rows` and `columns` are kept.
pub(crate) fn passt(config: &PasstConfig, rows: usize, columns: usize) -> f64 {
    let patches = rows * columns;
    let embedding = 2.0 * (patches * config.patch * config.patch * config.width) as f64;
    embedding + blocks(patches + 2, config.width, config.hidden, config.layers)
}

/// RoBERTa on one text.
pub(crate) fn roberta(config: &RobertaConfig, tokens: usize) -> f64 {
    blocks(tokens, config.width, config.hidden, config.layers)
}

/// The convolutional network on one log-mel.
pub(crate) fn cnn(config: &CnnConfig, frames: usize) -> f64 {
    let (mut bands, mut frames, mut input, mut sum) = (config.mels, frames, 1, 0);
    for &output in &config.channels {
        (bands, frames) = (bands.div_ceil(2), frames.div_ceil(2));
        sum += bands * frames * 9 * input * output;
        input = output;
    }
    2.0 * (sum + frames * bands * input * config.width) as f64
}

/// Linear layers of these widths, one after the other, on one vector.
pub(crate) fn projection(widths: &[usize]) -> f64 {
    widths
        .windows(2)
        .map(|pair| 2.0 * (pair[0] * pair[1]) as f64)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sizes() {
        // 498 tokens through PaSST-S: 85 million weights in products, twice, and attention.
        let config = PasstConfig::small();
        let weights = 12.0 * (4.0 * 768.0 * 768.0 + 2.0 * 768.0 * 3072.0);
        let attention = 12.0 * 4.0 * 498.0 * 498.0 * 768.0;
        let embedding = 2.0 * 496.0 * 256.0 * 768.0;
        let expected = 2.0 * 498.0 * weights + attention + embedding;
        assert!((passt(&config, 8, 62) / expected - 1.0).abs() < 1e-12);
        assert!((roberta(&RobertaConfig::large(), 1) / (2.0 * 302e6) - 1.0).abs() < 0.01);
        let cnn_config = CnnConfig {
            mels: 4,
            channels: vec![3],
            width: 5,
        };
        assert!((cnn(&cnn_config, 6) - 2.0 * (2.0 * 3.0 * 27.0 + 3.0 * 2.0 * 3.0 * 5.0)).abs() < 1e-9);
        assert!((projection(&[2, 3, 4]) - 2.0 * 18.0).abs() < 1e-12);
    }
}
