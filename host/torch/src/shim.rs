//! Safe functions over `cpp/shim.cpp`: what tch does not bind.

use std::ffi::{CStr, c_char, c_double, c_void};
use std::marker::PhantomData;
use std::ptr;

use tch::Tensor;

use crate::error::{Error, Result};

unsafe extern "C" {
    fn accredit_free_message(message: *mut c_char);
    fn accredit_set_gradient(parameter: *mut c_void, gradient: *mut c_void) -> *mut c_char;
    fn accredit_fused_adamw(
        weights: *mut c_void,
        gradient: *mut c_void,
        first_moment: *mut c_void,
        second_moment: *mut c_void,
        step: c_double,
        lr: c_double,
        beta1: c_double,
        beta2: c_double,
        weight_decay: c_double,
        eps: c_double,
    ) -> *mut c_char;
    fn accredit_inference_mode_enter(guard: *mut *mut c_void) -> *mut c_char;
    fn accredit_inference_mode_leave(guard: *mut c_void);
}

/// Turns a message of the shim into a result.
fn check(message: *mut c_char) -> Result<()> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: a message that is not null is a C string that the shim allocated and handed over.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: allocated by the shim, and not used after this.
    unsafe { accredit_free_message(message) };
    Err(Error::torch(&text))
}

fn pointer(tensor: &Tensor) -> *mut c_void {
    tensor.as_ptr().cast_mut().cast()
}

/// Makes `gradient` the tensor in which backward passes add up the gradient of `parameter` (same shape).
pub(crate) fn set_gradient(parameter: &Tensor, gradient: &Tensor) -> Result<()> {
    // SAFETY: both are live `at::Tensor`; the shim copies the handle of the second into the first.
    check(unsafe { accredit_set_gradient(pointer(parameter), pointer(gradient)) })
}

/// The constants of one AdamW step.
pub(crate) struct AdamWStep {
    /// Number of this step, the first being 1.
    pub step: u64,
    pub lr: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub weight_decay: f64,
    pub eps: f64,
}

/// One AdamW step, in place, on flat tensors of equal length.
pub(crate) fn fused_adamw(
    weights: &Tensor,
    gradient: &Tensor,
    first_moment: &Tensor,
    second_moment: &Tensor,
    constants: &AdamWStep,
) -> Result<()> {
    // SAFETY: all four are live `at::Tensor`; libtorch checks their shapes and types itself.
    check(unsafe {
        accredit_fused_adamw(
            pointer(weights),
            pointer(gradient),
            pointer(first_moment),
            pointer(second_moment),
            constants.step as f64,
            constants.lr,
            constants.beta1,
            constants.beta2,
            constants.weight_decay,
            constants.eps,
        )
    })
}

/// While it lives, tensors made on this thread carry no autograd bookkeeping, which makes small operations cheaper.
/// They must not be used in a computation that records gradients.
pub(crate) struct InferenceMode {
    guard: *mut c_void,
    /// The mode is a property of the thread that entered it.
    _not_send: PhantomData<*mut ()>,
}

impl InferenceMode {
    pub(crate) fn enter() -> Result<Self> {
        let mut guard = ptr::null_mut();
        // SAFETY: `guard` is a valid place for one pointer.
        check(unsafe { accredit_inference_mode_enter(&raw mut guard) })?;
        Ok(Self { guard, _not_send: PhantomData })
    }
}

impl Drop for InferenceMode {
    fn drop(&mut self) {
        // SAFETY: made by `enter` on this very thread, and left once.
        unsafe { accredit_inference_mode_leave(self.guard) };
    }
}
