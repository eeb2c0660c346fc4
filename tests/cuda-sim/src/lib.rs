//! A simulated CUDA driver: a `libcuda` of our own, for tests where there is no GPU.
//!
//! It says what it is when it is loaded. What passes on it is evidence for the order of calls and
//! for paths of errors, and none for CUDA.
//!
//! * **Lazy.** Each stream has a queue, and work runs only when somebody waits for it, or asks often
//!   enough. What nobody put in order comes out of order.
//! * **Strict.** Device memory is the host's heap: an address sanitizer sees who uses it too late, and
//!   without one most of it is answered by `CUDA_ERROR_ILLEGAL_ADDRESS`. Memory is freed at once,
//!   where a real driver may wait for the work that uses it.
//! * **Fussy about captures.** The rules are in `capture.rs`, each with its source: *D* is the comment
//!   of that function in `cuda.h` 12.9, *G* a public report of a real driver, *?* a guess, always on
//!   the strict side, so that nothing passes because of one.
//! * **Kernels by name.** The PTX of a module is read for the names and parameters of its entries;
//!   what they do is in `kernels.rs`.
//! * **Faults on demand, a log of the calls, counts of live objects**: `control.rs`.
//!
//! One lock spans every call, so work runs on the thread that waits for it, one piece at a time.
#![allow(non_snake_case, clippy::missing_safety_doc)]

mod calls;
mod capture;
mod control;
mod kernels;
mod ptx;
mod run;
mod state;

/// Codes of `CUresult`.
mod code {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const INVALID_VALUE: u32 = 1;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    pub(crate) const NO_DEVICE: u32 = 100;
    pub(crate) const INVALID_DEVICE: u32 = 101;
    pub(crate) const INVALID_CONTEXT: u32 = 201;
    pub(crate) const INVALID_PTX: u32 = 218;
    pub(crate) const INVALID_HANDLE: u32 = 400;
    pub(crate) const ILLEGAL_STATE: u32 = 401;
    pub(crate) const NOT_FOUND: u32 = 500;
    pub(crate) const NOT_READY: u32 = 600;
    pub(crate) const ILLEGAL_ADDRESS: u32 = 700;
    pub(crate) const LAUNCH_FAILED: u32 = 719;
    pub(crate) const NOT_SUPPORTED: u32 = 801;
    pub(crate) const CAPTURE_UNSUPPORTED: u32 = 900;
    pub(crate) const CAPTURE_INVALIDATED: u32 = 901;
    pub(crate) const CAPTURE_MERGE: u32 = 902;
    pub(crate) const CAPTURE_UNMATCHED: u32 = 903;
    pub(crate) const CAPTURE_UNJOINED: u32 = 904;
    pub(crate) const CAPTURE_ISOLATION: u32 = 905;
    pub(crate) const CAPTURE_IMPLICIT: u32 = 906;
    pub(crate) const CAPTURED_EVENT: u32 = 907;
    pub(crate) const CAPTURE_WRONG_THREAD: u32 = 908;
}

extern "C" fn announce() {
    eprintln!(
        "cuda-sim: this is a SIMULATED CUDA driver: evidence for order and error paths, none for CUDA"
    );
}

/// Run by the loader.
#[used]
#[unsafe(link_section = ".init_array")]
static ANNOUNCE: extern "C" fn() = announce;
