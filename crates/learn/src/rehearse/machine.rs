//! What the machine has left: memory and disk, and the most memory that a piece of work took.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often the memory of the process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where free memory and disk are asked for. Nothing where the system does not tell.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// Bytes of memory that this process can still take.
    pub free_memory: &'a (dyn Fn() -> Option<u64> + Sync),
    /// Bytes of memory that this process has.
    pub used_memory: &'a (dyn Fn() -> Option<u64> + Sync),
    /// Bytes that can still be written below a folder, which need not exist yet.
    pub free_disk: &'a (dyn Fn(&Path) -> Option<u64> + Sync),
}

impl Machine<'static> {
    /// This machine. Memory is known on Linux, disks on Unix.
    pub fn here() -> Self {
        Self {
            free_memory: &free_memory,
            used_memory: &used_memory,
            free_disk: &free_disk,
        }
    }
}

/// What the kernel calls available, or what a control group leaves if that is less: a job of a cluster has its own bound.
fn free_memory() -> Option<u64> {
    let available = kilobytes("/proc/meminfo", "MemAvailable:")?;
    Some(of_control_group().map_or(available, |left| left.min(available)))
}

fn used_memory() -> Option<u64> {
    kilobytes("/proc/self/status", "VmRSS:")
}

/// The number of kilobytes behind a name in a file of the kernel, in bytes.
fn kilobytes(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024)
}

/// What the tightest control group (version 2) above this process leaves it.
fn of_control_group() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let number = |folder: &Path, name: &str| -> Option<u64> {
        std::fs::read_to_string(folder.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let left = |folder: &Path| {
        let most = number(folder, "memory.max")?;
        Some(most.saturating_sub(number(folder, "memory.current")?))
    };
    let root = Path::new("/sys/fs/cgroup");
    let folder = root.join(own);
    folder
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
        .filter_map(left)
        .min()
}

#[cfg(unix)]
fn free_disk(folder: &Path) -> Option<u64> {
    let folder = std::path::absolute(folder).ok()?;
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let disk = rustix::fs::statvfs(there).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn free_disk(_: &Path) -> Option<u64> {
    None
}

/// The most memory that the process had: at all, and since a part of the work began.
pub(super) struct Peak<'a> {
    machine: Machine<'a>,
    all: AtomicU64,
    part: AtomicU64,
}

impl Peak<'_> {
    fn look(&self) {
        if let Some(bytes) = (self.machine.used_memory)() {
            self.all.fetch_max(bytes, Ordering::Relaxed);
            self.part.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// A part of the work begins.
    pub(super) fn begin(&self) {
        self.part.store(0, Ordering::Relaxed);
        self.look();
    }

    /// The most since then.
    pub(super) fn of_part(&self) -> Option<u64> {
        self.look();
        Some(self.part.load(Ordering::Relaxed)).filter(|&bytes| bytes > 0)
    }
}

/// Does work, and says the most memory that the process had meanwhile.
pub(super) fn watched<T>(machine: Machine<'_>, work: impl FnOnce(&Peak<'_>) -> T) -> (T, Option<u64>) {
    let done = AtomicBool::new(false);
    let peak = Peak {
        machine,
        all: AtomicU64::new(0),
        part: AtomicU64::new(0),
    };
    let result = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                peak.look();
                std::thread::park_timeout(LOOK_EVERY);
            }
        });
        let end = End(&done, watcher.thread());
        let result = work(&peak);
        drop(end);
        result
    });
    peak.look();
    (result, Some(peak.all.into_inner()).filter(|&bytes| bytes > 0))
}

/// Ends the watcher, also where the work panics: a scope waits for its threads.
struct End<'a>(&'a AtomicBool, &'a std::thread::Thread);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_memory_and_disk() {
        let machine = Machine::here();
        assert!((machine.free_memory)().unwrap() > 1 << 20);
        assert!((machine.used_memory)().unwrap() > 1 << 16);
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("not/there/yet");
        assert_eq!((machine.free_disk)(&below).is_some(), cfg!(unix));
    }

    #[test]
    fn the_most_memory_of_some_work_is_seen() {
        let used = AtomicU64::new(5);
        let machine = Machine {
            used_memory: &|| Some(used.load(Ordering::Relaxed)),
            ..Machine::here()
        };
        let (of_part, most) = watched(machine, |peak| {
            used.store(9, Ordering::Relaxed);
            peak.look();
            used.store(6, Ordering::Relaxed);
            peak.begin();
            used.store(7, Ordering::Relaxed);
            peak.of_part()
        });
        assert_eq!((of_part, most), (Some(7), Some(9)));
        let unknown = Machine {
            used_memory: &|| None,
            ..machine
        };
        let seen = watched(unknown, |peak| {
            peak.begin();
            peak.of_part()
        });
        assert_eq!(seen, (None, None));
    }
}
