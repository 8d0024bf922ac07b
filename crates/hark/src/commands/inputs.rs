//! Arguments that several commands share: which captions, which model.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use hark_corpus::{CaptionSet, Format};
use hark_encode::sentence::{CachedEmbeddings, CachedSentenceEncoder, SentenceModel};
use hark_encode::{Compute, DeviceName, Embeddings, Precision};
use hark_evaluate::{Direction, Metric};
use hark_models::{BUILT_IN, PUBLISHED};

use crate::home::Home;
use crate::{output, progress};

/// Caption files and how to read them.
#[derive(Debug, Args)]
pub struct CaptionArgs {
    /// Caption file: Clotho CSV, AudioCaps CSV, WavCaps JSON, plain text, or any CSV, TSV or JSON Lines; `-` for stdin (repeatable)
    #[arg(long = "captions", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub columns: ColumnArgs,
}

/// How to read a caption file.
#[derive(Debug, Args)]
pub struct ColumnArgs {
    /// Format of the files, if it cannot be detected from the first line [auto, clotho, audiocaps, wavcaps, text]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        conflicts_with = "caption_column",
        hide_default_value = true
    )]
    pub format: Format,
    /// Column (CSV, TSV) or key (JSON Lines) that holds the caption (repeatable)
    #[arg(long, value_name = "NAME")]
    pub caption_column: Vec<String>,
    /// Column or key that names the clip or image [default: each row is a separate clip]
    #[arg(long, value_name = "NAME", requires = "caption_column")]
    pub id_column: Option<String>,
}

impl ColumnArgs {
    fn format(&self) -> Format {
        if self.caption_column.is_empty() {
            self.format.clone()
        } else {
            Format::Table {
                captions: self.caption_column.clone(),
                id: self.id_column.clone(),
            }
        }
    }

    /// The options as they would be typed, each with a blank before it.
    pub fn typed(&self) -> String {
        if self.caption_column.is_empty() {
            return if self.format == Format::Auto {
                String::new()
            } else {
                format!(" --format {}", self.format)
            };
        }
        let columns = self
            .caption_column
            .iter()
            .map(|name| format!(" --caption-column {name}"));
        columns
            .chain(self.id_column.iter().map(|name| format!(" --id-column {name}")))
            .collect()
    }

    /// Reads one file; `-` is stdin.
    pub fn read(&self, path: &Path) -> Result<CaptionSet> {
        if path == Path::new("-") {
            return Ok(CaptionSet::read_from(
                std::io::stdin().lock(),
                Path::new("stdin"),
                &self.format(),
            )?);
        }
        Ok(CaptionSet::read(path, &self.format())?)
    }
}

impl CaptionArgs {
    /// Reads each file as a set of its own.
    pub fn read_each(&self) -> Result<Vec<CaptionSet>> {
        self.files.iter().map(|path| self.columns.read(path)).collect()
    }

    /// Reads all files as one set.
    pub fn read(&self) -> Result<CaptionSet> {
        Ok(CaptionSet::merge(self.read_each()?)?)
    }
}

/// Captions as arguments and from files, in this order.
pub fn gather(texts: &[String], files: &[PathBuf], columns: &ColumnArgs) -> Result<Vec<String>> {
    let mut captions = texts.to_vec();
    for path in files {
        captions.extend(
            columns
                .read(path)?
                .captions
                .into_iter()
                .map(|caption| caption.text),
        );
    }
    Ok(captions)
}

/// A direction by its name; the help lists them.
pub fn direction() -> impl TypedValueParser<Value = Direction> {
    let described = |direction: Direction| {
        PossibleValue::new(direction.name()).help(match direction {
            Direction::TextToAudio => "Captions look for clips",
            Direction::AudioToText => "Clips look for captions",
        })
    };
    PossibleValuesParser::new(Direction::ALL.map(described)).try_map(|name| name.parse::<Direction>())
}

/// A metric by its name, with what it says.
pub fn metric() -> impl TypedValueParser<Value = Metric> {
    let described = |metric: Metric| {
        PossibleValue::new(metric.name()).help(match metric {
            Metric::Ap => "Average precision within the cutoff",
            Metric::R1 => "Recall among the first 1",
            Metric::R5 => "Recall among the first 5",
            Metric::R10 => "Recall among the first 10",
            Metric::Rr => "Reciprocal rank of the first relevant item",
            Metric::Ndcg => "nDCG on graded relevance",
        })
    };
    PossibleValuesParser::new(Metric::ALL.map(described)).try_map(|name| name.parse::<Metric>())
}

/// How alike two captions are at the least.
pub fn similarity(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(h) if h > -1.0 && h <= 1.0 => Ok(h),
        _ => Err("a similarity is above -1 and at most 1".to_owned()),
    }
}

/// The model and how it runs.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// Model: a name from `hark models list`, or a model folder [default: the built-in one]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Do not read or write the cache of embeddings
    #[arg(long)]
    pub no_cache: bool,
    #[command(flatten)]
    pub threads: ThreadArgs,
}

/// How many threads.
#[derive(Debug, Args)]
pub struct ThreadArgs {
    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
}

impl ThreadArgs {
    /// The number that was asked for, or of the machine's cores.
    pub fn count(&self) -> NonZeroUsize {
        self.threads
            .or_else(|| std::thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }

    /// The CPU, with that many threads.
    pub fn compute(&self) -> Compute {
        Compute::cpu(self.count().get())
    }
}

/// Which device.
#[derive(Debug, Args)]
pub struct DeviceArgs {
    /// Where networks compute: cpu, cuda:N, rocm:N, vulkan, metal, torch or torch:cuda:N; see hark devices
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    pub device: DeviceName,
}

impl DeviceArgs {
    /// The device, fed by these threads.
    pub fn compute(&self, threads: &ThreadArgs) -> Result<Compute> {
        Ok(Compute::on(self.device, threads.count().get())?)
    }
}

/// How a network computes that only embeds.
#[derive(Debug, Args)]
pub struct ComputeArgs {
    #[command(flatten)]
    pub threads: ThreadArgs,
    /// Bits of weights: f32, bf16 or int8. Fewer take less memory, and less time on some processors
    #[arg(long, value_name = "BITS", default_value = "f32")]
    pub precision: Precision,
    #[command(flatten)]
    pub device: DeviceArgs,
}

impl ComputeArgs {
    /// The device, with these threads and bits.
    pub fn compute(&self) -> Result<Compute> {
        Ok(self.device.compute(&self.threads)?.with_precision(self.precision))
    }
}

impl ModelArgs {
    /// The model's name: the one that was asked for, or the built-in one.
    pub fn name(&self) -> &str {
        self.model.as_deref().unwrap_or(BUILT_IN)
    }

    /// Opens the model; its weights are read only if a caption needs them.
    fn open(&self, option: &str) -> Result<CachedSentenceEncoder> {
        let home = Home::find()?;
        if self.model.is_none() {
            let full = PUBLISHED[0].name;
            eprintln!(
                "hark: using the built-in encoder {BUILT_IN}; for the full one: hark models pull {full}, then {option} {full}"
            );
        }
        let cache = (!self.no_cache).then(|| home.embeddings());
        let model = home.models().open_sentence_encoder(self.name())?;
        Ok(CachedSentenceEncoder::open(
            model,
            cache.as_deref(),
            &self.threads.compute(),
        )?)
    }

    /// Unit vectors of captions, with progress on a terminal and warnings about what was not as it should be.
    pub fn embed(&self, captions: &[&str]) -> Result<Embeddings> {
        self.embed_as("--model", captions)
    }

    /// As [`ModelArgs::embed`], for a command that calls the option otherwise.
    pub fn embed_as(&self, option: &str, captions: &[&str]) -> Result<Embeddings> {
        if captions.is_empty() {
            bail!("no captions given");
        }
        let mut encoder = self.open(option)?;
        let bar = progress::items("embedding captions");
        let embedded = encoder.embed(captions, &|done, total| progress::show(&bar, done, total));
        bar.finish_and_clear();
        let embedded = embedded?;
        warn(&embedded, encoder.model());
        Ok(embedded.embeddings)
    }
}

/// Says on stderr what was not as it should be, though the vectors are whole.
pub fn warn(embedded: &CachedEmbeddings, model: &SentenceModel) {
    let truncated = embedded.embeddings.truncated();
    if let Some(tokens) = model.max_tokens().filter(|_| truncated > 0) {
        let cut = output::counted(truncated, "caption");
        eprintln!("hark: warning: truncated {cut} of more than {tokens} tokens");
    }
    if let Some(error) = &embedded.not_cached {
        eprintln!(
            "hark: warning: cannot cache the embeddings: {}",
            output::explain(error)
        );
    }
}
