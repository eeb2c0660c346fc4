//! Looks for the driver before `cudarc` does, which panics where there is none, or where it lacks a
//! function.
#![allow(unsafe_code)] // Opening a library.

use std::sync::OnceLock;

use libloading::Library;

use crate::error::Error;

/// Where `cudarc` finds it as well.
#[cfg(not(windows))]
const NAMES: &[&str] = &["libcuda.so", "libcuda.so.1"];
#[cfg(windows)]
const NAMES: &[&str] = &["nvcuda.dll"];

/// All that is called here, and by `cudarc` for what is used of it.
const FUNCTIONS: &[&str] = &[
    "cuInit",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuThreadExchangeStreamCaptureMode",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamIsCapturing",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuStreamGetCaptureInfo_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuMemsetD16Async",
    "cuMemsetD32Async",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuLaunchKernel",
    "cuGraphGetNodes",
    "cuGraphNodeGetType",
    "cuGraphInstantiateWithParams",
    "cuGraphUpload",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
];

/// Finds a driver that has all that is called.
///
/// # Errors
/// [`Error::Unavailable`].
pub(super) fn find() -> Result<(), Error> {
    // Never closed: `cudarc` keeps what it has found of it.
    static FOUND: OnceLock<Library> = OnceLock::new();
    if FOUND.get().is_some() {
        return Ok(());
    }
    // SAFETY: whoever puts a library there by the driver's name has it run in every program that
    // looks for a GPU; `cudarc` opens the same.
    let open = |name: &&str| unsafe { Library::new(*name) }.ok();
    let Some(library) = NAMES.iter().find_map(open) else {
        return Err(unavailable(format!(
            "no CUDA driver was found, looking for {}; install the driver of the GPU, or use another backend",
            NAMES.join(", ")
        )));
    };
    if let Some(lacks) = first_missing(&library, FUNCTIONS) {
        return Err(unavailable(format!(
            "the CUDA driver lacks `{lacks}`; it must be of CUDA 12.0 or later"
        )));
    }
    // Where two threads looked at once, both found the same.
    let _ = FOUND.set(library);
    Ok(())
}

fn first_missing<'n>(library: &Library, names: &[&'n str]) -> Option<&'n str> {
    let lacks = |name: &&&str| {
        // SAFETY: it is only looked up, as a function, and not called.
        let found = unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) };
        found.is_err()
    };
    names.iter().find(lacks).copied()
}

pub(super) fn unavailable(what: String) -> Error {
    Error::Unavailable { what: what.into() }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_lacks_a_function_is_told_by_its_name() {
        // SAFETY: this program has it open.
        let library = unsafe { Library::new("libc.so.6") }.unwrap();
        let missing = |names| first_missing(&library, names);
        assert_eq!(
            missing(&["malloc", "cuInit", "cuDeviceGet"]),
            Some("cuInit")
        );
        assert_eq!(missing(&["malloc", "free"]), None);
    }
}
