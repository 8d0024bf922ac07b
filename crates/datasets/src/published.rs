//! Which datasets can be pulled, where their files are, and the checksums that their publishers state. Where none is stated here
//! and none comes from the server, what was downloaded is recorded and not compared.

use std::collections::BTreeMap;

use hark_corpus::WavcapsSource;
use hark_download::{Checksum, Client, GoOn};
use serde::Deserialize;

use crate::Error;
use crate::unpack::{Format, Layout};

/// A dataset that can be pulled by name.
#[derive(Debug)]
pub struct Published {
    /// In lower case.
    pub name: &'static str,
    /// One line on what it is.
    pub about: &'static str,
    /// What its publishers allow.
    pub licence: &'static str,
    /// The parts of it that can be pulled alone.
    pub splits: &'static [&'static str],
    /// What to run next, with `FOLDER` for the folder.
    pub next: &'static str,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Files(&'static [Listed]),
    /// The hub lists the archives.
    WavCaps,
    /// Captions are files, recordings are on YouTube.
    AudioCaps(&'static [Listed]),
}

/// A file of a dataset.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) split: Option<&'static str>,
    pub(crate) url: &'static str,
    pub(crate) md5: Option<&'static str>,
    pub(crate) what: What,
}

/// What a file is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    /// Text that belongs at the top of the folder, under its own name.
    Captions,
    /// Text that belongs here.
    CaptionsAt(&'static str),
    Archive(Format, Layout),
}

/// Where a file comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The last part of its address.
    pub(crate) name: String,
    pub(crate) url: String,
    /// Its length, if the publisher states it.
    pub(crate) bytes: Option<u64>,
    /// Its length as the server says when it is asked.
    pub(crate) told: Option<u64>,
    pub(crate) checksum: Option<Checksum>,
}

/// What is to be downloaded.
#[derive(Debug, Default)]
pub(crate) struct Needed {
    /// Files, and their places in the folder.
    pub(crate) files: Vec<(Origin, String)>,
    /// Files that are useful and not part of the dataset.
    pub(crate) extras: Vec<(Origin, String)>,
    /// Archives; those of one list are downloaded before the first of them is unpacked.
    pub(crate) archives: Vec<Vec<Packed>>,
    /// Splits of AudioCaps whose recordings are fetched one by one.
    pub(crate) videos: Vec<&'static str>,
}

/// An archive.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) name: String,
    pub(crate) parts: Vec<Origin>,
    pub(crate) format: Format,
    pub(crate) layout: Layout,
}

impl Published {
    /// The dataset of this name, in any case.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn find(name: &str) -> Result<&'static Self, Error> {
        let found = DATASETS
            .iter()
            .find(|dataset| dataset.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| Error::Unknown {
            name: name.to_owned(),
            known: DATASETS.iter().map(|dataset| dataset.name).collect(),
        })
    }

    /// The splits of these names, in the dataset's order; all, if none is named.
    pub(crate) fn splits(&self, named: &[String]) -> Result<Vec<&'static str>, Error> {
        for name in named {
            if !self.splits.iter().any(|split| split.eq_ignore_ascii_case(name)) {
                return Err(Error::UnknownSplit {
                    dataset: self.name,
                    split: name.clone(),
                    known: self.splits.to_vec(),
                });
            }
        }
        let is_wanted =
            |split: &&str| named.is_empty() || named.iter().any(|name| name.eq_ignore_ascii_case(split));
        Ok(self
            .splits
            .iter()
            .copied()
            .filter(|split| is_wanted(split))
            .collect())
    }

    /// What these splits need, without recordings if `captions_only`. Only WavCaps asks the network for it.
    pub(crate) fn needed(
        &self,
        splits: &[&'static str],
        captions_only: bool,
        client: &Client,
        go_on: GoOn<'_>,
    ) -> Result<Needed, Error> {
        let (Kind::Files(listed) | Kind::AudioCaps(listed)) = &self.kind else {
            return wavcaps(splits, captions_only, client, go_on);
        };
        let mut needed = Needed::default();
        let mut archives = Vec::new();
        let of_splits = |file: &&Listed| file.split.is_none_or(|split| splits.contains(&split));
        for file in listed.iter().filter(of_splits) {
            let origin = Origin {
                checksum: file.md5.map(|digits| Checksum::Md5(digits.to_owned())),
                ..Origin::of(file.url.to_owned())
            };
            match file.what {
                What::Captions => {
                    let place = origin.name.clone();
                    needed.files.push((origin, place));
                }
                What::CaptionsAt(place) => needed.files.push((origin, place.to_owned())),
                What::Archive(..) if captions_only => {}
                What::Archive(format, layout) => archives.push(Packed {
                    name: origin.name.clone(),
                    parts: vec![origin],
                    format,
                    layout,
                }),
            }
        }
        if !archives.is_empty() {
            needed.archives.push(archives);
        }
        if matches!(self.kind, Kind::AudioCaps(_)) && !captions_only {
            needed.videos = splits.to_vec();
        }
        Ok(needed)
    }
}

impl Origin {
    fn of(url: String) -> Self {
        let name = url.rsplit('/').next().unwrap_or_default().to_owned();
        Self {
            name,
            url,
            bytes: None,
            told: None,
            checksum: None,
        }
    }
}

// ---------------------------------------------------------------- WavCaps

const WAVCAPS_TREE: &str =
    "https://huggingface.co/api/datasets/cvssp/WavCaps/tree/85a0c21e26fa7696a5a74ce54fada99a9b43c6de/";
const WAVCAPS_FILES: &str =
    "https://huggingface.co/datasets/cvssp/WavCaps/resolve/85a0c21e26fa7696a5a74ce54fada99a9b43c6de/";
/// Lists of the recordings that Clotho and AudioCaps have too.
const WAVCAPS_OVERLAP: [&str; 2] = [
    "https://raw.githubusercontent.com/Labbeti/aac-datasets/main/data/wavcaps/blacklist_clotho.full.v2.csv",
    "https://raw.githubusercontent.com/Labbeti/aac-datasets/main/data/wavcaps/blacklist_audiocaps.full.csv",
];
/// The most bytes of a list of files.
const MAX_LIST: u64 = 16 << 20;

/// A file in the hub's list.
#[derive(Debug, Deserialize)]
struct HubFile {
    path: String,
    size: u64,
    lfs: Option<HubLarge>,
}

/// A large file's own checksum and length.
#[derive(Debug, Deserialize)]
struct HubLarge {
    oid: String,
    size: u64,
}

fn wavcaps(
    splits: &[&'static str],
    captions_only: bool,
    client: &Client,
    go_on: GoOn<'_>,
) -> Result<Needed, Error> {
    let mut needed = Needed::default();
    for source in WavcapsSource::ALL {
        let folder = source.folder();
        if !splits.contains(&folder) {
            continue;
        }
        let (url, files) = hub_files(&format!("json_files/{folder}"), client, go_on)?;
        let captions = files.get(source.json()).ok_or_else(|| Error::Listing {
            url,
            reason: format!("it lacks {}", source.json()),
        })?;
        let place = format!("json_files/{folder}/{}", source.json());
        needed.files.push((captions.clone(), place));
        if !captions_only {
            let (url, files) = hub_files(&format!("Zip_files/{folder}"), client, go_on)?;
            let parts = parts_of(folder, files).map_err(|reason| Error::Listing { url, reason })?;
            needed.archives.push(vec![Packed {
                name: format!("{folder}.zip"),
                parts,
                format: Format::Zip,
                layout: Layout::Into(match source {
                    WavcapsSource::AudioSet => "audio/AudioSet_SL",
                    WavcapsSource::Bbc => "audio/BBC_Sound_Effects",
                    WavcapsSource::FreeSound => "audio/FreeSound",
                    WavcapsSource::SoundBible => "audio/SoundBible",
                }),
            }]);
        }
    }
    for url in WAVCAPS_OVERLAP {
        let origin = Origin::of(url.to_owned());
        let place = origin.name.clone();
        needed.extras.push((origin, place));
    }
    Ok(needed)
}

/// The files of a folder on the hub, by name, and the address of the list.
fn hub_files(
    folder: &str,
    client: &Client,
    go_on: GoOn<'_>,
) -> Result<(String, BTreeMap<String, Origin>), Error> {
    let url = format!("{WAVCAPS_TREE}{folder}");
    let text = client.text(&url, None, MAX_LIST, go_on)?;
    let files: Vec<HubFile> = serde_json::from_str(&text).map_err(|error| Error::Listing {
        url: url.clone(),
        reason: error.to_string(),
    })?;
    let mut origins = BTreeMap::new();
    for file in files {
        let name = file
            .path
            .strip_prefix(folder)
            .and_then(|rest| rest.strip_prefix('/'));
        let Some(name) = name.filter(|name| !name.contains(['/', '\\'])) else {
            continue;
        };
        let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let large = file.lfs.filter(|large| is_digest(&large.oid));
        origins.insert(
            name.to_owned(),
            Origin {
                bytes: Some(large.as_ref().map_or(file.size, |large| large.size)),
                checksum: large.map(|large| Checksum::Sha256(large.oid.to_ascii_lowercase())),
                ..Origin::of(format!("{WAVCAPS_FILES}{folder}/{name}"))
            },
        );
    }
    Ok((url, origins))
}

/// The parts of an archive in their order: `.z01`, `.z02`, ..., `.zip`.
fn parts_of(name: &str, mut files: BTreeMap<String, Origin>) -> Result<Vec<Origin>, String> {
    let last = format!("{name}.zip");
    let last = files.remove(&last).ok_or_else(|| format!("it lacks {last}"))?;
    let mut parts = Vec::new();
    // From the hundredth on, numbers have three digits.
    while let Some(part) = files.remove(&format!("{name}.z{:02}", parts.len() + 1)) {
        parts.push(part);
    }
    let is_part = |left: &&String| {
        let number = left.strip_prefix(name).and_then(|rest| rest.strip_prefix(".z"));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if let Some(left) = files.keys().find(is_part) {
        return Err(format!("it has {left} and lacks {name}.z{:02}", parts.len() + 1));
    }
    parts.push(last);
    Ok(parts)
}

// ---------------------------------------------------------------- the list

const fn captions(split: &'static str, url: &'static str, md5: Option<&'static str>) -> Listed {
    Listed {
        split: Some(split),
        url,
        md5,
        what: What::Captions,
    }
}

const fn seven_z(split: &'static str, url: &'static str, md5: &'static str, folder: &'static str) -> Listed {
    Listed {
        split: Some(split),
        url,
        md5: Some(md5),
        what: What::Archive(Format::SevenZ, Layout::Into(folder)),
    }
}

/// All datasets that can be pulled.
pub const DATASETS: &[Published] = &[
    Published {
        name: "clotho",
        about: "Clotho 2.1: 5,929 recordings of 15 to 30 s with five captions each",
        licence: "captions: Tampere University licence (non-commercial, with attribution); recordings: each its own, in \
                  clotho_metadata_*.csv",
        splits: &["development", "validation", "evaluation"],
        next: "hark reproduce recipes/clotho.toml --rehearse",
        kind: Kind::Files(&[
            captions(
                "development",
                "https://zenodo.org/records/4783391/files/clotho_captions_development.csv",
                Some("d4090b39ce9f2491908eebf4d5b09bae"),
            ),
            captions(
                "validation",
                "https://zenodo.org/records/4783391/files/clotho_captions_validation.csv",
                Some("5879e023032b22a2c930aaa0528bead4"),
            ),
            captions(
                "evaluation",
                "https://zenodo.org/records/4783391/files/clotho_captions_evaluation.csv",
                Some("1b16b9e57cf7bdb7f13a13802aeb57e2"),
            ),
            captions(
                "development",
                "https://zenodo.org/records/4783391/files/clotho_metadata_development.csv",
                Some("170d20935ecfdf161ce1bb154118cda5"),
            ),
            captions(
                "validation",
                "https://zenodo.org/records/4783391/files/clotho_metadata_validation.csv",
                Some("2e010427c56b1ce6008b0f03f41048ce"),
            ),
            captions(
                "evaluation",
                "https://zenodo.org/records/4783391/files/clotho_metadata_evaluation.csv",
                Some("13946f054d4e1bf48079813aac61bf77"),
            ),
            seven_z(
                "development",
                "https://zenodo.org/records/4783391/files/clotho_audio_development.7z",
                "c8b05bc7acdb13895bb3c6a29608667e",
                "development",
            ),
            seven_z(
                "validation",
                "https://zenodo.org/records/4783391/files/clotho_audio_validation.7z",
                "7dba730be08bada48bd15dc4e668df59",
                "validation",
            ),
            seven_z(
                "evaluation",
                "https://zenodo.org/records/4783391/files/clotho_audio_evaluation.7z",
                "4569624ccadf96223f19cb59fe4f849f",
                "evaluation",
            ),
        ]),
    },
    Published {
        name: "clotho-retrieval-2022",
        about: "the test set of the DCASE 2022 challenge's language-based retrieval",
        licence: "captions: Tampere University licence (non-commercial, with attribution); recordings: each its own, in \
                  retrieval_audio_metadata.csv",
        splits: &["test"],
        next: "hark index FOLDER/retrieval_audio",
        kind: Kind::Files(&[
            captions(
                "test",
                "https://zenodo.org/record/6590983/files/retrieval_captions.csv",
                Some("f9e810118be00c64ea8cd7557816d4fe"),
            ),
            captions(
                "test",
                "https://zenodo.org/record/6590983/files/retrieval_audio_metadata.csv",
                Some("1301db07acbf1e4fabc467eb54e0d353"),
            ),
            seven_z(
                "test",
                "https://zenodo.org/record/6590983/files/retrieval_audio.7z",
                "24102395fd757c462421a483fba5c407",
                "retrieval_audio",
            ),
        ]),
    },
    Published {
        name: "esc50",
        about: "ESC-50: 2,000 recordings of 5 s in 50 classes",
        licence: "Creative Commons Attribution-NonCommercial; recordings: their authors in the repository's LICENSE",
        splits: &["all"],
        next: "hark index FOLDER/audio",
        kind: Kind::Files(&[
            // The same repository's own file: the archive below has it as `meta/esc50.csv`.
            Listed {
                split: None,
                url: "https://github.com/karolpiczak/ESC-50/raw/master/meta/esc50.csv",
                md5: None,
                what: What::CaptionsAt("meta/esc50.csv"),
            },
            Listed {
                split: None,
                url: "https://github.com/karolpiczak/ESC-50/archive/master.zip",
                md5: None,
                what: What::Archive(Format::Zip, Layout::IntoWith("audio", &[("/LICENSE", "LICENSE")])),
            },
        ]),
    },
    Published {
        name: "audiocaps",
        about: "AudioCaps: captions of 10 s of videos, whose recordings your yt-dlp and ffmpeg fetch from YouTube",
        licence: "captions: see https://github.com/cdjkim/audiocaps; recordings: those of the videos' owners",
        splits: &["train", "val", "test"],
        next: "hark reproduce recipes/audiocaps.toml --rehearse",
        kind: Kind::AudioCaps(&[
            captions(
                "train",
                "https://raw.githubusercontent.com/cdjkim/audiocaps/master/dataset/train.csv",
                None,
            ),
            captions(
                "val",
                "https://raw.githubusercontent.com/cdjkim/audiocaps/master/dataset/val.csv",
                None,
            ),
            captions(
                "test",
                "https://raw.githubusercontent.com/cdjkim/audiocaps/master/dataset/test.csv",
                None,
            ),
        ]),
    },
    Published {
        name: "wavcaps",
        about: "WavCaps: 403,050 recordings of four sources with one generated caption each",
        licence: "captions: see https://huggingface.co/datasets/cvssp/WavCaps; recordings: those of their sources",
        splits: &["AudioSet_SL", "BBC_Sound_Effects", "FreeSound", "SoundBible"],
        next: "hark reproduce recipes/pretrain.toml --rehearse",
        kind: Kind::WavCaps,
    },
];

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    fn hub(names: &[&str]) -> BTreeMap<String, Origin> {
        let origin = |name: &&str| {
            (
                (*name).to_owned(),
                Origin::of(format!("https://hub.invalid/{name}")),
            )
        };
        names.iter().map(origin).collect()
    }

    #[test]
    fn parts_are_in_their_order_and_all_there() {
        let names = |parts: Vec<Origin>| parts.into_iter().map(|part| part.name).collect::<Vec<_>>();
        let all = hub(&["x.zip", "x.z02", "x.z01", "other.txt", "x.zzz"]);
        assert_eq!(names(parts_of("x", all).unwrap()), ["x.z01", "x.z02", "x.zip"]);
        assert_eq!(names(parts_of("x", hub(&["x.zip"])).unwrap()), ["x.zip"]);
        assert_eq!(parts_of("x", hub(&["x.z01"])).unwrap_err(), "it lacks x.zip");
        let gap = parts_of("x", hub(&["x.zip", "x.z01", "x.z03"])).unwrap_err();
        assert_eq!(gap, "it has x.z03 and lacks x.z02");
        let many: Vec<String> = (1..=101).map(|number| format!("x.z{number:02}")).collect();
        let mut all: Vec<&str> = many.iter().map(String::as_str).collect();
        all.push("x.zip");
        assert_eq!(parts_of("x", hub(&all)).unwrap().len(), 102);
    }

    #[test]
    fn datasets_and_splits_are_found_in_any_case() {
        let clotho = Published::find("Clotho").unwrap();
        assert_eq!(clotho.splits(&["EVALUATION".to_owned()]).unwrap(), ["evaluation"]);
        assert_eq!(clotho.splits(&[]).unwrap().len(), 3);
        let error = clotho.splits(&["test".to_owned()]).unwrap_err().to_string();
        assert_eq!(
            error,
            "clotho has no split test (known: development, validation, evaluation)"
        );
        let error = Published::find("clothes").unwrap_err().to_string();
        assert!(
            error.contains("known: clotho, clotho-retrieval-2022, esc50, audiocaps, wavcaps"),
            "{error}"
        );
    }

    #[test]
    fn captions_alone_need_no_archive() {
        let (client, go_on) = (Client::new(), || ControlFlow::Continue(()));
        for dataset in DATASETS
            .iter()
            .filter(|dataset| !matches!(dataset.kind, Kind::WavCaps))
        {
            let splits = dataset.splits(&[]).unwrap();
            let needed = dataset.needed(&splits, true, &client, &go_on).unwrap();
            assert!(!needed.files.is_empty() && needed.archives.is_empty() && needed.videos.is_empty());
            let all = dataset.needed(&splits, false, &client, &go_on).unwrap();
            assert!(
                !(all.archives.is_empty() && all.videos.is_empty()),
                "{}",
                dataset.name
            );
            // Checksums have the form of what they are.
            let parts = all.archives.iter().flatten().flat_map(|packed| &packed.parts);
            for origin in parts.chain(all.files.iter().map(|(origin, _)| origin)) {
                if let Some(Checksum::Md5(digits)) = &origin.checksum {
                    assert_eq!(digits.len(), 32, "{}", origin.name);
                }
            }
        }
    }
}
