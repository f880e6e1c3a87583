//! What a device can do and holds: for those who check one.

use std::ffi::{CStr, c_int, c_void};
use std::fs;
use std::time::Instant;

use tch::Tensor;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// On the CPU the most that this process had at once; on a GPU what is taken now, by whatever program: libtorch keeps
    /// what it had once.
    pub taken: u64,
    /// What there is.
    pub all: u64,
}

/// The memory of a device; none where the system does not say it.
pub fn memory(device: Device) -> Option<Memory> {
    match device.0 {
        tch::Device::Cuda(index) => cuda_memory(c_int::try_from(index).ok()?),
        _ => Some(Memory {
            taken: kibibytes("/proc/self/status", "VmHWM:")? * 1024,
            all: kibibytes("/proc/meminfo", "MemTotal:")? * 1024,
        }),
    }
}

fn kibibytes(file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let number = text.lines().find_map(|line| line.strip_prefix(key))?;
    number.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Asks CUDA's runtime, which is in the process once libtorch's CUDA library is.
fn cuda_memory(index: c_int) -> Option<Memory> {
    let set: unsafe extern "C" fn(c_int) -> c_int = {
        let address = symbol(c"cudaSetDevice")?;
        // SAFETY: CUDA declares `cudaError_t cudaSetDevice(int)`, and its errors are an enum of C.
        unsafe { std::mem::transmute(address) }
    };
    let get: unsafe extern "C" fn(*mut usize, *mut usize) -> c_int = {
        let address = symbol(c"cudaMemGetInfo")?;
        // SAFETY: CUDA declares `cudaError_t cudaMemGetInfo(size_t *, size_t *)`.
        unsafe { std::mem::transmute(address) }
    };
    let (mut free, mut all) = (0, 0);
    // SAFETY: both pointers are valid for one number each.
    let failed = unsafe { set(index) != 0 || get(&raw mut free, &raw mut all) != 0 };
    (!failed).then(|| Memory { taken: all.saturating_sub(free) as u64, all: all as u64 })
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a C string, looked up in what the process has loaded.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// The most additions and multiplications per second that a product of two square matrices reaches: what is possible at
/// best. `size` is the width of the matrices; the fastest of a few rounds counts.
pub fn matmul_rate(device: Device, dtype: DType, size: usize) -> Result<f64> {
    if size == 0 {
        return Err(Error::argument("size", "must be at least 1"));
    }
    let _no_grad = tch::no_grad_guard();
    let matrix = || Tensor::f_randn([size as i64; 2], (tch::Kind::Float, device.0))?.f_to_kind(dtype.kind());
    let (a, b) = (matrix()?, matrix()?);
    let mut best = 0.0_f64;
    for _ in 0..5 {
        synchronize(device);
        let start = Instant::now();
        let mut product = a.f_matmul(&b)?;
        for _ in 0..3 {
            product = a.f_matmul(&b)?;
        }
        synchronize(device);
        drop(product);
        best = best.max(4.0 * 2.0 * (size as f64).powi(3) / start.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Waits until the device has done what it was given.
fn synchronize(device: Device) {
    if let tch::Device::Cuda(index) = device.0 {
        tch::Cuda::synchronize(index as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_has_memory_and_multiplies() {
        crate::set_threads(1);
        let before = memory(Device::CPU).unwrap();
        assert!(before.taken > 1 << 20 && before.taken < before.all);
        let held = Tensor::ones([64 << 20], (tch::Kind::Float, tch::Device::Cpu));
        let after = memory(Device::CPU).unwrap();
        assert!(after.taken >= before.taken + (200 << 20) && after.all == before.all);
        drop(held);
        let rate = matmul_rate(Device::CPU, DType::F32, 128).unwrap();
        assert!(rate > 1e6 && rate < 1e14, "{rate}");
        assert!(matmul_rate(Device::CPU, DType::F32, 0).is_err());
    }
}
