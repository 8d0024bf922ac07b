//! How devices break down, by what their libraries say, and what to do then.

use std::fmt;

use hark_encode::DeviceName;

/// How a device broke down, as far as its library's message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakdown {
    /// It has no memory left.
    Memory,
    /// It is gone: unplugged, reset, or its driver has failed.
    Lost,
    /// Anything else.
    Other,
}

impl Breakdown {
    /// By what libraries of devices say.
    pub(crate) fn of(message: &str) -> Self {
        let message = message.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if says(&[
            "out of memory",
            "out_of_memory",
            "outofmemory",
            "not enough memory",
            "buffertoobig",
        ]) {
            Self::Memory
        } else if says(&[
            "is lost",
            "device lost",
            "devicelost",
            "device_lost",
            "lost device",
            "launch_failed",
            "no longer available",
        ]) {
            Self::Lost
        } else {
            Self::Other
        }
    }
}

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "ran out of memory",
            Self::Lost => "was lost",
            Self::Other => "failed",
        })
    }
}

/// What to do after a breakdown; `saved` are the batches of the last checkpoint of a training.
pub(crate) fn advice(device: DeviceName, breakdown: Breakdown, saved: Option<u64>) -> String {
    let saved = match saved {
        None => return String::new(),
        Some(0) => "No checkpoint was saved yet, so --resume starts from the beginning".to_owned(),
        Some(batches) => {
            format!("The checkpoint after batch {batches} is intact; continue from there with --resume")
        }
    };
    match breakdown {
        Breakdown::Memory => {
            format!(". {saved}. Set a smaller training.chunk, or training.gradient-checkpointing=true")
        }
        Breakdown::Lost => {
            format!(". {saved}, here when hark devices lists {device} again, or with another --device")
        }
        Breakdown::Other => format!(". {saved}, here or with another --device"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakdowns_are_known_by_what_libraries_say() {
        for (message, breakdown) in [
            (
                "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")",
                Breakdown::Memory,
            ),
            (
                "CUDA out of memory. Tried to allocate 2.00 GiB",
                Breakdown::Memory,
            ),
            ("wgpu error: Out of Memory", Breakdown::Memory),
            ("BufferTooBig(8589934592)", Breakdown::Memory),
            ("Parent device is lost", Breakdown::Lost),
            ("hipErrorLaunchFailure: VK_ERROR_DEVICE_LOST", Breakdown::Lost),
            ("index out of bounds: the len is 3", Breakdown::Other),
        ] {
            assert_eq!(Breakdown::of(message), breakdown, "{message}");
        }
    }

    #[test]
    fn what_was_saved_is_told() {
        let saved = advice(DeviceName::Cuda(1), Breakdown::Lost, Some(12));
        assert!(
            saved.contains("after batch 12 is intact") && saved.contains("another --device"),
            "{saved}"
        );
        assert!(advice(DeviceName::Cuda(1), Breakdown::Memory, None).is_empty());
    }
}
