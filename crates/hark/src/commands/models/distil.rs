//! `hark models distil`: a static encoder from a sentence encoder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use hark_encode::sentence::{CachedSentenceEncoder, Card, CardCaptions, SentenceModel};
use hark_learn::distil::{Options, Teacher, distil};
use hark_models::PublishedModel;
use hark_work::files::hex;
use serde_json::json;

use crate::commands::inputs::{CaptionArgs, ThreadArgs, warn};
use crate::home::Home;
use crate::{output, progress};

const EXAMPLES: &str = "Example:
  hark models distil --teacher all-mpnet-base-v2 --captions a.csv --out my-static
  hark relevance similarity --model my-static 'a dog barks' 'a dog is barking'

The result is a table of embeddings for words, word pieces and word pairs, fitted so that the similarities \
of captions match the teacher's. It embeds captions hundreds of times faster than the teacher. The same \
captions, teacher and seed give the same file.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Encoder to learn from: a name of `hark models list`, or a Sentence-Transformers folder
    #[arg(long, value_name = "NAME")]
    teacher: String,
    #[command(flatten)]
    captions: CaptionArgs,
    /// Dimension of the embeddings
    #[arg(long, value_name = "N", default_value_t = 256)]
    dim: usize,
    /// Maximum number of words, word pieces and word pairs; each takes --dim bytes
    #[arg(long, value_name = "N", default_value_t = 15_500)]
    units: usize,
    /// Maximum number of word pieces, for words without an embedding of their own
    #[arg(long, value_name = "N", default_value_t = 1_500)]
    pieces: usize,
    /// Maximum number of word pairs, which capture word order
    #[arg(long, value_name = "N", default_value_t = 4_000)]
    pairs: usize,
    /// Passes over the captions
    #[arg(long, value_name = "N", default_value_t = 20)]
    epochs: usize,
    /// Captions per batch
    #[arg(long, value_name = "N", default_value_t = 512)]
    batch: usize,
    /// Peak learning rate
    #[arg(long, value_name = "RATE", default_value_t = 3e-3)]
    rate: f32,
    /// Random seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Licence of the captions, for the model's card
    #[arg(long, value_name = "LICENCE", default_value = "unknown")]
    captions_licence: String,
    /// Folder to create
    #[arg(long, short, value_name = "FOLDER")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    if args.out.exists() {
        bail!("{} already exists; choose a new folder", args.out.display());
    }
    let home = Home::find()?;
    let model = home.models().open_sentence_encoder(&args.teacher)?;
    let SentenceModel::Transformer(folder) = &model else {
        bail!(
            "{} is a static encoder; the teacher must be a transformer",
            args.teacher
        );
    };
    let (vocabulary, dim) = (folder.tokenizer()?.vocabulary(), folder.dim());
    let fingerprint = hex(&folder.fingerprint()?);
    if args.captions.files.iter().any(|path| path == Path::new("-")) {
        bail!("distil needs files, not stdin: the model's card lists them with checksums");
    }
    let set = args.captions.read()?;
    let options = Options {
        dim: args.dim,
        units: args.units,
        pieces: args.pieces,
        pairs: args.pairs,
        epochs: args.epochs,
        batch: args.batch,
        rate: args.rate,
        seed: args.seed,
        threads: args.threads.count(),
    };
    let card = card(args, fingerprint, &options)?;
    let mut encoder = CachedSentenceEncoder::open(model, Some(&home.embeddings()), &args.threads.compute())?;
    let mut embed = |texts: &[&str]| {
        let bar = progress::items("teacher's vectors");
        let embedded = encoder.embed(texts, &|done, total| progress::show(&bar, done, total));
        bar.finish_and_clear();
        let embedded = embedded?;
        warn(&embedded, encoder.model());
        Ok(embedded.embeddings.into_vec())
    };
    let bar = progress::items("fitting");
    let mut teacher = Teacher {
        dim,
        vocabulary,
        embed: &mut embed,
    };
    let watch = &|done, total| progress::show(&bar, done, total);
    let made = distil(&set.texts(), &mut teacher, &options, watch)?;
    bar.finish_and_clear();

    let saved = made.save(&args.out, &card)?;
    if args.json {
        return output::print_json(&json!({
            "out": args.out,
            "bytes": saved.bytes,
            "sha256": saved.sha256,
            "captions": made.captions,
            "words_and_pieces": made.words,
            "pairs": made.pairs,
            "losses": made.losses,
            "card": card,
        }));
    }
    output::print(&format!(
        "{}: {}, {}, {}; fitted on {}, each once, loss {:.4} to {:.4}\n",
        args.out.display(),
        output::counted(saved.bytes, "byte"),
        output::counted(made.words, "word or piece"),
        output::counted(made.pairs, "pair"),
        output::counted(made.captions, "caption"),
        made.losses.first().copied().unwrap_or_default(),
        made.losses.last().copied().unwrap_or_default(),
    ))
}

/// Where the encoder comes from. Files are named without their folders: a card travels, a path does not.
fn card(args: &Args, teacher_fingerprint: String, options: &Options) -> Result<Card> {
    let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = last(&args.out).context("--out has no name")?;
    let teacher = last(Path::new(&args.teacher)).context("--teacher has no name")?;
    let captions = args.captions.files.iter().map(|path| {
        let count = args.captions.columns.read(path)?.captions.len();
        Ok(CardCaptions::of_file(path, count)?)
    });
    let captions = captions.collect::<Result<Vec<_>>>()?;
    let files: String = captions
        .iter()
        .map(|captions| format!(" --captions {}", captions.file))
        .collect();
    let command = format!(
        "hark models distil --teacher {teacher}{files}{} {options} --captions-licence '{}' --out {name}",
        args.captions.columns.typed(),
        args.captions_licence,
    );
    let teacher_licence = PublishedModel::find(&teacher)
        .and_then(|known| known.licence)
        .unwrap_or("unknown")
        .to_owned();
    let captions_licence = args.captions_licence.clone();
    Ok(Card {
        name,
        teacher,
        teacher_fingerprint,
        captions,
        command,
        teacher_licence,
        captions_licence,
    })
}
