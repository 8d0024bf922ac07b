//! What `hark models` says of a model with audio and text towers.

use std::path::Path;

use anyhow::Result;
use fs_err as fs;
use hark_encode::card::{AudioCard, Card, TextCard};
use hark_encode::checkpoint::Checkpoint;
use hark_encode::model::{CARD, WEIGHTS};
use serde_json::json;

use crate::output;

/// One line for the list of models; nothing for a folder that holds no such model.
pub fn about(folder: &Path) -> String {
    let Ok(card) = Card::read(&folder.join(CARD)) else {
        return String::new();
    };
    let dim = card
        .audio
        .as_ref()
        .and_then(|audio| audio.side.projection.last())
        .or_else(|| card.text.as_ref().and_then(|text| text.side.projection.last()));
    let towers = match (&card.audio, &card.text) {
        (Some(_), Some(_)) => "recordings and texts",
        (Some(_), None) => "an audio tower",
        (None, _) => "a text tower",
    };
    match dim {
        Some(dim) => format!("{towers}, {dim} dimensions"),
        None => towers.to_owned(),
    }
}

/// Everything about a model.
pub fn info(folder: &Path, json: bool) -> Result<()> {
    let card = Card::read(&folder.join(CARD))?;
    let weights = folder.join(WEIGHTS);
    let file = Checkpoint::open(&weights)?;
    let bytes = fs::metadata(&weights)?.len();
    let part = |prefix: &str| {
        file.names()
            .filter(|name| name.starts_with(prefix))
            .filter_map(|name| file.shape(name).ok())
            .map(|shape| shape.iter().product::<usize>())
            .sum::<usize>()
    };
    if json {
        return output::print_json(&json!({
            "path": folder,
            "kind": "towers",
            "parameters": file.parameters(),
            "audio_parameters": part("audio."),
            "text_parameters": part("text."),
            "weights_bytes": bytes,
            "card": card,
        }));
    }
    let mut text = format!("{}\n", folder.display());
    if let Some(audio) = &card.audio {
        text.push_str(&audio_lines(audio, part("audio.")));
    }
    if let Some(side) = &card.text {
        text.push_str(&text_lines(side, part("text.")));
    }
    text.push_str(&format!(
        "  parameters   {} ({} bytes of weights)\n",
        output::group_digits(file.parameters()),
        output::group_digits(bytes)
    ));
    if !card.training_data.is_empty() {
        text.push_str(&format!("  trained on   {}\n", card.training_data.join(", ")));
    }
    for (name, value) in &card.metrics {
        text.push_str(&format!("  {name:11}  {value:.4}\n"));
    }
    text.push_str(&format!(
        "  licence      {}\n",
        card.licence
            .as_deref()
            .unwrap_or("not stated: ask who made the weights before you pass them on")
    ));
    for origin in &card.origin {
        text.push_str(&format!(
            "  from         {}, {}\n               sha256 {}\n",
            origin.file, origin.layout, origin.sha256
        ));
    }
    output::print(&text)
}

fn audio_lines(card: &AudioCard, parameters: usize) -> String {
    let mel = &card.front_end;
    format!(
        "  audio        {}, {} parameters\n  \
           front end    {} Hz, {} mel bands from {} to {} Hz, window {} every {} samples\n  \
           segments     {} s, {}\n  \
           projection   {}\n",
        card.side.network,
        output::group_digits(parameters),
        output::group_digits(mel.rate),
        mel.mels,
        mel.low,
        mel.high,
        mel.window,
        mel.hop,
        card.segment_seconds,
        card.clip,
        widths(&card.side.projection),
    )
}

fn text_lines(card: &TextCard, parameters: usize) -> String {
    let mut prepared = format!("at most {} tokens", card.max_tokens);
    if card.strip_punctuation {
        prepared.push_str(", without punctuation");
    }
    if card.lower_case {
        prepared.push_str(", in lower case");
    }
    format!(
        "  text         {}, {} parameters\n  \
           reads        {prepared}\n  \
           projection   {}\n",
        card.side.network,
        output::group_digits(parameters),
        widths(&card.side.projection),
    )
}

fn widths(projection: &[usize]) -> String {
    if projection.is_empty() {
        return "none: the tower's features as they are".to_owned();
    }
    let layers: Vec<String> = projection.iter().map(ToString::to_string).collect();
    format!("to {}, length 1", layers.join(", then "))
}
