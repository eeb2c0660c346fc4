//! Pinned memory of the host, through which bytes go to the device and come from it.
#![allow(unsafe_code)] // Calls of the driver, and copies to and from pinned memory.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{self, CUdeviceptr};

use crate::error::Error;
use crate::lost::keep_for_good;

use super::call::{check, make};
use super::context::{Context, Loss};
use super::stream::{Point, RawStream};

/// Blocks are of a multiple of this size, and small writes share one.
const BLOCK: usize = 1 << 16;

/// As much stays allocated for the next writes and reads.
const KEPT: usize = 32 << 20;

/// With as much under way, a write waits for the first of it.
const UNDER_WAY: usize = 256 << 20;

/// Where the pieces of a block begin.
const ALIGN: usize = 16;

/// A block of pinned memory, which nobody else has.
pub(super) struct Block {
    address: *mut u8,
    bytes: usize,
    used: usize,
}

// SAFETY: it is memory of the process, which only its owner touches.
unsafe impl Send for Block {}

impl Block {
    /// A block for `bytes` bytes, of the shelf's if there is one.
    pub(super) fn take(context: &Context, bytes: usize) -> Result<Self, Error> {
        let size = bytes.max(1).next_multiple_of(BLOCK);
        if let Some(block) = context.shelf.take(size) {
            return Ok(block);
        }
        let address = context.apart(|| {
            make(
                "cuMemHostAlloc",
                null_mut::<c_void>(),
                // SAFETY: it writes an address there.
                |address| unsafe { sys::cuMemHostAlloc(address, size, 0) },
                |address| drop(free(address)),
            )
        })?;
        context.shelf.pinned.fetch_add(size, Ordering::Relaxed);
        Ok(Self {
            address: address.cast(),
            bytes: size,
            used: 0,
        })
    }

    /// Puts bytes behind those that are there, if there is room, and says where.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Option<*const c_void> {
        let end = self.used.checked_add(bytes.len())?;
        if end > self.bytes {
            return None;
        }
        // SAFETY: the block has `self.bytes` bytes, of which these are the ones from `self.used`; they
        // are this block's alone, and nothing that is under way reads them, for a block is used again
        // only when its work is done.
        let place = unsafe {
            let place = self.address.add(self.used);
            place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            place
        };
        self.used = end.next_multiple_of(ALIGN);
        Some(place.cast_const().cast())
    }

    /// Gives the block to the next one. Nothing may use it any more.
    pub(super) fn put_back(mut self, context: &Context) {
        self.used = 0;
        context.shelf.put(self);
    }

    pub(super) fn free(self, context: &Context) {
        let freed = context.destroy(Loss::Pinned, || free(self.address.cast()));
        if freed.is_ok() {
            let pinned = &context.shelf.pinned;
            pinned.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }

    /// Nobody knows when the device is done with it.
    fn lose(self, context: &Context) {
        context.lose(Loss::Pinned);
        keep_for_good(self);
    }
}

fn free(address: *mut c_void) -> Result<(), Error> {
    // SAFETY: `cuMemHostAlloc` gave it, and it is freed once.
    check("cuMemFreeHost", unsafe { sys::cuMemFreeHost(address) })
}

/// Blocks that are free.
#[derive(Default)]
pub(super) struct Shelf {
    blocks: Mutex<Vec<Block>>,
    /// The bytes of all blocks, on the shelf or not.
    pinned: AtomicUsize,
}

impl Shelf {
    fn blocks(&self) -> MutexGuard<'_, Vec<Block>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, bytes: usize) -> Option<Block> {
        let mut blocks = self.blocks();
        let fits = |block: &Block| (bytes..=bytes.saturating_mul(2)).contains(&block.bytes);
        let place = blocks.iter().position(fits)?;
        Some(blocks.swap_remove(place))
    }

    fn put(&self, block: Block) {
        self.blocks().push(block);
    }

    pub(super) fn pinned(&self) -> usize {
        self.pinned.load(Ordering::Relaxed)
    }

    pub(super) fn into_blocks(self) -> Vec<Block> {
        let blocks = self.blocks.into_inner();
        blocks.unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees blocks until no more than `most` bytes are here: outside windows, where it can wait.
    pub(super) fn shed(context: &Context, most: usize) {
        let mut shed = Vec::new();
        {
            let mut blocks = context.shelf.blocks();
            let mut left: usize = blocks.iter().map(|block| block.bytes).sum();
            while left > most
                && let Some(block) = blocks.pop()
            {
                left = left.saturating_sub(block.bytes);
                shed.push(block);
            }
        }
        shed.into_iter().for_each(|block| block.free(context));
    }

    /// As [`shed`](Self::shed), to what is worth keeping.
    pub(super) fn tidy(context: &Context) {
        Self::shed(context, KEPT);
    }
}

/// The writes of one stream that are under way, outside windows.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Filled by the next writes.
    block: Option<Block>,
    /// Full, and the point behind the writes of each, where it could be marked.
    full: VecDeque<(Option<Point>, Block)>,
}

impl UnderWay {
    /// Copies bytes to the device, by way of pinned memory.
    pub(super) fn write(
        &mut self,
        stream: &RawStream,
        to: CUdeviceptr,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let place = match self.block.as_mut().and_then(|block| block.put(bytes)) {
            Some(place) => place,
            None => {
                self.next(stream, bytes.len())?;
                let block = self.block.as_mut();
                block
                    .and_then(|block| block.put(bytes))
                    .ok_or_else(|| Error::out_of_memory(bytes.len()))?
            }
        };
        // SAFETY: the bytes stay there until the stream has been waited for, or the point behind them.
        check("cuMemcpyHtoDAsync_v2", unsafe {
            sys::cuMemcpyHtoDAsync_v2(to, place, bytes.len(), stream.handle())
        })
    }

    /// The block is full: takes one that is done with, or another.
    fn next(&mut self, stream: &RawStream, bytes: usize) -> Result<(), Error> {
        let context = stream.context();
        if let Some(full) = self.block.take() {
            let point = stream.mark().ok();
            self.full.push_back((point, full));
        }
        let mut under_way: usize = self.full.iter().map(|(_, block)| block.bytes).sum();
        while let Some((Some(point), _)) = self.full.front() {
            let waits = under_way > UNDER_WAY;
            if !(if waits {
                point.wait(None)?
            } else {
                point.is_reached()?
            }) {
                break;
            }
            if let Some((_, block)) = self.full.pop_front() {
                under_way = under_way.saturating_sub(block.bytes);
                block.put_back(context);
            }
        }
        self.block = Some(Block::take(context, bytes)?);
        Ok(())
    }

    /// What the device may still write or read, until the stream has been waited for.
    pub(super) fn hold(&mut self, staged: Staged) {
        self.full.push_back((None, staged.into_block()));
    }

    /// The stream has been waited for: all blocks are free.
    pub(super) fn done(&mut self, context: &Context) {
        let full = self.full.drain(..).map(|(_, block)| block);
        full.chain(self.block.take())
            .for_each(|block| block.put_back(context));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.block.is_none() && self.full.is_empty()
    }

    /// Nobody knows when the device is done with them.
    pub(super) fn lose(&mut self, context: &Context) {
        let full = self.full.drain(..).map(|(_, block)| block);
        full.chain(self.block.take())
            .for_each(|block| block.lose(context));
    }
}

/// A block that goes back to the shelf when it is dropped: what a graph reads its recorded bytes from.
pub(super) struct Staged {
    block: ManuallyDrop<Block>,
    context: Arc<Context>,
}

impl Staged {
    /// Room for `bytes` bytes.
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, Error> {
        Ok(Self {
            block: ManuallyDrop::new(Block::take(context, bytes)?),
            context: Arc::clone(context),
        })
    }

    /// As [`Block::put`].
    pub(super) fn put(&mut self, bytes: &[u8]) -> Option<*const c_void> {
        self.block.put(bytes)
    }

    /// Where the device may write.
    pub(super) fn target(&self) -> *mut c_void {
        self.block.address.cast()
    }

    /// What the device has written; it must be done with that.
    pub(super) fn read(&self, into: &mut [u8]) {
        let bytes = into.len().min(self.block.bytes);
        // SAFETY: the block has that many bytes, which the driver has written, and nobody writes now.
        unsafe {
            into.as_mut_ptr()
                .copy_from_nonoverlapping(self.block.address, bytes);
        }
    }

    fn into_block(self) -> Block {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, and nothing reads it after this line.
        let (block, context) = unsafe {
            (
                ManuallyDrop::take(&mut this.block),
                std::ptr::read(&this.context),
            )
        };
        drop(context);
        block
    }

    /// Nobody knows when the device is done with it.
    pub(super) fn lose(self) {
        let context = Arc::clone(&self.context);
        self.into_block().lose(&context);
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // SAFETY: `drop` runs once, `into_block` prevents it, and nothing reads the block after this line.
        let block = unsafe { ManuallyDrop::take(&mut self.block) };
        block.put_back(&self.context);
    }
}

/// The room that writes of these sizes take in one block.
pub(super) fn room(sizes: impl Iterator<Item = usize>) -> usize {
    sizes.fold(0, |room: usize, bytes| {
        room.saturating_add(bytes.next_multiple_of(ALIGN))
    })
}
