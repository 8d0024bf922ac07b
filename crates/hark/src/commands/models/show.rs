//! How `hark models` prints a model.

use hark_encode::card::{AudioCard, Card as TowersCard, TextCard};
use hark_encode::sentence::Card as StaticCard;
use hark_models::{Card, ModelInfo};

use crate::output;

pub fn info(info: &ModelInfo) -> String {
    match info {
        ModelInfo::Static {
            dim,
            units,
            fingerprint,
            card,
        } => {
            let head = format!(
                "{}\n  kind         static encoder, {} units\n  vectors      {dim} dimensions, length 1\n  fingerprint  {fingerprint}\n",
                card.name,
                output::group_digits(*units),
            );
            head + &static_lines(card)
        }
        ModelInfo::Sentence {
            path,
            family,
            layers,
            dim,
            pooling,
            max_tokens,
            parameters,
            weights_bytes,
            fingerprint,
            card,
        } => {
            let head = format!(
                "{}\n  kind         sentence encoder, {family:?} family, {layers} layers\n  vectors      {dim} dimensions, {pooling:?} pooling, length 1\n  reads        {max_tokens} tokens\n  parameters   {} ({} bytes of weights)\n  fingerprint  {fingerprint}\n",
                path.display(),
                output::group_digits(*parameters),
                output::group_digits(*weights_bytes),
            );
            head + &card.as_ref().map(card_lines).unwrap_or_default()
        }
        ModelInfo::Towers {
            path,
            parameters,
            audio_parameters,
            text_parameters,
            weights_bytes,
            card,
        } => {
            let mut text = format!("{}\n", path.display());
            if let Some(audio) = &card.audio {
                text.push_str(&audio_lines(audio, *audio_parameters));
            }
            if let Some(side) = &card.text {
                text.push_str(&text_lines(side, *text_parameters));
            }
            text.push_str(&format!(
                "  parameters   {} ({} bytes of weights)\n",
                output::group_digits(*parameters),
                output::group_digits(*weights_bytes)
            ));
            text + &origin_lines(card)
        }
    }
}

fn static_lines(card: &StaticCard) -> String {
    let mut text = format!("  teacher      {} ({})\n", card.teacher, card.teacher_licence);
    for file in &card.captions {
        text.push_str(&format!(
            "  captions     {} ({}), sha256 {}\n",
            file.file,
            output::group_digits(file.captions),
            file.sha256
        ));
    }
    text.push_str(&format!("  licence      captions {}\n", card.captions_licence));
    text.push_str(&format!("  made by      {}\n", card.command));
    text
}

fn card_lines(card: &Card) -> String {
    let mut text = format!(
        "  licence      {}\n  from         {}\n",
        card.licence, card.source
    );
    for file in &card.files {
        text.push_str(&format!(
            "  {}  {} ({} bytes)\n",
            file.sha256,
            file.path,
            output::group_digits(file.bytes)
        ));
    }
    text
}

fn origin_lines(card: &TowersCard) -> String {
    let mut text = String::new();
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
            .unwrap_or("not stated: ask the authors of the weights before you share them")
    ));
    for origin in &card.origin {
        text.push_str(&format!(
            "  from         {}, {}\n               sha256 {}\n",
            origin.file, origin.layout, origin.sha256
        ));
    }
    text
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
        return "none; the vectors are the tower's features".to_owned();
    }
    let layers: Vec<String> = projection.iter().map(ToString::to_string).collect();
    format!("to {}, length 1", layers.join(", then "))
}
