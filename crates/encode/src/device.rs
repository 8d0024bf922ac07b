//! Devices by name: `cpu`, `cuda:0`, `torch`, what this program was built with, and what the machine has.
//!
//! In: a name. Out: the tensor library's device, or an error that names the cargo feature that is missing and the devices that
//! are there. Only the CPU is part of every build; each other kind is a cargo feature.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::breakdown::search;
use crate::fault::Fault;

/// A device by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceName {
    /// `cpu`: this processor, by hark's own kernels.
    #[default]
    Cpu,
    /// `cuda:N`: an NVIDIA GPU.
    Cuda(usize),
    /// `rocm:N`: an AMD GPU.
    Rocm(usize),
    /// `vulkan:N`: a GPU through Vulkan; without a number the best one.
    Vulkan(Option<usize>),
    /// `metal:N`: a GPU through Metal; without a number the best one.
    Metal(Option<usize>),
    /// `webgpu:N`: a GPU through WebGPU's shading language; without a number the best one.
    WebGpu(Option<usize>),
    /// `torch`: this processor, by libtorch.
    Torch,
    /// `torch:cuda:N`: an NVIDIA GPU, by libtorch.
    TorchCuda(usize),
    /// `ndarray`: this processor, by Burn's operations alone. For tests of what other devices compute.
    NdArray {
        /// What is wrong with it, for tests of what is done then.
        fault: Fault,
    },
}

/// A kind of devices: its name, and the cargo feature that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceKind {
    /// How names of its devices begin.
    pub name: &'static str,
    /// The cargo feature; none for the CPU.
    pub feature: Option<&'static str>,
    /// What it is.
    pub what: &'static str,
    /// Whether this program was built with it.
    pub built: bool,
}

/// All kinds, but the one for tests where it is not built.
pub fn kinds() -> Vec<DeviceKind> {
    let kind = |name, feature, what, built| DeviceKind {
        name,
        feature,
        what,
        built,
    };
    let mut kinds = vec![
        kind("cpu", None, "this processor, by hark's kernels", true),
        kind("cuda", Some("cuda"), "NVIDIA GPUs", cfg!(feature = "cuda")),
        kind("rocm", Some("rocm"), "AMD GPUs", cfg!(feature = "rocm")),
        kind(
            "vulkan",
            Some("vulkan"),
            "GPUs through Vulkan",
            cfg!(feature = "vulkan"),
        ),
        kind(
            "metal",
            Some("metal"),
            "GPUs through Metal",
            cfg!(feature = "metal"),
        ),
        kind(
            "webgpu",
            Some("webgpu"),
            "GPUs through WebGPU",
            cfg!(feature = "webgpu"),
        ),
        kind(
            "torch",
            Some("torch"),
            "this processor, by libtorch",
            cfg!(feature = "torch"),
        ),
        kind(
            "torch:cuda",
            Some("torch"),
            "NVIDIA GPUs, by libtorch",
            cfg!(feature = "torch"),
        ),
    ];
    if cfg!(feature = "ndarray") {
        kinds.push(kind(
            "ndarray",
            Some("ndarray"),
            "this processor, for tests",
            true,
        ));
    }
    kinds
}

/// The devices that this program was built for and that are there.
pub fn available() -> Vec<DeviceName> {
    let counted =
        |kind: &str, device: fn(usize) -> DeviceName| (0..count(kind)).map(device).collect::<Vec<_>>();
    let mut devices = vec![DeviceName::Cpu];
    devices.extend(counted("cuda", DeviceName::Cuda));
    devices.extend(counted("rocm", DeviceName::Rocm));
    devices.extend(counted("vulkan", |nth| DeviceName::Vulkan(Some(nth))));
    devices.extend(counted("metal", |nth| DeviceName::Metal(Some(nth))));
    devices.extend(counted("webgpu", |nth| DeviceName::WebGpu(Some(nth))));
    if cfg!(feature = "torch") {
        devices.push(DeviceName::Torch);
    }
    devices.extend(counted("torch:cuda", DeviceName::TorchCuda));
    if cfg!(feature = "ndarray") {
        devices.push(DeviceName::NdArray { fault: Fault::None });
    }
    devices
}

/// What is here and what is not part of this build, as text.
pub fn listing() -> String {
    let mut text = String::from("devices here:\n");
    for device in available() {
        text.push_str(&format!("  {device}\n"));
    }
    let absent: Vec<DeviceKind> = kinds().into_iter().filter(|kind| !kind.built).collect();
    if !absent.is_empty() {
        text.push_str("not part of this build:\n");
    }
    for DeviceKind {
        name, what, feature, ..
    } in absent
    {
        let feature = feature.unwrap_or_default();
        text.push_str(&format!("  {name:12} {what} (--features {feature})\n"));
    }
    text
}

/// How many devices of a kind there are; none where a driver is missing.
fn count(kind: &str) -> usize {
    search(|| devices_of(kind).len())
}

/// The devices that are there, for messages.
fn names() -> String {
    let names: Vec<String> = available().iter().map(ToString::to_string).collect();
    names.join(", ")
}

#[allow(unused_variables, reason = "without hardware features nothing is looked for")]
fn devices_of(kind: &str) -> Vec<Device> {
    #[allow(unused_imports)]
    use burn::tensor::DeviceType;
    match kind {
        #[cfg(feature = "cuda")]
        "cuda" => Device::enumerate(DeviceType::Cuda).into_iter().collect(),
        #[cfg(feature = "rocm")]
        "rocm" => Device::enumerate(DeviceType::Rocm).into_iter().collect(),
        #[cfg(feature = "vulkan")]
        "vulkan" => Device::enumerate(DeviceType::Vulkan).into_iter().collect(),
        #[cfg(feature = "metal")]
        "metal" => Device::enumerate(DeviceType::Metal).into_iter().collect(),
        // `DeviceType::WebGpu` is a browser's. The shading language is WebGPU's unless the build has that of the driver, too.
        #[cfg(feature = "webgpu")]
        "webgpu" => Device::enumerate(DeviceType::Wgpu).into_iter().collect(),
        #[cfg(feature = "torch")]
        "torch:cuda" => Device::enumerate(DeviceType::LibTorch).into_iter().collect(),
        _ => Vec::new(),
    }
}

impl DeviceName {
    /// The device.
    ///
    /// # Errors
    /// [`Error::DeviceNotBuilt`] or [`Error::DeviceAbsent`], with the devices that are there.
    pub fn open(self) -> Result<Device, Error> {
        let kind = self.kind();
        if !kind.built {
            return Err(Error::DeviceNotBuilt {
                device: self.to_string(),
                feature: kind.feature.unwrap_or_default(),
                there: names(),
            });
        }
        let absent = || Error::DeviceAbsent {
            device: self.to_string(),
            there: names(),
        };
        match self {
            Self::Cpu => Ok(Device::flex()),
            #[cfg(feature = "torch")]
            #[allow(deprecated, reason = "the surest way to CUDA there is")]
            Self::Torch => Ok(Device::libtorch()),
            #[cfg(feature = "ndarray")]
            #[allow(deprecated, reason = "a second backend, for tests alone")]
            Self::NdArray { fault } => {
                crate::fault::set(fault);
                Ok(Device::ndarray())
            }
            // The list begins with any of them.
            #[cfg(feature = "webgpu")]
            Self::WebGpu(None) if count(kind.name) > 0 => {
                Ok(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice))
            }
            _ => {
                let nth = self.index().unwrap_or(0);
                let opened = search(|| devices_of(kind.name));
                opened.into_iter().nth(nth).ok_or_else(absent)
            }
        }
    }

    /// Its number among the devices of its kind.
    fn index(self) -> Option<usize> {
        match self {
            Self::Cuda(nth) | Self::Rocm(nth) | Self::TorchCuda(nth) => Some(nth),
            Self::Vulkan(nth) | Self::Metal(nth) | Self::WebGpu(nth) => nth,
            Self::Cpu | Self::Torch | Self::NdArray { .. } => None,
        }
    }

    /// The kind that it is of.
    fn kind(self) -> DeviceKind {
        let name = match self {
            Self::Cpu => "cpu",
            Self::Cuda(_) => "cuda",
            Self::Rocm(_) => "rocm",
            Self::Vulkan(_) => "vulkan",
            Self::Metal(_) => "metal",
            Self::WebGpu(_) => "webgpu",
            Self::Torch => "torch",
            Self::TorchCuda(_) => "torch:cuda",
            Self::NdArray { .. } => "ndarray",
        };
        let known = kinds().into_iter().find(|kind| kind.name == name);
        known.unwrap_or(DeviceKind {
            name,
            feature: Some(name),
            what: "",
            built: false,
        })
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name)?;
        match self {
            Self::NdArray { fault } => match fault {
                Fault::None => Ok(()),
                Fault::Gradient => f.write_str(":broken"),
                Fault::Memory { after } => write!(f, ":memory:{after}"),
                Fault::Lost { after } => write!(f, ":lost:{after}"),
            },
            _ => match self.index() {
                Some(nth) => write!(f, ":{nth}"),
                None => Ok(()),
            },
        }
    }
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "unknown device {text:?}; devices are cpu, cuda:N, rocm:N, vulkan[:N], metal[:N], webgpu[:N], torch and torch:cuda:N"
            )
        };
        let (kind, nth) = match text.rsplit_once(':') {
            Some((kind, nth)) if nth.bytes().all(|byte| byte.is_ascii_digit()) => {
                (kind, Some(nth.parse().map_err(|_| unknown())?))
            }
            _ => (text, None),
        };
        match (kind, nth) {
            ("cpu", None) => Ok(Self::Cpu),
            ("cuda", nth) => Ok(Self::Cuda(nth.unwrap_or(0))),
            ("rocm", nth) => Ok(Self::Rocm(nth.unwrap_or(0))),
            ("vulkan", nth) => Ok(Self::Vulkan(nth)),
            ("metal", nth) => Ok(Self::Metal(nth)),
            ("webgpu", nth) => Ok(Self::WebGpu(nth)),
            ("torch", None) => Ok(Self::Torch),
            ("torch:cuda", nth) => Ok(Self::TorchCuda(nth.unwrap_or(0))),
            (kind, nth) if cfg!(feature = "ndarray") => {
                let after = nth.map(|nth| nth as u64);
                let fault = match (kind, after) {
                    ("ndarray", None) => Fault::None,
                    ("ndarray:broken", None) => Fault::Gradient,
                    ("ndarray:memory", Some(after)) => Fault::Memory { after },
                    ("ndarray:lost", Some(after)) => Fault::Lost { after },
                    _ => return Err(unknown()),
                };
                Ok(Self::NdArray { fault })
            }
            _ => Err(unknown()),
        }
    }
}

impl TryFrom<String> for DeviceName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in [
            "cpu",
            "cuda:0",
            "cuda:3",
            "rocm:1",
            "vulkan",
            "vulkan:2",
            "metal",
            "metal:0",
            "webgpu",
            "torch",
            "torch:cuda:1",
        ] {
            assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse(), Ok(DeviceName::Cuda(0)));
        assert_eq!("torch:cuda".parse(), Ok(DeviceName::TorchCuda(0)));
        for name in [
            "",
            "gpu",
            "cpu:1",
            "cuda:",
            "cuda:x",
            "torch:1",
            "cuda:99999999999999999999999",
            "CUDA:0",
        ] {
            let error = name.parse::<DeviceName>().unwrap_err();
            assert!(error.contains("torch:cuda:N"), "{error}");
        }
    }

    #[test]
    fn a_device_that_was_not_built_names_its_feature_and_what_is_there() {
        for kind in kinds().into_iter().filter(|kind| !kind.built) {
            let error = kind.name.parse::<DeviceName>().unwrap().open().unwrap_err();
            let error = error.to_string();
            let feature = format!("--features {}", kind.feature.unwrap());
            assert!(error.contains(&feature) && error.contains("cpu"), "{error}");
        }
    }

    #[test]
    fn the_cpu_is_always_there() {
        assert_eq!(available()[0], DeviceName::Cpu);
        assert_eq!(DeviceName::Cpu.open().unwrap(), Device::flex());
    }
}
