//! Small datasets in the layouts of the published ones, as a server would have them, made by the programs `7z` and `zip`. Tests of
//! other crates include this file.

#![allow(dead_code, unreachable_pub)] // each test uses a part

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hark_work::random::Random;

pub const REVISION: &str = "85a0c21e26fa7696a5a74ce54fada99a9b43c6de";
pub const INSIDE_WAVCAPS: &str = "mnt/fast/nobackup/scratch4weeks/xm00178/WavCaps/data/waveforms";
pub const WAVCAPS: [(&str, &str); 4] = [
    ("AudioSet_SL", "as_final.json"),
    ("BBC_Sound_Effects", "bbc_final.json"),
    ("FreeSound", "fsd_final.json"),
    ("SoundBible", "sb_final.json"),
];

/// What a server has, by path.
pub type Site = BTreeMap<String, Vec<u8>>;

/// Runs a program in a folder; it must succeed.
pub fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

/// A recording of noise, which no archive makes smaller.
pub fn noise(seed: u64, rate: u32, frames: u32) -> Vec<u8> {
    let mut random = Random::new(seed);
    let data: Vec<u8> = (0..frames)
        .flat_map(|_| (random.next() as i16).to_le_bytes())
        .collect();
    let mut out = b"RIFF".to_vec();
    out.extend((36 + data.len() as u32).to_le_bytes());
    out.extend(b"WAVEfmt ");
    out.extend(16_u32.to_le_bytes());
    for number in [1_u16, 1] {
        out.extend(number.to_le_bytes());
    }
    for number in [rate, 2 * rate] {
        out.extend(number.to_le_bytes());
    }
    for number in [2_u16, 16] {
        out.extend(number.to_le_bytes());
    }
    out.extend(b"data");
    out.extend((data.len() as u32).to_le_bytes());
    out.extend(data);
    out
}

pub fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, bytes).unwrap();
}

/// The site of a dataset; `work` is an empty folder.
pub fn site(dataset: &str, work: &Path) -> Site {
    match dataset {
        "clotho" => clotho(work),
        "clotho-retrieval-2022" => retrieval(work),
        "esc50" => esc50(work),
        "audiocaps" => audiocaps(),
        "wavcaps" => wavcaps(work),
        other => panic!("{other}"),
    }
}

fn clotho(work: &Path) -> Site {
    let mut site = Site::new();
    for (seed, split) in ["development", "validation", "evaluation"]
        .into_iter()
        .enumerate()
    {
        let (mut captions, mut metadata) = (
            "file_name,caption_1,caption_2,caption_3,caption_4,caption_5\n".to_owned(),
            "file_name,keywords,sound_id,sound_link,start_end_samples,manufacturer,license\n".to_owned(),
        );
        for nth in 0..12_u64 {
            let name = format!("{split} {nth}.wav");
            let frames = 4_000 + 500 * nth as u32;
            write(
                &work.join(split).join(&name),
                noise(100 * seed as u64 + nth, 44_100, frames),
            );
            writeln!(captions, "{name},rain falls,it rains,water,drops,a storm").unwrap();
            writeln!(metadata, "{name},rain,{nth},x,x,someone,CC0").unwrap();
        }
        let archive = format!("clotho_audio_{split}.7z");
        run(work, "7z", &["a", "-bd", &archive, split]);
        let path = |name: &str| format!("/records/4783391/files/{name}");
        site.insert(path(&archive), fs_err::read(work.join(&archive)).unwrap());
        site.insert(
            path(&format!("clotho_captions_{split}.csv")),
            captions.into_bytes(),
        );
        site.insert(
            path(&format!("clotho_metadata_{split}.csv")),
            metadata.into_bytes(),
        );
    }
    site
}

fn retrieval(work: &Path) -> Site {
    let mut metadata = "file_name,sound_id,manufacturer\n".to_owned();
    for (nth, name) in ["metal: police.wav", "Wet : Metro.wav", "plain.wav"]
        .into_iter()
        .enumerate()
    {
        let on_disk = name.replace(" : ", "_").replace(": ", "_");
        write(&work.join("test").join(on_disk), noise(nth as u64, 44_100, 9_000));
        writeln!(metadata, "{name},{nth},someone").unwrap();
    }
    run(work, "7z", &["a", "-bd", "retrieval_audio.7z", "test"]);
    let archive = fs_err::read(work.join("retrieval_audio.7z")).unwrap();
    let path = |name: &str| format!("/record/6590983/files/{name}");
    Site::from([
        (path("retrieval_audio.7z"), archive),
        (path("retrieval_audio_metadata.csv"), metadata.into_bytes()),
        (
            path("retrieval_captions.csv"),
            b"caption\nrain falls\na train\n".to_vec(),
        ),
    ])
}

fn esc50(work: &Path) -> Site {
    let root = work.join("ESC-50-master");
    let mut table = "filename,fold,target,category,esc10,src_file,take\n".to_owned();
    for nth in 0..20_u64 {
        let name = format!("{}-{nth}-A-{nth}.wav", nth % 5 + 1);
        write(&root.join("audio").join(&name), noise(nth, 44_100, 5_000));
        writeln!(table, "{name},{},{nth},class_{nth},False,{nth},A", nth % 5 + 1).unwrap();
    }
    write(&root.join("meta/esc50.csv"), &table);
    write(&root.join("LICENSE"), "CC BY-NC\n");
    write(&root.join("README.md"), "ESC-50\n");
    run(work, "zip", &["-q", "-r", "master.zip", "ESC-50-master"]);
    Site::from([
        (
            "/karolpiczak/ESC-50/archive/master.zip".to_owned(),
            fs_err::read(work.join("master.zip")).unwrap(),
        ),
        (
            "/karolpiczak/ESC-50/raw/master/meta/esc50.csv".to_owned(),
            table.into_bytes(),
        ),
    ])
}

/// Videos by name: those of `gone...` are gone, those of `fail...` fail.
fn audiocaps() -> Site {
    let mut site = Site::new();
    for (split, clips) in [("train", 9), ("val", 2), ("test", 3)] {
        let mut captions = "audiocap_id,youtube_id,start_time,caption\n".to_owned();
        for nth in 0..clips {
            let kind = if nth == 1 { "gone" } else { "good" };
            writeln!(captions, "{nth},{kind}_{split:-<5}{nth},{},rain falls", 10 * nth).unwrap();
        }
        site.insert(
            format!("/cdjkim/audiocaps/master/dataset/{split}.csv"),
            captions.into_bytes(),
        );
    }
    site
}

fn wavcaps(work: &Path) -> Site {
    let mut site = Site::new();
    for (seed, (source, json)) in WAVCAPS.into_iter().enumerate() {
        let folder = format!("{INSIDE_WAVCAPS}/{source}_flac");
        let mut data = Vec::new();
        for nth in 0..8_u64 {
            let id = match source {
                "AudioSet_SL" => format!("Yabcdefghij{nth}.wav"),
                _ => format!("{}", 1000 * seed as u64 + nth),
            };
            let name = id.trim_end_matches(".wav");
            // Noise in FLAC is as long as in WAV.
            let samples: Vec<i16> = {
                let mut random = Random::new(50 * seed as u64 + nth);
                (0..12_000).map(|_| random.next() as i16).collect()
            };
            let flac = hark_audio::encode_flac(&samples, 32_000).unwrap();
            write(&work.join(&folder).join(format!("{name}.flac")), flac);
            data.push(serde_json::json!({"id": id, "caption": "Rain falls.", "duration": 0.4}));
        }
        let archive = format!("{source}.zip");
        let split: &[&str] = if source == "SoundBible" {
            &[]
        } else {
            &["-s", "64k"]
        };
        run(
            work,
            "zip",
            &[&["-q", "-r"], split, &[&archive, &folder]].concat(),
        );
        let captions = serde_json::json!({"num_captions_per_audio": 1, "data": data})
            .to_string()
            .into_bytes();
        let json_folder = format!("json_files/{source}");
        add(
            &mut site,
            &json_folder,
            BTreeMap::from([(json.to_owned(), captions)]),
        );
        let parts = parts(work, source);
        assert_eq!(parts.len(), if source == "SoundBible" { 1 } else { 3 });
        add(&mut site, &format!("Zip_files/{source}"), parts);
    }
    for name in ["blacklist_clotho.full.v2.csv", "blacklist_audiocaps.full.csv"] {
        let id = if name.contains("clotho") {
            "2001"
        } else {
            "Yabcdefghij1.wav"
        };
        let path = format!("/Labbeti/aac-datasets/main/data/wavcaps/{name}");
        site.insert(path, format!("index,id\n0,{id}\n").into_bytes());
    }
    site
}

/// The parts of an archive in a folder, by name.
fn parts(work: &Path, archive: &str) -> BTreeMap<String, Vec<u8>> {
    let mut parts = BTreeMap::new();
    for entry in fs_err::read_dir(work).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && path.file_stem().is_some_and(|stem| stem == archive) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            parts.insert(name, fs_err::read(&path).unwrap());
        }
    }
    parts
}

/// Puts files on the hub, and lists them as the hub does.
fn add(site: &mut Site, folder: &str, files: BTreeMap<String, Vec<u8>>) {
    let scratch = tempfile::tempdir().unwrap();
    let mut listed = Vec::new();
    for (name, bytes) in files {
        let path = format!("{folder}/{name}");
        let at = scratch.path().join("x");
        fs_err::write(&at, &bytes).unwrap();
        let oid = hark_download::digest_file(&at, None).unwrap().sha256;
        listed.push(serde_json::json!({
            "type": "file", "oid": "0", "size": bytes.len(), "path": path,
            "lfs": {"oid": oid, "size": bytes.len(), "pointerSize": 130},
        }));
        site.insert(
            format!("/datasets/cvssp/WavCaps/resolve/{REVISION}/{path}"),
            bytes,
        );
    }
    let list = serde_json::Value::from(listed).to_string().into_bytes();
    site.insert(
        format!("/api/datasets/cvssp/WavCaps/tree/{REVISION}/{folder}"),
        list,
    );
}

/// Programs that behave as `yt-dlp` and `ffmpeg` do, in a folder: videos are text, recordings a file that lies beside them.
pub fn programs(folder: &Path) -> (PathBuf, PathBuf) {
    let samples: Vec<i16> = (0..32_000).map(|at| (at % 200 * 100) as i16).collect();
    write(
        &folder.join("recording.flac"),
        hark_audio::encode_flac(&samples, 32_000).unwrap(),
    );
    let yt_dlp = "#!/bin/sh
[ \"$1\" = --version ] && exit 0
section= output= url=
while [ $# -gt 0 ]; do
  case \"$1\" in
    --download-sections) section=$2; shift ;;
    --output) output=$2; shift ;;
    --) url=$2; shift ;;
  esac
  shift
done
case \"$url\" in
  https://www.youtube.com/watch\\?v=gone*) echo 'WARNING: x' >&2; echo \"ERROR: [youtube] x: Video unavailable. It is gone, \\\"really\\\"\" >&2; exit 1 ;;
  https://www.youtube.com/watch\\?v=fail*) echo 'ERROR: HTTP Error 429: Too Many Requests' >&2; exit 1 ;;
  https://www.youtube.com/watch\\?v=good*) ;;
  *) exit 3 ;;
esac
echo \"$section\" > \"$(dirname \"$output\")/video.webm\"
echo \"$url\" >> \"$(dirname \"$0\")/asked\"
";
    let ffmpeg = "#!/bin/sh
[ \"$1\" = -version ] && exit 0
for last; do :; done
cp \"$(dirname \"$0\")/recording.flac\" \"$last\"
";
    let place = |name: &str, text: &str| {
        let path = folder.join(name);
        write(&path, text);
        #[cfg(unix)]
        fs_err::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path
    };
    (place("yt-dlp", yt_dlp), place("ffmpeg", ffmpeg))
}

/// The files of a folder by their paths, without what is under way.
pub fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs_err::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with(".hark-pull") {
                    folders.push(path);
                }
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                files.insert(name, fs_err::read(&path).unwrap());
            }
        }
    }
    files
}
