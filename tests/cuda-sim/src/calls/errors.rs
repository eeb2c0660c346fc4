//! Names and texts of errors.

use std::ffi::{CStr, c_char};

use crate::code;
use crate::state::Code;

fn texts(code: Code) -> Option<(&'static CStr, &'static CStr)> {
    Some(match code {
        0 => (c"CUDA_SUCCESS", c"no error"),
        1 => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        2 => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        100 => (
            c"CUDA_ERROR_NO_DEVICE",
            c"no CUDA-capable device is detected",
        ),
        101 => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
        201 => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
        218 => (c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
        400 => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
        401 => (
            c"CUDA_ERROR_ILLEGAL_STATE",
            c"the operation cannot be performed in the present state",
        ),
        500 => (c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
        600 => (c"CUDA_ERROR_NOT_READY", c"device not ready"),
        700 => (
            c"CUDA_ERROR_ILLEGAL_ADDRESS",
            c"an illegal memory access was encountered",
        ),
        719 => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
        801 => (c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
        900 => (
            c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            c"operation not permitted when stream is capturing",
        ),
        901 => (
            c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
            c"operation failed due to a previous error during capture",
        ),
        902 => (
            c"CUDA_ERROR_STREAM_CAPTURE_MERGE",
            c"operation would result in a merge of separate capture sequences",
        ),
        903 => (
            c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
            c"capture was not ended in the same stream as it began",
        ),
        904 => (
            c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
            c"capturing stream has unjoined work",
        ),
        905 => (
            c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
            c"dependency created on uncaptured work in another stream",
        ),
        906 => (
            c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
            c"operation would make the legacy stream depend on a capturing blocking stream",
        ),
        907 => (
            c"CUDA_ERROR_CAPTURED_EVENT",
            c"operation not permitted on an event last recorded in a capturing stream",
        ),
        908 => (
            c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
            c"attempt to terminate a thread-local capture sequence from another thread",
        ),
        _ => return None,
    })
}

fn text(
    code: Code,
    into: *mut *const c_char,
    of: fn((&'static CStr, &'static CStr)) -> &'static CStr,
) -> Code {
    let Some(texts) = texts(code) else {
        return code::INVALID_VALUE;
    };
    // SAFETY: as the callers promise.
    match unsafe { super::put(into, of(texts).as_ptr()) } {
        Ok(()) => code::SUCCESS,
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: Code, into: *mut *const c_char) -> Code {
    text(error, into, |(name, _)| name)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: Code, into: *mut *const c_char) -> Code {
    text(error, into, |(_, text)| text)
}
