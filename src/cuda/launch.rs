//! Launches on CUDA: functions of the program's, over buffers and values.
#![allow(unsafe_code)] // Calls of the driver: a launch is what CUDA makes unsafe.

use std::ffi::c_void;
use std::panic::Location;
use std::sync::Arc;

use arrayvec::ArrayVec;
use bytemuck::Pod;
use cudarc::driver::sys::{self, CUdeviceptr};
use cudarc::driver::{CudaFunction, CudaSlice, DevicePtr as _, LaunchConfig};

use crate::access::{Read, ReadWrite, SealedAccess, Use, Write};
use crate::error::{At, Error};
use crate::trace::{Command, Name, NodeKind};

use super::context::set_apart;
use super::mode::Mode;
use super::stream::{Driver, RawStream};
use super::transitions::address;
use super::{Commands, Cuda};

/// The most bytes of parameters that CUDA passes to a kernel of any device.
const PARAMETERS: usize = 4096;

/// What tells a launch from another, besides its name and accesses: the function, the configuration, and
/// the values.
type Values = ArrayVec<u8, { PARAMETERS + 64 }>;

impl<M: Mode> Commands<M> {
    /// Launches `function`, or records the launch in a window.
    ///
    /// `arguments` are the kernel's parameters in their order: a tuple of up to twelve of
    /// [`read`](crate::read), [`write`](crate::write), [`read_write`](crate::read_write), each a pointer
    /// to the memory of its buffer, [`value`], a number or plain struct, and [`read_slice`], a pointer to
    /// a shared slice. The graph keeps the memory, and the function's module loaded. Values are fixed in it, and one that differs between warm-up and recording is a
    /// difference.
    ///
    /// # Safety
    /// The launch, and every replay of it at any later time and on any stream of the device, must be
    /// sound. That is so if, whatever the buffers hold by then:
    ///
    /// * `function` is of the device's context;
    /// * the arguments are as many as the kernel's parameters, and each has the type and alignment that the
    ///   kernel takes at its place: a buffer that was allocated here begins at a multiple of 16 bytes,
    ///   and maybe of no more, for several may have parts of one allocation; a slice of one at any element;
    /// * the kernel reads only memory that the arguments declare as read or written, and writes only what
    ///   they declare as written, within each buffer's length. Memory that it reaches otherwise (by an
    ///   address in a value or in a buffer, or a global of its module) is the caller's to keep alive and in
    ///   order, for as long as the graph may be replayed;
    /// * it needs no more shared memory, blocks and threads than `config` and the device give it.
    ///
    /// # Errors
    /// [`Error::Aliased`], [`Error::OtherDevice`], [`Error::Marked`], [`Error::BadLaunch`],
    /// [`Error::BadMemory`], or the driver's.
    #[track_caller]
    pub unsafe fn launch<A: Arguments<M>>(
        &self,
        name: impl Into<Name>,
        function: &CudaFunction,
        config: LaunchConfig,
        arguments: A,
    ) -> Result<(), Error> {
        arguments.launch(self, name.into(), function, config, Location::caller())
    }
}

/// A value parameter of a kernel. Made by [`value`].
pub struct Value<T>(T);

/// A parameter that is passed by value: a number, or a struct of plain bytes.
#[must_use]
pub fn value<T: Pod>(value: T) -> Value<T> {
    Value(value)
}

/// A parameter that is a pointer to a shared slice. Made by [`read_slice`].
pub struct ReadSlice<'a, T>(&'a Arc<CudaSlice<T>>);

/// The launch reads a slice of `cudarc`'s that stays shared: nobody can write to it safely while a graph
/// holds the `Arc`. The kernel must not write it.
///
/// In a warm-up, the host waits for the slice's own stream, and for its events where `cudarc` tracks
/// them, so that what was written to it comes before every replay. A window takes only slices that its
/// warm-up was given. Outside a capture the wait is the stream's.
#[must_use]
pub fn read_slice<T: Send + Sync + 'static>(slice: &Arc<CudaSlice<T>>) -> ReadSlice<'_, T> {
    ReadSlice(slice)
}

/// What is known of the launch that an argument is of.
pub struct Launching<'a> {
    driver: &'a Driver,
    at: At,
}

/// Room for an argument: the address of memory, where it is one.
pub struct Slot(CUdeviceptr);

mod sealed {
    use super::*;

    pub trait Argument<M: Mode> {
        /// Whether it adds to the values of the launch.
        const VALUE: bool;

        /// The memory that it uses, if that is a buffer's.
        fn used(&self) -> Option<Use<'_, Cuda<M>>>;

        /// The address of its memory.
        fn locate(&self, launching: &Launching<'_>) -> Result<CUdeviceptr, Error>;

        /// What it adds to the values of the launch.
        fn describe(&self, values: &mut Values) -> Result<(), Full>;

        /// The address of the parameter. `slot` holds what [`locate`](Self::locate) gave.
        fn parameter(&self, slot: &Slot) -> *mut c_void;

        /// Keeps what no buffer keeps.
        fn keep(&self, commands: &Commands<M>);
    }

    pub trait Arguments<M: Mode> {
        fn launch(
            &self,
            commands: &Commands<M>,
            name: Name,
            function: &CudaFunction,
            config: LaunchConfig,
            at: At,
        ) -> Result<(), Error>;
    }
}
use sealed::{Argument as Sealed, Arguments as SealedArguments};

/// There are more parameters than CUDA passes.
pub struct Full;

fn push(values: &mut Values, bytes: &[u8]) -> Result<(), Full> {
    values.try_extend_from_slice(bytes).map_err(|_| Full)
}

/// One parameter of a CUDA kernel.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a parameter of a CUDA kernel in mode `{M}`",
    label = "pass `read(&x)`, `write(&x)`, `read_write(&x)`, `value(n)` or `read_slice(&x)`",
    note = "buffers must be of the device that launches"
)]
pub trait Argument<M: Mode>: Sealed<M> {}

/// The parameters of a CUDA kernel: a tuple of up to twelve [`Argument`]s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of parameters of a CUDA kernel in mode `{M}`",
    label = "expected a tuple of up to twelve parameters, as `(read(&x),)`",
    note = "parameters are `read(&x)`, `write(&x)`, `read_write(&x)`, `value(n)` and `read_slice(&x)`"
)]
pub trait Arguments<M: Mode>: SealedArguments<M> {}

macro_rules! access {
    ($access:ident) => {
        impl<T: Pod, M: Mode> Sealed<M> for $access<'_, T, Cuda<M>> {
            const VALUE: bool = false;

            #[inline]
            fn used(&self) -> Option<Use<'_, Cuda<M>>> {
                Some(SealedAccess::used(self))
            }

            #[inline]
            fn locate(&self, _: &Launching<'_>) -> Result<CUdeviceptr, Error> {
                Ok(address(SealedAccess::used(self).span))
            }

            #[inline]
            fn describe(&self, _: &mut Values) -> Result<(), Full> {
                Ok(())
            }

            #[inline]
            fn parameter(&self, slot: &Slot) -> *mut c_void {
                (&raw const slot.0).cast_mut().cast()
            }

            #[inline]
            fn keep(&self, _: &Commands<M>) {}
        }
        impl<T: Pod, M: Mode> Argument<M> for $access<'_, T, Cuda<M>> {}
    };
}
access!(Read);
access!(Write);
access!(ReadWrite);

impl<T: Pod, M: Mode> Sealed<M> for Value<T> {
    const VALUE: bool = true;

    #[inline]
    fn used(&self) -> Option<Use<'_, Cuda<M>>> {
        None
    }

    #[inline]
    fn locate(&self, _: &Launching<'_>) -> Result<CUdeviceptr, Error> {
        Ok(0)
    }

    #[inline]
    fn describe(&self, values: &mut Values) -> Result<(), Full> {
        push(values, bytemuck::bytes_of(&self.0))
    }

    #[inline]
    fn parameter(&self, _: &Slot) -> *mut c_void {
        (&raw const self.0).cast_mut().cast()
    }

    #[inline]
    fn keep(&self, _: &Commands<M>) {}
}
impl<T: Pod, M: Mode> Argument<M> for Value<T> {}

impl<T: Send + Sync + 'static, M: Mode> Sealed<M> for ReadSlice<'_, T> {
    const VALUE: bool = true;

    fn used(&self) -> Option<Use<'_, Cuda<M>>> {
        None
    }

    fn locate(&self, launching: &Launching<'_>) -> Result<CUdeviceptr, Error> {
        let driver = launching.driver;
        let known = driver
            .warm_up
            .borrow()
            .slices
            .get(&self.key())
            .map(|known| known.0);
        match known {
            Some(address) => Ok(address),
            None if driver.window.borrow().is_none() => self.first_seen(launching),
            None => Err(bad_slice(
                "the warm-up was not given this slice, and in a window nothing can be waited for; give it \
                 to both runs",
                launching.at,
            )),
        }
    }

    fn describe(&self, values: &mut Values) -> Result<(), Full> {
        push(values, &self.key().to_ne_bytes())
    }

    fn parameter(&self, slot: &Slot) -> *mut c_void {
        (&raw const slot.0).cast_mut().cast()
    }

    fn keep(&self, commands: &Commands<M>) {
        commands.keep(SharedSlice::new(self.0));
    }
}
impl<T: Send + Sync + 'static, M: Mode> Argument<M> for ReadSlice<'_, T> {}

impl<T: Send + Sync + 'static> ReadSlice<'_, T> {
    /// The slice that it is: as long as the `Arc` is held, no other has that address.
    fn key(&self) -> usize {
        Arc::as_ptr(self.0).addr()
    }

    /// Has the stream wait for what was written to the slice; in a warm-up the host, so that it comes
    /// before any replay on any stream.
    fn first_seen(&self, launching: &Launching<'_>) -> Result<CUdeviceptr, Error> {
        let (driver, slice) = (launching.driver, self.0);
        let context = driver.context();
        if slice.context().cu_ctx() != context.cuda().cu_ctx() {
            return Err(bad_slice(
                "this slice is of another context than the stream; use one of the device's context",
                launching.at,
            ));
        }
        let source = RawStream::adopt(context, Arc::clone(slice.stream()));
        if source.is_capturing()? {
            return Err(bad_slice(
                "the stream of this slice is in a capture; end that first",
                launching.at,
            ));
        }
        driver.stream().follow(&source.mark()?)?;
        // SAFETY: the stream is live as long as the wrapper.
        let own = unsafe {
            context
                .cuda()
                .wrap_borrowed_stream(driver.stream().handle())
        };
        let address = context.overheard("read_slice", || slice.device_ptr(&own).0)?;
        let mut warm_up = driver.warm_up.borrow_mut();
        if warm_up.runs {
            driver.stream().synchronize()?;
            let held = SharedSlice::new(slice);
            warm_up.slices.insert(self.key(), (address, Box::new(held)));
        }
        Ok(address)
    }
}

/// A share in a slice. The last of them frees it, where there are no memory pools by calls that would break
/// another stream's window of its thread.
struct SharedSlice<T>(Option<Arc<CudaSlice<T>>>);

impl<T> SharedSlice<T> {
    fn new(slice: &Arc<CudaSlice<T>>) -> Self {
        Self(Some(Arc::clone(slice)))
    }
}

impl<T> Drop for SharedSlice<T> {
    fn drop(&mut self) {
        if let Some(slice) = self.0.take().and_then(Arc::into_inner) {
            let (_, _back) = set_apart();
            drop(slice);
        }
    }
}

fn bad_slice(why: &str, at: At) -> Error {
    Error::BadMemory {
        call: "launch",
        why: why.into(),
        at: Some(at),
    }
}

macro_rules! arguments {
    ($count:literal: $($argument:ident $place:tt),*) => {
        impl<M: Mode, $($argument: Argument<M>),*> SealedArguments<M> for ($($argument,)*) {
            #[inline]
            fn launch(
                &self,
                commands: &Commands<M>,
                name: Name,
                function: &CudaFunction,
                config: LaunchConfig,
                at: At,
            ) -> Result<(), Error> {
                #[allow(unused_mut, reason = "there may be none")]
                let mut uses = ArrayVec::<Use<'_, Cuda<M>>, $count>::new();
                $(if let Some(used) = self.$place.used() {
                    // There is room for each.
                    let _ = uses.try_push(used);
                })*
                let head = head(function, config);
                let head: &[u8] = bytemuck::bytes_of(&head);
                let mut more = Values::new();
                let (values, described) = if const { false $(|| $argument::VALUE)* } {
                    let described = push(&mut more, head)
                        $(.and_then(|()| self.$place.describe(&mut more)))*;
                    (&*more, described)
                } else {
                    (head, Ok(()))
                };
                let command = Command {
                    name,
                    values,
                    ..Command::new(NodeKind::Launch, &uses, at)
                };
                let check = || described.map_err(|Full| too_many(&command, at));
                commands.issue(&command, check, |course| {
                    commands.submit(&uses, course, |call| {
                        let (driver, recording) = (call.driver(), call.is_recording());
                        let _launching = Launching { driver, at };
                        let _slots: [Slot; $count] = [$(Slot(self.$place.locate(&_launching)?)),*];
                        let mut parameters: [*mut c_void; $count] =
                            [$(self.$place.parameter(&_slots[$place])),*];
                        $(self.$place.keep(commands);)*
                        launch(driver, recording, function, &config, &mut parameters)
                    })
                })
            }
        }
        impl<M: Mode, $($argument: Argument<M>),*> Arguments<M> for ($($argument,)*) {}
    };
}
arguments!(0:);
arguments!(1: A 0);
arguments!(2: A 0, B 1);
arguments!(3: A 0, B 1, C 2);
arguments!(4: A 0, B 1, C 2, D 3);
arguments!(5: A 0, B 1, C 2, D 3, E 4);
arguments!(6: A 0, B 1, C 2, D 3, E 4, F 5);
arguments!(7: A 0, B 1, C 2, D 3, E 4, F 5, G 6);
arguments!(8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
arguments!(9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
arguments!(10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
arguments!(11: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
arguments!(12: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

/// What a launch is, before its arguments.
#[inline]
fn head(function: &CudaFunction, config: LaunchConfig) -> [u32; 9] {
    let LaunchConfig {
        grid_dim: (gx, gy, gz),
        block_dim: (bx, by, bz),
        shared_mem_bytes,
    } = config;
    let address = function.cu_function().addr() as u64;
    let (low, high) = (address as u32, (address >> 32) as u32);
    [low, high, gx, gy, gz, bx, by, bz, shared_mem_bytes]
}

#[inline]
fn launch(
    driver: &Driver,
    recording: bool,
    function: &CudaFunction,
    config: &LaunchConfig,
    parameters: &mut [*mut c_void],
) -> Result<(), Error> {
    let parameters = parameters.as_mut_ptr();
    driver.launch(recording, function, |stream| {
        // SAFETY: the launch's caller has promised all but this: the function is kept with its module
        // until its work is done, and the parameters are read before the call returns.
        unsafe {
            sys::cuLaunchKernel(
                function.cu_function(),
                config.grid_dim.0,
                config.grid_dim.1,
                config.grid_dim.2,
                config.block_dim.0,
                config.block_dim.1,
                config.block_dim.2,
                config.shared_mem_bytes,
                stream,
                parameters,
                std::ptr::null_mut(),
            )
        }
    })
}

#[cold]
fn too_many<M: Mode>(command: &Command<'_, Cuda<M>>, at: At) -> Error {
    Error::BadLaunch {
        name: command.title(),
        why: format!("its parameters exceed {PARAMETERS} bytes; pass some through a buffer").into(),
        at: Some(at),
    }
}
