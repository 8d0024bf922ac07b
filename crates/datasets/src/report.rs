//! What a pull takes and what it did, in words.

use std::fmt;

use hark_work::progress::counted;

use crate::{Plan, Pulled};

/// A number of bytes: `7.6 GB`.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut amount = self.0 as f64;
        let mut units = ["bytes", "kB", "MB", "GB", "TB"].into_iter();
        let mut unit = units.next().unwrap_or_default();
        for next in units {
            if amount < 1000.0 {
                break;
            }
            (amount, unit) = (amount / 1000.0, next);
        }
        if unit == "bytes" {
            write!(f, "{amount} {unit}")
        } else {
            write!(f, "{amount:.1} {unit}")
        }
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
            write!(f, "; {} here already", self.done)?;
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
            unchecked => write!(f, "; no checksum is published of {}", counted(unchecked, "file"))?,
        }
        let free = self
            .free
            .map_or("unknown".to_owned(), |free| Bytes(free).to_string());
        writeln!(f, "\nfree disk: {free} in {}", self.request().folder.display())
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
                "{}: {} of {} gone, {} failed: {}",
                split.split,
                split.gone,
                counted(split.clips, "clip"),
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
    fn bytes_are_told_in_units() {
        let told = [0, 999, 1000, 7_600_000_000, 1_400_000_000_000_000].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(told, ["0 bytes", "999 bytes", "1.0 kB", "7.6 GB", "1400.0 TB"]);
    }

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
             train: 1 of 9 clips gone, 0 failed: unavailable_train.csv\n"
        );
    }
}
