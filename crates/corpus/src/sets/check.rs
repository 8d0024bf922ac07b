//! Checks recordings on several threads, each as thoroughly as asked.
//!
//! In: paths. Out: for each, in order, nothing or what is wrong with it. A faulty recording does not affect the others.

use std::path::Path;

use serde::{Deserialize, Serialize};

use hark_work::progress::{Progress, report};
use hark_work::workers::map;

use crate::Error;

/// How thoroughly recordings are checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The file is there.
    #[default]
    Presence,
    /// It opens as audio and its first block decodes.
    Opens,
    /// It decodes to the end without a fault.
    Decodes,
}

/// What is wrong with each recording. `progress` is called on the calling thread.
pub(super) fn run(
    check: Check,
    paths: &[&Path],
    threads: usize,
    progress: Progress<'_>,
) -> Result<Vec<Option<String>>, Error> {
    if check == Check::Presence {
        // The folder listings have shown this already.
        report(progress, paths.len(), paths.len())?;
        return Ok(vec![None; paths.len()]);
    }
    Ok(map(paths, threads, progress, |path| fault_of(path, check))?)
}

fn fault_of(path: &Path, check: Check) -> Option<String> {
    let fault = |error: hark_audio::Error| Some(error.to_string());
    let mut decoder = match hark_audio::Decoder::open(path) {
        Ok(decoder) => decoder,
        Err(error) => return fault(error),
    };
    loop {
        match decoder.next_block() {
            Err(error) => return fault(error),
            Ok(Some(_)) if check == Check::Decodes => {}
            Ok(_) => break,
        }
    }
    match check {
        Check::Decodes => decoder.damage().map(ToString::to_string),
        Check::Presence | Check::Opens => None,
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    #[test]
    fn a_check_can_be_cancelled() {
        let paths = [Path::new("a"), Path::new("b")];
        let stopped = run(Check::Presence, &paths, 1, &|_, _| ControlFlow::Break(()));
        assert!(matches!(stopped, Err(Error::Cancelled)));
    }
}
