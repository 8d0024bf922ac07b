//! What to do when a device breaks down during a training.

use hark_encode::{Breakdown, DeviceName};

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
            format!(". {saved} once hark devices lists {device} again, or choose another --device")
        }
        Breakdown::Other => format!(". {saved}, or choose another --device"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
