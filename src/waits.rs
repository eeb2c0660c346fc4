//! What a stream waits for: reads, `synchronize`, `completion`, `profile`.

use std::panic::Location;
use std::time::{Duration, Instant};

use bytemuck::Pod;

use crate::backend::{Backend, Call};
use crate::captures::DeviceCaptures;
use crate::commands::{Commands, same_length};
use crate::completion::Completion;
use crate::error::{At, Error};
use crate::memory::{Buffer, Span};
use crate::phase::{MayWait, Phase};
use crate::stream::Stream;

/// Waiting for the device. None of it compiles while recording.
impl<P: Phase, B: Backend> Stream<P, B> {
    /// Waits until all that was issued on this stream is done.
    ///
    /// Wait outside the window. If you don't:
    /// [`synchronize_while_recording`](crate::misuse::while_recording::synchronize_while_recording),
    /// [`synchronize_inside_capture`](crate::misuse::while_recording::synchronize_inside_capture),
    /// [`waits_in_any_phase`](crate::misuse::while_recording::waits_in_any_phase).
    ///
    /// # Errors
    /// What the work failed with, or the driver's refusal.
    #[track_caller]
    pub fn synchronize(&self) -> Result<(), Error>
    where
        P: MayWait,
    {
        self.synchronize_at(Location::caller())
    }

    /// Waits for the stream, and copies the buffer to the host.
    ///
    /// Read outside the window, and as the elements that are there. If you don't:
    /// [`read_while_recording`](crate::misuse::while_recording::read_while_recording),
    /// [`read_inside_capture`](crate::misuse::while_recording::read_inside_capture),
    /// [`read_as_other_elements`](crate::misuse::ownership::read_as_other_elements).
    ///
    /// # Errors
    /// [`Error::Marked`] if the command that should have written it failed;
    /// [`Error::OtherDevice`]; [`Error::OutOfMemory`] of the host; what the work failed with, or the
    /// driver's refusal.
    #[track_caller]
    pub fn read<T: Pod>(&self, buffer: &Buffer<T, B>) -> Result<Vec<T>, Error>
    where
        P: MayWait,
    {
        self.read_at(buffer, Location::caller())
    }

    /// As [`read`](Self::read), into memory of the caller's.
    ///
    /// Read outside the window. If you don't:
    /// [`read_into_while_recording`](crate::misuse::while_recording::read_into_while_recording).
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Error::LengthMismatch`] unless the lengths are equal.
    #[track_caller]
    pub fn read_into<T: Pod>(&self, buffer: &Buffer<T, B>, into: &mut [T]) -> Result<(), Error>
    where
        P: MayWait,
    {
        self.read_into_at(buffer, into, Location::caller())
    }

    /// Whether the buffer holds what it should, without waiting or reading.
    ///
    /// # Errors
    /// [`Error::Marked`] if the command that should have written it failed;
    /// [`Error::OtherDevice`].
    #[track_caller]
    pub fn check<T: Pod>(&self, buffer: &Buffer<T, B>) -> Result<(), Error> {
        let at = Location::caller();
        self.captures().check_at("check", buffer, at)
    }

    /// The point behind all that was issued on this stream so far: to ask later, or elsewhere,
    /// whether it is done.
    ///
    /// Mark it outside the window. If you don't:
    /// [`completion_while_recording`](crate::misuse::while_recording::completion_while_recording).
    ///
    /// # Errors
    /// The driver's refusal.
    #[track_caller]
    pub fn completion(&self) -> Result<Completion<B>, Error>
    where
        P: MayWait,
    {
        self.completion_at(Location::caller())
    }

    /// How long the device takes for `work`: from an idle stream to an idle stream. In a warm-up its
    /// commands are part of it.
    ///
    /// Measure outside the window. If you don't:
    /// [`profile_while_recording`](crate::misuse::while_recording::profile_while_recording).
    ///
    /// # Errors
    /// What `work` returns, or what its commands failed with.
    ///
    /// # Panics
    /// Where `work` does.
    #[track_caller]
    pub fn profile<R>(
        &self,
        work: impl FnOnce(&Commands<B>) -> Result<R, Error>,
    ) -> Result<(R, Duration), Error>
    where
        P: MayWait,
    {
        self.profile_at(Location::caller(), work)
    }
}

/// The same, for whoever has made sure that the stream may wait.
impl<B: Backend> Commands<B> {
    pub(crate) fn synchronize_at(&self, at: At) -> Result<(), Error> {
        let submitted = self.line().submitted();
        self.wait("synchronize", at, || self.transition(B::synchronize))?;
        self.waited(submitted);
        Ok(())
    }

    pub(crate) fn read_at<T: Pod>(&self, buffer: &Buffer<T, B>, at: At) -> Result<Vec<T>, Error> {
        self.captures().check_at("read", buffer, at)?;
        let mut into = Vec::new();
        into.try_reserve_exact(buffer.len())
            .map_err(|_| Error::OutOfMemory {
                bytes: buffer.span().bytes(),
                at: Some(at),
            })?;
        into.resize(buffer.len(), T::zeroed());
        self.fetch(buffer.span(), bytemuck::cast_slice_mut(&mut into), at)?;
        Ok(into)
    }

    pub(crate) fn read_into_at<T: Pod>(
        &self,
        buffer: &Buffer<T, B>,
        into: &mut [T],
        at: At,
    ) -> Result<(), Error> {
        same_length("read", buffer.len(), into.len(), at)?;
        self.captures().check_at("read", buffer, at)?;
        self.fetch(buffer.span(), bytemuck::cast_slice_mut(into), at)
    }

    /// Copies device memory to the host, in order with the other streams (M9), and waits for it.
    pub(crate) fn fetch(&self, from: Span<'_, B>, into: &mut [u8], at: At) -> Result<(), Error> {
        let here = self.wait("read", at, || {
            let page = [(from.block().page(), false)].into_iter();
            let (fetched, here) = self.in_order(page, || {
                B::fetch(Call::new(self.driver()?, self.device(), false), from)
            });
            let fetched = fetched?;
            self.transition(|t| B::land(t, fetched, into))?;
            Ok(here)
        })?;
        self.waited(here.at);
        Ok(())
    }

    pub(crate) fn completion_at(&self, at: At) -> Result<Completion<B>, Error> {
        self.wait("completion", at, || self.line().mark().map(Completion::new))
    }

    pub(crate) fn profile_at<R>(
        &self,
        at: At,
        work: impl FnOnce(&Self) -> Result<R, Error>,
    ) -> Result<(R, Duration), Error> {
        self.synchronize_at(at)?;
        let begin = Instant::now();
        let result = work(self)?;
        self.synchronize_at(at)?;
        Ok((result, begin.elapsed()))
    }
}

impl<B: Backend> DeviceCaptures<B> {
    /// Refuses to read memory of another device (M10), and memory that is marked (M11).
    pub(crate) fn check_at<T: Pod>(
        &self,
        call: &'static str,
        buffer: &Buffer<T, B>,
        at: At,
    ) -> Result<(), Error> {
        self.check_device(call, buffer.span(), at)?;
        buffer.span().block().mark.check()
    }
}
