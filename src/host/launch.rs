//! Launches on the host: closures over slices.

use std::any::TypeId;
use std::ops::Range;
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

use bytemuck::Pod;

use crate::access::{self, Read, ReadWrite, SealedAccesses, Write};
use crate::error::Error;
use crate::memory::{Held, Span};
use crate::trace::{Name, NodeKind};

use super::Commands;
use super::device::{Host, record, run};
use super::memory::{Part, elements, elements_mut, elements_of, elements_of_mut, part};

impl Commands {
    /// Runs `kernel` over the slices of `accesses`, or records it in a window.
    ///
    /// `accesses` is a tuple of one to eight [`read`](crate::read), [`write`](crate::write) and
    /// [`read_write`](crate::read_write), or one of them alone; the kernel gets `&[T]` and
    /// `&mut [T]` in their places. Write the closure in the call itself, or the compiler cannot
    /// infer those types.
    ///
    /// The kernel is `Fn`, not `FnMut`: it keeps no state between replays. It uses the slices it
    /// is given, and must call no device: that is refused as [`Error::InsideKernel`]. It must not
    /// wait for another thread that uses the device: that would never end.
    ///
    /// Name each buffer with its access, let the kernel own what it uses, and write it in the call. If you don't:
    /// [`buffer_launched_without_access`](crate::misuse::launches::buffer_launched_without_access),
    /// [`launch_without_accesses`](crate::misuse::launches::launch_without_accesses),
    /// [`nine_accesses`](crate::misuse::launches::nine_accesses),
    /// [`buffer_of_another_backend`](crate::misuse::launches::buffer_of_another_backend),
    /// [`kernel_takes_too_few_buffers`](crate::misuse::launches::kernel_takes_too_few_buffers),
    /// [`kernel_writes_what_it_reads`](crate::misuse::launches::kernel_writes_what_it_reads),
    /// [`kernel_borrows_a_local`](crate::misuse::launches::kernel_borrows_a_local),
    /// [`kernel_keeps_state`](crate::misuse::launches::kernel_keeps_state),
    /// [`kernel_keeps_a_slice`](crate::misuse::launches::kernel_keeps_a_slice),
    /// [`kernel_captures_an_rc`](crate::misuse::launches::kernel_captures_an_rc),
    /// [`kernel_captures_a_stream`](crate::misuse::launches::kernel_captures_a_stream),
    /// [`kernel_bound_to_a_name_first`](crate::misuse::launches::kernel_bound_to_a_name_first).
    ///
    /// A kernel is known by `name` and by its closure, not by what the closure captured: a number
    /// that differs between warm-up and recording is not noticed.
    ///
    /// # Errors
    /// [`Error::Aliased`], [`Error::OtherDevice`], [`Error::InsideKernel`].
    ///
    /// # Panics
    /// Where `kernel` does, unless recording. The stream and the buffers can be used afterwards; a
    /// capture that is under way will not seal (rule L12).
    #[track_caller]
    pub fn launch<A, F>(&self, name: impl Into<Name>, accesses: A, kernel: F) -> Result<(), Error>
    where
        A: Accesses,
        F: for<'v> Fn(A::Views<'v>) + Send + Sync + 'static,
    {
        let (kind, kernel_type) = (NodeKind::Launch, TypeId::of::<F>());
        self.launch_over(kind, name.into(), kernel_type, &[], &accesses, |call, _| {
            let pins = accesses.pins();
            if call.is_recording() {
                return record(&call, "launch", move || A::run(&pins, &kernel, Key(())));
            }
            // `kernel` and `pins` go when the turn is over: with no lock held (M14).
            run(call.device(), "launch", |turn| {
                turn.run(|| A::run(&pins, &kernel, Key(())));
            })
        })
    }
}

/// What it takes to touch memory. Only this file makes one, so that nobody runs a kernel, or holds
/// memory, around the commands: a hidden method of a public trait can be called.
#[derive(Clone, Copy)]
pub struct Key(());

/// Memory that a kernel will see, and which bytes of it.
pub struct Pin {
    memory: Held<Host>,
    range: Range<usize>,
}

impl Pin {
    fn is_same_memory(&self, other: &Self) -> bool {
        std::ptr::eq::<super::Memory>(&*self.memory, &*other.memory)
    }

    fn new(span: Span<'_, Host>) -> Self {
        Self {
            memory: span.hold(),
            range: span.range(),
        }
    }
}

/// One access of a host launch, and what the kernel sees of it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an access that a host kernel can have",
    label = "say how the kernel uses the buffer: `read(&x)`, `write(&x)` or `read_write(&x)`",
    note = "the buffer must be of the backend `Host`"
)]
pub trait Access: access::Access<Host> {
    /// `&[T]` or `&mut [T]`.
    type View<'v>;

    #[doc(hidden)]
    type Guard<'g>;

    #[doc(hidden)]
    fn lock(pin: &Pin, key: Key) -> Self::Guard<'_>;

    #[doc(hidden)]
    fn view<'v>(guard: &'v mut Self::Guard<'_>, range: &Range<usize>) -> Self::View<'v>;

    #[doc(hidden)]
    const WRITES: bool;

    #[doc(hidden)]
    fn view_of(part: Slot<'_>) -> Self::View<'_>;
}

/// A part of memory that a kernel uses more than once.
pub struct Slot<'v>(Part<'v>);

impl<T: Pod> Access for Read<'_, T, Host> {
    type View<'v> = &'v [T];
    type Guard<'g> = RwLockReadGuard<'g, Vec<u128>>;

    fn lock(pin: &Pin, _: Key) -> Self::Guard<'_> {
        pin.memory.read()
    }

    fn view<'v>(guard: &'v mut Self::Guard<'_>, range: &Range<usize>) -> &'v [T] {
        elements(guard, range.clone())
    }

    const WRITES: bool = false;

    fn view_of(part: Slot<'_>) -> &[T] {
        match part.0 {
            Part::Shared(bytes) => elements_of(bytes),
            Part::Unique(bytes) => elements_of(bytes),
        }
    }
}

macro_rules! writing {
    ($access:ident) => {
        impl<T: Pod> Access for $access<'_, T, Host> {
            type View<'v> = &'v mut [T];
            type Guard<'g> = RwLockWriteGuard<'g, Vec<u128>>;

            fn lock(pin: &Pin, _: Key) -> Self::Guard<'_> {
                pin.memory.write()
            }

            fn view<'v>(guard: &'v mut Self::Guard<'_>, range: &Range<usize>) -> &'v mut [T] {
                elements_mut(guard, range.clone())
            }

            const WRITES: bool = true;

            fn view_of(part: Slot<'_>) -> &mut [T] {
                match part.0 {
                    // Nobody is given a shared part to write.
                    Part::Shared(_) => &mut [],
                    Part::Unique(bytes) => elements_of_mut(bytes),
                }
            }
        }
    };
}
writing!(Write);
writing!(ReadWrite);

/// The accesses of a host launch: one [`Access`], or a tuple of one to eight. What it does with them is
/// [for launches alone](crate::misuse::sealed::kernel_run_by_hand).
#[diagnostic::on_unimplemented(
    message = "a launch on the host needs one to eight accesses to buffers of `Host`",
    label = "expected a tuple of one to eight `read(&x)`, `write(&x)` or `read_write(&x)`",
    note = "the accesses say what the kernel gets, and what the graph must own",
    note = "each buffer must be of the backend `Host`; bring another backend's over by `read` and `upload`"
)]
pub trait Accesses: access::Accesses<Host> + SealedAccesses<Host> {
    /// What the kernel gets: a slice, or a tuple of slices.
    type Views<'v>;

    #[doc(hidden)]
    type Pins: Send + Sync + 'static;

    #[doc(hidden)]
    fn pins(&self) -> Self::Pins;

    #[doc(hidden)]
    fn run(pins: &Self::Pins, kernel: &impl for<'v> Fn(Self::Views<'v>), key: Key);
}

macro_rules! alone {
    ($access:ident) => {
        impl<T: Pod> Accesses for $access<'_, T, Host> {
            type Views<'v> = <Self as Access>::View<'v>;
            type Pins = Pin;

            fn pins(&self) -> Pin {
                Pin::new(self.0.span())
            }

            fn run(pin: &Pin, kernel: &impl for<'v> Fn(Self::Views<'v>), key: Key) {
                kernel(Self::view(&mut Self::lock(pin, key), &pin.range));
            }
        }
    };
}
alone!(Read);
alone!(Write);
alone!(ReadWrite);

/// A stand-in for the name of a type parameter.
macro_rules! pin {
    ($access:ident) => {
        Pin
    };
}

macro_rules! accesses {
    ($($access:ident $guard:ident $place:tt),+) => {
        impl<$($access: Access),+> Accesses for ($($access,)+) {
            type Views<'v> = ($($access::View<'v>,)+);
            type Pins = Pins<($(pin!($access),)+)>;

            fn pins(&self) -> Self::Pins {
                let pins = ($(Pin::new(access::SealedAccess::used(&self.$place).span),)+);
                let apart = are_apart(&[$((&pins.$place, $access::WRITES)),+]);
                Pins { pins, apart }
            }

            fn run(
                Pins { pins, apart }: &Self::Pins,
                kernel: &impl for<'v> Fn(Self::Views<'v>),
                key: Key,
            ) {
                if *apart {
                    $(let mut $guard = $access::lock(&pins.$place, key);)+
                    kernel(($($access::view(&mut $guard, &pins.$place.range),)+));
                } else {
                    with_slots(&[$((&pins.$place, $access::WRITES)),+], |slots| {
                        kernel(($($access::view_of(take(slots, $place)),)+));
                    });
                }
            }
        }
    };
}
accesses!(A a 0);
accesses!(A a 0, B b 1);
accesses!(A a 0, B b 1, C c 2);
accesses!(A a 0, B b 1, C c 2, D d 3);
accesses!(A a 0, B b 1, C c 2, D d 3, E e 4);
accesses!(A a 0, B b 1, C c 2, D d 3, E e 4, F f 5);
accesses!(A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6);
accesses!(A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6, H h 7);

/// What a tuple of accesses needs when it runs.
pub struct Pins<P> {
    pins: P,
    /// No memory is used twice with a write among the uses, so each access can lock its own.
    apart: bool,
}

#[inline(always)] // The modes are constants of the caller's.
fn are_apart(accesses: &[(&Pin, bool)]) -> bool {
    accesses.iter().enumerate().all(|(place, (pin, writes))| {
        accesses
            .iter()
            .take(place)
            .all(|(other, other_writes)| !(*writes || *other_writes) || !pin.is_same_memory(other))
    })
}

/// Locks each memory once, and parts it among the accesses, which are slices that do not overlap.
fn with_slots(accesses: &[(&Pin, bool)], kernel: impl FnOnce(&mut [Option<Slot<'_>>])) {
    let memories: Vec<&Pin> = accesses
        .iter()
        .enumerate()
        .filter(|(place, (pin, _))| {
            let mut before = accesses.iter().take(*place);
            before.all(|(other, _)| !pin.is_same_memory(other))
        })
        .map(|(_, (pin, _))| *pin)
        .collect();
    let mut guards: Vec<_> = memories.iter().map(|pin| pin.memory.write()).collect();
    let mut slots: Vec<Option<Slot<'_>>> = accesses.iter().map(|_| None).collect();
    for (memory, guard) in memories.iter().zip(&mut guards) {
        let of_memory = accesses
            .iter()
            .enumerate()
            .filter(|(_, (pin, _))| pin.is_same_memory(memory))
            .map(|(place, (pin, writes))| (place, pin.range.clone(), *writes));
        for (place, own) in part(bytemuck::cast_slice_mut(guard), of_memory) {
            if let Some(slot) = slots.get_mut(place) {
                *slot = Some(Slot(own));
            }
        }
    }
    kernel(&mut slots);
}

/// The part for one access. There is one for each.
fn take<'v>(slots: &mut [Option<Slot<'v>>], place: usize) -> Slot<'v> {
    let slot = slots.get_mut(place).and_then(Option::take);
    slot.unwrap_or(Slot(Part::Shared(&[])))
}
