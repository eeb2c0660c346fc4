//! Modules, functions and launches.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::sync::Arc;

use super::put;
use crate::capture::node;
use crate::code;
use crate::control::{Kind, call};
use crate::kernels::{self, Launch};
use crate::ptx;
use crate::run::Op;
use crate::state::{Code, Done, Function, Module, Sim};

fn load(sim: &mut Sim, into: *mut usize, image: *const c_void) -> Done {
    let context = sim.current()?;
    sim.potentially_unsafe()?;
    // SAFETY: the caller gives PTX, which ends with a 0.
    let text = unsafe { CStr::from_ptr(image.cast()) };
    let text = text.to_str().map_err(|_| code::INVALID_PTX)?;
    let entries = ptx::entries(text).ok_or(code::INVALID_PTX)?;
    let id = sim.id();
    sim.modules.insert(id, Module { context, entries });
    sim.count(context, Kind::Module, true);
    // SAFETY: as the callers promise; so below.
    unsafe { put(into, id) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(into: *mut usize, image: *const c_void) -> Code {
    call("cuModuleLoadData", |sim| load(sim, into, image))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    into: *mut usize,
    image: *const c_void,
    _: c_uint,
    _: *mut c_void,
    _: *mut c_void,
) -> Code {
    call("cuModuleLoadDataEx", |sim| load(sim, into, image))
}

/// The functions of a module go with it, also where a graph still launches them.
#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: usize) -> Code {
    call("cuModuleUnload", |sim| {
        sim.potentially_unsafe()?;
        let context = sim
            .modules
            .remove(&module)
            .ok_or(code::INVALID_HANDLE)?
            .context;
        sim.functions
            .retain(|_, function| function.module != module);
        sim.count(context, Kind::Module, false);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    into: *mut usize,
    module: usize,
    name: *const c_char,
) -> Code {
    call("cuModuleGetFunction", |sim| {
        sim.current()?;
        // SAFETY: the caller gives a name, which ends with a 0.
        let name = unsafe { CStr::from_ptr(name) };
        let name = name.to_str().map_err(|_| code::NOT_FOUND)?.to_owned();
        let entries = &sim
            .modules
            .get(&module)
            .ok_or(code::INVALID_HANDLE)?
            .entries;
        let parameters = entries.get(&name).ok_or(code::NOT_FOUND)?.clone();
        if !kernels::is_known(&name) {
            eprintln!("cuda-sim: what `{name}` does is not simulated");
            return Err(code::NOT_SUPPORTED);
        }
        let id = sim.id();
        let function = Function {
            module,
            name,
            parameters,
        };
        sim.functions.insert(id, function);
        // SAFETY: as above.
        unsafe { put(into, id) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    _: c_uint,
    stream: usize,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Code {
    call("cuLaunchKernel", |sim| {
        let stream = sim.stream(stream)?;
        let threads = [block_x, block_y, block_z]
            .into_iter()
            .try_fold(1u32, |product, size| product.checked_mul(size));
        let blocks = [grid_x, grid_y, grid_z];
        if blocks.contains(&0) || !threads.is_some_and(|n| (1..=1024).contains(&n)) {
            return Err(code::INVALID_VALUE);
        }
        if !extra.is_null() {
            return Err(code::NOT_SUPPORTED);
        }
        let id = function;
        let function = sim.functions.get(&id).ok_or(code::INVALID_HANDLE)?;
        let values = function
            .parameters
            .iter()
            .enumerate()
            .map(|(place, &size)| {
                // SAFETY: the caller gives as many parameters as the entry has, each of its size.
                unsafe {
                    let value = *parameters.add(place);
                    std::slice::from_raw_parts(value.cast::<u8>(), size).to_vec()
                }
            });
        let launch = Launch {
            function: id,
            name: function.name.clone(),
            parameters: values.collect(),
        };
        sim.submit(stream, Op::Launch(Arc::new(launch)), node::KERNEL)
    })
}
