//! Whether a pulled dataset is complete.

use std::path::Path;

use hark_corpus::{Check, CheckedSet, Completeness, DatasetConfig, Reason, Skipped, WavcapsSource};
use hark_work::progress::{Progress, report};

use crate::Error;
use crate::published::Published;

/// The list of overlapping FreeSound ids that is pulled with WavCaps.
const OVERLAP: [&str; 2] = ["blacklist_clotho.full.v2.csv", "blacklist_audiocaps.full.csv"];

/// Opens every recording of some splits of a dataset, as `hark data check` does.
///
/// # Errors
/// Those of [`DatasetConfig::check`], [`Error::UnknownSplit`], and metadata that cannot be read.
pub fn check(
    dataset: &'static Published,
    folder: &Path,
    splits: &[String],
    threads: usize,
    progress: Progress<'_>,
) -> Result<Vec<CheckedSet>, Error> {
    let root = folder.to_owned();
    let splits = dataset.splits(splits)?;
    let configs: Vec<DatasetConfig> = match dataset.name {
        "clotho" => splits
            .iter()
            .map(|split| DatasetConfig::Clotho {
                root: root.clone(),
                split: (*split).to_owned(),
            })
            .collect(),
        "audiocaps" => splits
            .iter()
            .map(|split| DatasetConfig::Audiocaps {
                root: root.clone(),
                split: (*split).to_owned(),
                audio: None,
            })
            .collect(),
        "esc50" => vec![DatasetConfig::Table {
            file: root.join("meta/esc50.csv"),
            audio_folder: Some(root.join("audio")),
            path_column: Some("filename".to_owned()),
            caption_columns: vec!["category".to_owned()],
        }],
        "wavcaps" => {
            let [clotho, audiocaps] = OVERLAP.map(|name| Some(root.join(name)).filter(|path| path.is_file()));
            let is_wanted = |source: &WavcapsSource| splits.contains(&source.folder());
            let sources: Vec<WavcapsSource> = WavcapsSource::ALL.into_iter().filter(is_wanted).collect();
            vec![DatasetConfig::Wavcaps {
                root,
                exclude: clotho
                    .filter(|_| sources.contains(&WavcapsSource::FreeSound))
                    .map(hark_corpus::Exclusion::List),
                exclude_audioset: audiocaps.filter(|_| sources.contains(&WavcapsSource::AudioSet)),
                sources,
            }]
        }
        _ => return Ok(vec![retrieval(folder, progress)?]),
    };
    let check = |config: &DatasetConfig| Ok(config.check(Check::Opens, threads, progress)?);
    configs.iter().map(check).collect()
}

/// The retrieval test of 2022, whose captions name no recordings: its metadata does.
fn retrieval(folder: &Path, progress: Progress<'_>) -> Result<CheckedSet, Error> {
    let path = folder.join("retrieval_audio_metadata.csv");
    let bytes = fs_err::read(&path)?;
    // As Clotho's: UTF-8, or else Latin-1.
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| error.as_bytes().iter().map(|&byte| char::from(byte)).collect());
    let unreadable = |reason: String| Error::Record {
        path: path.clone(),
        reason,
    };
    let mut rows = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(text.as_bytes());
    let headers = rows.headers().map_err(|error| unreadable(error.to_string()))?;
    let column = headers
        .iter()
        .position(|name| name.trim_start_matches('\u{feff}') == "file_name")
        .ok_or_else(|| unreadable("it has no column file_name".to_owned()))?;
    let mut set = CheckedSet {
        state: Completeness {
            name: "clotho-retrieval-2022".to_owned(),
            caption_files: vec![folder.join("retrieval_captions.csv")],
            ..Completeness::default()
        },
        broken: Vec::new(),
    };
    let captions = fs_err::read(folder.join("retrieval_captions.csv"))?;
    set.state.captions = csv::Reader::from_reader(&captions[..]).records().count();
    let names: Vec<String> = rows
        .records()
        .filter_map(|row| Some(row.ok()?.get(column)?.to_owned()))
        .collect();
    set.state.expected = names.len();
    set.state.searched = vec![folder.join("retrieval_audio")];
    for (number, name) in names.iter().enumerate() {
        report(progress, number, names.len())?;
        let found = [name.clone(), on_disk(name)]
            .iter()
            .flat_map(|name| {
                let path = folder.join("retrieval_audio").join(name);
                [path.with_extension("flac"), path]
            })
            .find(|path| path.is_file());
        let skipped = |path, reason| Skipped {
            id: name.clone(),
            path: Some(path),
            reason,
            captions: 0,
        };
        match found {
            None => {
                let path = folder.join("retrieval_audio").join(on_disk(name));
                set.state.missing.push(skipped(path, Reason::Missing));
            }
            Some(path) => {
                set.state.found += 1;
                if let Err(error) = hark_audio::probe(&path) {
                    set.broken.push(skipped(path, Reason::Broken(error.to_string())));
                }
            }
        }
    }
    report(progress, names.len(), names.len())?;
    Ok(set)
}

/// The name on disk of a recording: where the metadata has a colon, with or without blanks around it, the archive has an
/// underscore.
fn on_disk(name: &str) -> String {
    let parts: Vec<&str> = name.split(':').map(str::trim).collect();
    parts.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_work::progress::no_progress;

    #[test]
    fn a_colon_of_the_metadata_is_an_underscore_on_disk() {
        for (name, expected) in [
            (
                "raindrops on metal: police background.wav",
                "raindrops on metal_police background.wav",
            ),
            (
                "Intersection Wet : Metro Pass.wav",
                "Intersection Wet_Metro Pass.wav",
            ),
            ("plain.wav", "plain.wav"),
        ] {
            assert_eq!(on_disk(name), expected);
        }
    }

    #[test]
    fn the_retrieval_test_is_checked_by_its_metadata() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs_err::create_dir(root.join("retrieval_audio")).unwrap();
        fs_err::write(
            root.join("retrieval_captions.csv"),
            "caption\nRain falls\nA dog barks\n",
        )
        .unwrap();
        let metadata = b"file_name,manufacturer\na: b.wav,Jos\xe9\nc.wav,x\nd.wav,y\n";
        fs_err::write(root.join("retrieval_audio_metadata.csv"), metadata).unwrap();
        let samples: Vec<i16> = (0..4000).collect();
        fs_err::write(
            root.join("retrieval_audio/a_b.flac"),
            hark_audio::encode_flac(&samples, 32_000).unwrap(),
        )
        .unwrap();
        fs_err::write(root.join("retrieval_audio/c.wav"), "no sound").unwrap();
        let dataset = Published::find("clotho-retrieval-2022").unwrap();
        let sets = check(dataset, root, &[], 1, &no_progress).unwrap();
        let [set] = &sets[..] else { panic!("{sets:?}") };
        assert_eq!(
            (set.state.captions, set.state.expected, set.state.found),
            (2, 3, 2)
        );
        assert_eq!(
            (set.state.missing[0].id.as_str(), set.broken[0].id.as_str()),
            ("d.wav", "c.wav")
        );
        assert!(!set.is_complete());
    }
}
