//! What a pull takes and what it did, in words.

use std::fmt;

use hark_work::progress::{Bytes, counted};
use serde_json::json;

use crate::{Plan, Pulled};

impl Plan<'_> {
    /// The same for programs.
    pub fn to_json(&self) -> serde_json::Value {
        let file = |file: &crate::PlannedFile| json!({"name": file.name, "bytes": file.bytes, "here": file.here, "checked": file.is_checked});
        let request = self.request();
        json!({
            "dataset": request.dataset.name,
            "licence": request.dataset.licence,
            "folder": request.folder,
            "files": self.files.iter().map(file).collect::<Vec<_>>(),
            "bytes_left": self.bytes_left(),
            "done": self.done,
            "videos": self.videos(),
            "free": self.free,
        })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dataset = self.request().dataset;
        writeln!(f, "{}", dataset.about)?;
        writeln!(f, "licence: {}", dataset.licence)?;
        let count = |is: fn(&&crate::PlannedFile) -> bool| self.files.iter().filter(is).count();
        write!(
            f,
            "download: {}, {}",
            counted(self.files.len(), "file"),
            Bytes(self.bytes_left())
        )?;
        match count(|file| file.bytes.is_none()) {
            0 => {}
            unknown => write!(f, " and {} of unknown length", counted(unknown, "file"))?,
        }
        if self.done > 0 {
            write!(f, "; {} already here", counted(self.done, "file"))?;
        }
        if !self.videos().is_empty() {
            write!(
                f,
                "; recordings of {} by yt-dlp and ffmpeg",
                self.videos().join(", ")
            )?;
        }
        match count(|file| !file.is_checked) {
            0 => {}
            1 => write!(f, "; 1 file has no published checksum")?,
            unchecked => write!(f, "; {unchecked} files have no published checksum")?,
        }
        let free = self
            .free
            .map_or("unknown".to_owned(), |free| Bytes(free).to_string());
        writeln!(
            f,
            "\nfree disk space in {}: {free}",
            self.request().folder.display()
        )
    }
}

impl fmt::Display for Pulled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, file) in self.files.iter().filter(|(_, file)| file.stated.is_none()) {
            writeln!(f, "{name}: no published checksum; sha256 {}", file.sha256)?;
        }
        for remark in &self.remarks {
            writeln!(f, "{remark}")?;
        }
        if self.written_bytes != self.original_bytes {
            writeln!(
                f,
                "{} in {}; {} as published, {} saved",
                counted(self.recordings, "recording"),
                Bytes(self.written_bytes),
                Bytes(self.original_bytes),
                Bytes(self.original_bytes.saturating_sub(self.written_bytes)),
            )?;
        }
        for split in self
            .unavailable
            .iter()
            .filter(|split| split.gone + split.failed > 0)
        {
            writeln!(
                f,
                "{}: of {}, {} no longer on YouTube, {} failed (see {})",
                split.split,
                counted(split.clips, "clip"),
                split.gone,
                split.failed,
                split.list.display()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RecordedFile, Unavailable};

    #[test]
    fn what_was_done_is_told_in_lines() {
        let file = |stated: Option<&str>| RecordedFile {
            url: String::new(),
            bytes: 7,
            sha256: "abc".to_owned(),
            stated: stated.map(str::to_owned),
        };
        let pulled = Pulled {
            files: vec![
                ("a.zip".to_owned(), file(None)),
                ("b.7z".to_owned(), file(Some("md5 x"))),
            ],
            recordings: 2,
            original_bytes: 3_000_000,
            written_bytes: 1_000_000,
            unavailable: vec![Unavailable {
                split: "train".to_owned(),
                clips: 9,
                gone: 1,
                failed: 0,
                list: "unavailable_train.csv".into(),
            }],
            remarks: Vec::new(),
        };
        assert_eq!(
            pulled.to_string(),
            "a.zip: no published checksum; sha256 abc\n\
             2 recordings in 1.0 MB; 3.0 MB as published, 2.0 MB saved\n\
             train: of 9 clips, 1 no longer on YouTube, 0 failed (see unavailable_train.csv)\n"
        );
    }
}
