//! Where the model computes: the CPU, or a GPU that is found when the program runs.
//!
//! The program links libtorch's CPU library only and opens the CUDA library itself, so one binary serves both kinds of
//! machine.

use std::fmt;
use std::path::Path;

use crate::error::{Error, Result};

/// A device that tensors live on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device(pub(crate) tch::Device);

impl Device {
    /// The CPU.
    pub const CPU: Self = Self(tch::Device::Cpu);

    pub(crate) fn is_cpu(self) -> bool {
        self.0 == tch::Device::Cpu
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            tch::Device::Cuda(index) => write!(f, "cuda:{index}"),
            _ => f.write_str("cpu"),
        }
    }
}

/// A chosen device, and what the user should hear about the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The device.
    pub device: Device,
    /// Why a GPU that this machine seems to have is not used, and what to do about it.
    pub notice: Option<String>,
}

/// Chooses a device: `cpu`, `cuda` (the first GPU), `cuda:N`, or `auto` (a GPU if there is one, else the CPU).
///
/// Must be called before anything else of libtorch runs, since libtorch looks for its CUDA library once. Opening that
/// library takes about a second, so `cpu` does not. Errors: a GPU that was named and cannot be used, or another word.
pub fn select(request: &str) -> Result<Selection> {
    let fail = |message: String| Error::Device { request: request.to_owned(), message };
    if request == "cpu" {
        return Ok(Selection { device: Device::CPU, notice: None });
    }
    if request == "auto" {
        let library = open_cuda_library();
        if library.is_ok() && tch::Cuda::is_available() {
            return Ok(Selection { device: Device(tch::Device::Cuda(0)), notice: None });
        }
        let notice = has_nvidia_device().then(|| fallback_notice(library.err().as_deref()));
        return Ok(Selection { device: Device::CPU, notice });
    }
    let index = parse_cuda(request).ok_or_else(|| fail("expected auto, cpu, cuda or cuda:N".to_owned()))?;
    open_cuda_library().map_err(|reason| {
        fail(format!("libtorch's CUDA library cannot be opened ({reason}); `cargo xtask quickstart --cuda` installs it"))
    })?;
    if !tch::Cuda::is_available() {
        return Err(fail("libtorch finds no usable NVIDIA driver or GPU on this machine".to_owned()));
    }
    let count = tch::Cuda::device_count();
    if i64::try_from(index).is_ok_and(|index| index < count) {
        return Ok(Selection { device: Device(tch::Device::Cuda(index)), notice: None });
    }
    Err(fail(format!("this machine has {count} GPU(s), counted from cuda:0")))
}

/// Sets how many threads an operation of libtorch may use when it is called from the current thread.
///
/// Results depend on it in their last bits, so a run fixes and records it.
pub fn set_threads(threads: usize) {
    tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(i32::MAX));
}

/// The index in `cuda` or `cuda:N`.
fn parse_cuda(request: &str) -> Option<usize> {
    match request.strip_prefix("cuda")? {
        "" => Some(0),
        rest => rest.strip_prefix(':')?.parse().ok(),
    }
}

fn has_nvidia_device() -> bool {
    ["/dev/nvidia0", "/proc/driver/nvidia"].iter().any(|path| Path::new(path).exists())
}

fn fallback_notice(library_error: Option<&str>) -> String {
    match library_error {
        Some(reason) => format!(
            "this machine has an NVIDIA device, but the model runs on the CPU: libtorch's CUDA library cannot be opened \
             ({reason}). `cargo xtask quickstart --cuda` installs it; `device = \"cpu\"` silences this."
        ),
        None => "this machine has an NVIDIA device, but the model runs on the CPU: libtorch's CUDA library was opened and \
                 finds no usable driver. Check `nvidia-smi`; torch 2.11.0 needs a driver for CUDA 13. \
                 `device = \"cpu\"` silences this."
            .to_owned(),
    }
}

/// Opens libtorch's CUDA library for the whole process, which registers its kernels. The error is the linker's.
fn open_cuda_library() -> std::result::Result<(), String> {
    // SAFETY: the name is a C string; the library's initialisers are libtorch's own, made to run at load.
    let handle = unsafe { libc::dlopen(c"libtorch_cuda.so".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !handle.is_null() {
        return Ok(());
    }
    // SAFETY: right after a failed dlopen on this thread dlerror gives a C string or null.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return Err("unknown reason".to_owned());
    }
    // SAFETY: not null, so a C string that lives until the next call of the dl family on this thread.
    Err(unsafe { std::ffi::CStr::from_ptr(message) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_always_there() {
        let chosen = select("cpu").unwrap();
        assert_eq!((chosen.device.to_string().as_str(), chosen.notice), ("cpu", None));
    }

    #[test]
    fn auto_always_finds_a_device_and_cuda_only_where_there_is_one() {
        let auto = select("auto").unwrap();
        match select("cuda") {
            Ok(cuda) => assert_eq!(auto.device, cuda.device),
            Err(error) => {
                assert_eq!(auto.device, Device::CPU);
                assert_eq!(auto.notice.is_some(), has_nvidia_device());
                assert!(error.to_string().starts_with("device `cuda`: libtorch"), "{error}");
            }
        }
    }

    #[test]
    fn other_words_are_refused() {
        for request in ["", "gpu", "cuda:", "cuda:x", "cuda1", "CPU"] {
            let error = select(request).unwrap_err().to_string();
            assert_eq!(error, format!("device `{request}`: expected auto, cpu, cuda or cuda:N"));
        }
    }

    #[test]
    fn the_notice_says_what_to_install() {
        assert!(fallback_notice(Some("no such file")).contains("cargo xtask quickstart --cuda"));
        assert!(fallback_notice(None).contains("nvidia-smi"));
    }
}
