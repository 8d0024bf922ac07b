//! Static encoders: a caption's vector is the sum of fixed vectors of its [units](Lexicon), made of length 1.
//!
//! ```text
//! v(text) = n / |n|,   n = bias + Σ over units u of  scale_u · vector_u
//! ```
//!
//! There is no network to run: a caption costs microseconds. Vectors are stored as 8-bit integers; a unit's `scale` is
//! its learned weight and undoes the quantisation at the same time. One safetensors file holds everything:
//!
//! | tensor | type, shape | |
//! |---|---|---|
//! | `vectors` | I8 `[units, dim]` | |
//! | `scales` | F32 `[units]` | |
//! | `bias` | F32 `[dim]` | where a text without any known unit points |
//! | `units` | U8 `[bytes]` | the units, one a line |
//!
//! Its metadata has one key, `hark_static`: the version of this form and a [`Card`], as JSON. (One, because a file's
//! bytes must not depend on the order of a hash map.)

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use rayon::prelude::*;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::lexicon::Lexicon;
use crate::{Embeddings, Error, Progress};
use hark_work::files::hex;

const VERSION: u32 = 1;
const METADATA: &str = "hark_static";
/// No static encoder is larger than this; a larger file is refused rather than read.
const MAX_BYTES: u64 = 1 << 30;
/// Captions that one task of the thread pool embeds.
const CHUNK: usize = 256;

/// The encoder that is part of the program.
static EMBEDDED: &[u8] = include_bytes!("../../models/caption-static/model.safetensors");
/// Its SHA-256, so that a search need not compute it; a test does.
const EMBEDDED_SHA256: [u8; 32] = [
    0xfc, 0x8d, 0x7b, 0x40, 0xc4, 0xbe, 0x91, 0x42, 0xa0, 0x9a, 0x72, 0xa3, 0x58, 0x2a, 0x46, 0xb6, 0xd2,
    0x4e, 0x8b, 0xce, 0x47, 0x78, 0x52, 0xab, 0x7f, 0x6c, 0xb2, 0x4c, 0xe4, 0x11, 0x00, 0x2f,
];

/// Where a static encoder comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// The encoder whose similarities it was fitted to.
    pub teacher: String,
    /// The teacher's fingerprint.
    pub teacher_fingerprint: String,
    /// The caption files that it was fitted on, with their SHA-256.
    pub captions: Vec<CardCaptions>,
    /// The command that made it.
    pub command: String,
    /// The licence of the teacher's weights.
    pub teacher_licence: String,
    /// The licence of the captions.
    pub captions_licence: String,
}

/// What the file's metadata says.
#[derive(Serialize, Deserialize)]
struct About {
    version: u32,
    card: Card,
}

/// The part of [`About`] that stays the same in every version.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// A caption file that an encoder was fitted on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardCaptions {
    /// The file's name, without folders.
    pub file: String,
    /// Its SHA-256.
    pub sha256: String,
    /// How many captions it holds.
    pub captions: usize,
}

impl CardCaptions {
    /// A file that holds so many captions. It is named without its folder: a card travels, a path does not.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_file(path: &Path, captions: usize) -> Result<Self, Error> {
        let sha256 = hex(&Sha256::digest(fs_err::read(path)?));
        let file = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Self {
            file,
            sha256,
            captions,
        })
    }
}

/// The numbers of a static encoder, as they are stored.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The units, in the order of the rows.
    pub units: Vec<String>,
    /// `[units, dim]`.
    pub vectors: Vec<i8>,
    /// `[units]`.
    pub scales: Vec<f32>,
    /// `[dim]`.
    pub bias: Vec<f32>,
}

/// A static encoder, ready to use.
#[derive(Debug, Clone)]
pub struct StaticEncoder {
    lexicon: Lexicon,
    /// Bytes of signed numbers.
    vectors: Cow<'static, [u8]>,
    scales: Vec<f32>,
    bias: Vec<f32>,
    card: Card,
    fingerprint: [u8; 32],
}

impl StaticEncoder {
    /// The encoder that is part of the program.
    ///
    /// # Errors
    /// None that a user can meet: a test of this crate opens it.
    pub fn built_in() -> Result<Self, Error> {
        let path = Path::new("the embedded encoder");
        Self::parse(EMBEDDED, path, EMBEDDED_SHA256, Cow::Borrowed)
    }

    /// The file of the encoder that is part of the program.
    pub fn built_in_bytes() -> &'static [u8] {
        EMBEDDED
    }

    /// Reads an encoder from a file.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is none, or its parts do not fit each other.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let length = fs_err::metadata(path)?.len();
        if length > MAX_BYTES {
            let what = format!("{length} bytes, at most {MAX_BYTES} are read");
            return Err(Error::Damaged {
                path: path.to_owned(),
                what,
            });
        }
        Self::parse_owned(&fs_err::read(path)?, path)
    }

    fn parse_owned(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        Self::parse(bytes, path, Sha256::digest(bytes).into(), |vectors| {
            Cow::Owned(vectors.to_vec())
        })
    }

    /// `fingerprint` is the SHA-256 of the bytes, and `keep` gives the vectors among them a life of their own.
    fn parse<'a>(
        bytes: &'a [u8],
        path: &Path,
        fingerprint: [u8; 32],
        keep: impl FnOnce(&'a [u8]) -> Cow<'static, [u8]>,
    ) -> Result<Self, Error> {
        let damaged = |what: String| Error::Damaged {
            path: path.to_owned(),
            what,
        };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| damaged(e.to_string()))?;
        let file = SafeTensors::deserialize(bytes).map_err(|e| damaged(e.to_string()))?;
        let metadata = header.metadata().clone().unwrap_or_default();
        let Some(about) = metadata.get(METADATA) else {
            return Err(Error::Unsupported {
                path: path.to_owned(),
                what: "a model without config.json that is not a static encoder".to_owned(),
                supported: "Sentence-Transformers folders, static encoders",
            });
        };
        let Version { version } =
            serde_json::from_str(about).map_err(|e| damaged(format!("{METADATA}: {e}")))?;
        if version != VERSION {
            return Err(damaged(format!(
                "a static encoder of version {version}, this program reads {VERSION}"
            )));
        }
        let About { card, .. } =
            serde_json::from_str(about).map_err(|e| damaged(format!("{METADATA}: {e}")))?;
        let tensor = |name: &str, kind: Dtype| -> Result<TensorView<'a>, Error> {
            let view = file.tensor(name).map_err(|e| damaged(format!("{name}: {e}")))?;
            if view.dtype() != kind {
                return Err(damaged(format!(
                    "{name} is of type {:?}, not {kind:?}",
                    view.dtype()
                )));
            }
            Ok(view)
        };
        let floats = |view: &TensorView<'_>| -> Vec<f32> {
            view.data()
                .as_chunks::<4>()
                .0
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes))
                .collect()
        };
        let (vectors, scales, bias) = (
            tensor("vectors", Dtype::I8)?,
            tensor("scales", Dtype::F32)?,
            tensor("bias", Dtype::F32)?,
        );
        let units = tensor("units", Dtype::U8)?;
        let units = std::str::from_utf8(units.data()).map_err(|e| damaged(format!("units: {e}")))?;
        let count = units.lines().count();
        let dim = bias.shape().first().copied().unwrap_or(0);
        if dim == 0 || vectors.shape() != [count, dim] || scales.shape() != [count] {
            let (vectors, scales) = (vectors.shape(), scales.shape());
            return Err(damaged(format!(
                "{count} units, vectors {vectors:?}, scales {scales:?}, bias [{dim}]"
            )));
        }
        let (scales, bias) = (floats(&scales), floats(&bias));
        if scales.iter().chain(&bias).any(|x| !x.is_finite()) {
            return Err(damaged("a scale or the bias is not a number".to_owned()));
        }
        Ok(Self {
            lexicon: Lexicon::new(units.lines()),
            vectors: keep(vectors.data()),
            scales,
            bias,
            card,
            fingerprint,
        })
    }

    /// The bytes of a file with these numbers.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the parts do not fit each other; the path is then empty.
    pub fn to_bytes(parts: &Parts, card: &Card) -> Result<Vec<u8>, Error> {
        let damaged = |what: String| Error::Damaged {
            path: "".into(),
            what,
        };
        let (count, dim) = (parts.units.len(), parts.bias.len());
        let floats = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let vectors: Vec<u8> = parts.vectors.iter().map(|&x| x as u8).collect();
        let (scales, bias) = (floats(&parts.scales), floats(&parts.bias));
        let mut units = parts.units.join("\n").into_bytes();
        units.push(b'\n');
        let view = |name, kind, shape, data| {
            let view = TensorView::new(kind, shape, data).map_err(|e| damaged(format!("{name}: {e}")))?;
            Ok::<_, Error>((Cow::Borrowed(name), view))
        };
        let tensors = vec![
            view("vectors", Dtype::I8, vec![count, dim], &vectors)?,
            view("scales", Dtype::F32, vec![count], &scales)?,
            view("bias", Dtype::F32, vec![dim], &bias)?,
            view("units", Dtype::U8, vec![units.len()], &units)?,
        ];
        let about = About {
            version: VERSION,
            card: card.clone(),
        };
        let about = serde_json::to_string(&about).map_err(|e| damaged(e.to_string()))?;
        let metadata = HashMap::from([(METADATA.to_owned(), about)]);
        let bytes = safetensors::serialize(tensors, Some(metadata)).map_err(|e| damaged(e.to_string()))?;
        // What cannot be read again is not written.
        Self::parse_owned(&bytes, Path::new(""))?;
        Ok(bytes)
    }

    /// Length of a vector.
    pub fn dim(&self) -> usize {
        self.bias.len()
    }

    /// The number of units that have a vector.
    pub fn units(&self) -> usize {
        self.lexicon.len()
    }

    /// Whether a word of a text is a unit, or begins with one of at least three letters.
    pub fn knows(&self, text: &str) -> bool {
        self.lexicon.knows(text)
    }

    /// Where it comes from.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// SHA-256 of the file.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// Embeds all captions on a pool of this many threads.
    pub(super) fn embed_on(
        &self,
        threads: usize,
        captions: &[&str],
        progress: Progress<'_>,
    ) -> Result<Embeddings, Error> {
        hark_work::progress::report(progress, 0, captions.len())?;
        let embeddings = if captions.len() <= CHUNK {
            // Starting a thread takes longer.
            self.embed_here(captions)?
        } else {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
            pool.install(|| self.embed(captions))?
        };
        hark_work::progress::report(progress, captions.len(), captions.len())?;
        Ok(embeddings)
    }

    /// Embeds all captions on the caller's thread pool; rows are in the captions' order.
    ///
    /// # Errors
    /// [`Error::NoDirection`] for a caption whose vectors cancel each other.
    pub fn embed(&self, captions: &[&str]) -> Result<Embeddings, Error> {
        let mut vectors = vec![0.0; captions.len() * self.dim()];
        let chunks = vectors
            .par_chunks_mut(CHUNK * self.dim())
            .zip(captions.par_chunks(CHUNK));
        chunks.try_for_each(|(vectors, captions)| {
            let rows = vectors.chunks_exact_mut(self.dim());
            rows.zip(captions)
                .try_for_each(|(vector, caption)| self.embed_one(caption, vector))
        })?;
        Ok(Embeddings::new(vectors, self.dim())?)
    }

    /// As [`StaticEncoder::embed`], on this thread alone.
    fn embed_here(&self, captions: &[&str]) -> Result<Embeddings, Error> {
        let mut vectors = vec![0.0; captions.len() * self.dim()];
        for (vector, caption) in vectors.chunks_exact_mut(self.dim()).zip(captions) {
            self.embed_one(caption, vector)?;
        }
        Ok(Embeddings::new(vectors, self.dim())?)
    }

    fn embed_one(&self, caption: &str, vector: &mut [f32]) -> Result<(), Error> {
        let dim = self.dim();
        vector.copy_from_slice(&self.bias);
        for unit in self.lexicon.units(caption) {
            let unit = unit as usize;
            let scale = self.scales[unit];
            for (x, &part) in vector.iter_mut().zip(&self.vectors[unit * dim..][..dim]) {
                *x += scale * f32::from(part as i8);
            }
        }
        crate::texts::normalise(vector, caption)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_encoder_has_the_hash_that_is_stated() {
        let hash: [u8; 32] = Sha256::digest(EMBEDDED).into();
        assert_eq!(hash, EMBEDDED_SHA256);
        assert_eq!(StaticEncoder::built_in().unwrap().fingerprint(), hash);
    }

    #[test]
    fn few_captions_are_embedded_as_many_are() {
        let encoder = StaticEncoder::built_in().unwrap();
        let captions = ["a dog barks", "rain on a roof", ""];
        let few = encoder.embed_here(&captions).unwrap();
        assert_eq!(few.as_slice(), encoder.embed(&captions).unwrap().as_slice());
    }
}
