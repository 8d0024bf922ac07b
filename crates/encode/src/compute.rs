//! Where networks run: a device, and how many threads feed it.
//!
//! It is an argument of everything that loads a network. Nothing in hark reads a global device.

use burn::tensor::Device;
use hark_kernels::Precision;

use crate::Error;
use crate::device::DeviceName;
use crate::guard::guarded;

/// A device and a number of threads.
///
/// ```
/// let compute = hark_encode::Compute::cpu(2);
/// assert_eq!(compute.threads(), 2);
/// ```
#[derive(Debug, Clone)]
pub struct Compute {
    name: DeviceName,
    device: Device,
    threads: usize,
    precision: Precision,
    weights_on_disk: bool,
}

impl Compute {
    /// The CPU. Batches are computed side by side on `threads` threads; 0 counts as 1.
    pub fn cpu(threads: usize) -> Self {
        Self::new(DeviceName::Cpu, Device::flex(), threads)
    }

    /// A device by its name.
    ///
    /// # Errors
    /// As [`DeviceName::open`].
    pub fn on(device: DeviceName, threads: usize) -> Result<Self, Error> {
        Ok(Self::new(device, device.open()?, threads))
    }

    /// `threads` is the number of batches that are prepared and computed at a time.
    fn new(name: DeviceName, device: Device, threads: usize) -> Self {
        Self {
            name,
            device,
            threads: threads.max(1),
            precision: Precision::F32,
            weights_on_disk: false,
        }
    }

    /// With weights of so many bits in what only embeds. Training and other devices do not heed it.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Bits of a weight.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// With most weights of text towers left in their file, to be read whenever a text is embedded. For a process that embeds one
    /// text or two: reading all weights into memory and bringing them into order takes longer than computing. The vectors are the
    /// same. Other devices, and other precisions than 32 bits, do not heed it.
    #[must_use]
    pub fn with_weights_on_disk(mut self) -> Self {
        self.weights_on_disk = true;
        self
    }

    /// Whether text towers leave their weights on disk.
    pub(crate) fn leaves_weights_on_disk(&self) -> bool {
        self.weights_on_disk && self.is_cpu() && self.precision == Precision::F32
    }

    /// The device that tensors are put on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether hark's own kernels compute.
    pub fn is_cpu(&self) -> bool {
        self.name == DeviceName::Cpu
    }

    /// Runs work on the device, see [`guarded`].
    pub(crate) fn guard<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        guarded(self.name, work)
    }

    /// At least 1.
    pub fn threads(&self) -> usize {
        self.threads
    }
}
