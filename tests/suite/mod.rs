//! The rules as tests, generic over the backend: L in `lifecycle` and `trace`, M in `memory`.
//! A backend's own test file implements [`Lab`] and calls `suite!`.
#![allow(dead_code)] // Not every test file uses every helper.

pub mod lifecycle;
pub mod memory;
pub mod trace;

use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use graph_capture::{Backend, Buffer, CaptureStatus, Commands, Error, NoCapture, Stream};

/// What the rules need of a backend to be tested: devices, and two launches.
pub trait Lab: Backend {
    /// A new device.
    fn device() -> Self;

    /// `y[i] = x[i] + by`.
    fn add(
        commands: &Commands<Self>,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
        by: f32,
    ) -> Result<(), Error>;

    /// `y[i] += x[i]`.
    fn accumulate(
        commands: &Commands<Self>,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
    ) -> Result<(), Error>;
}

/// A device with a stream and two buffers: x = [1, 2] and y = [0, 0].
pub struct Bench<B: Lab> {
    pub device: B,
    pub stream: Stream<NoCapture, B>,
    pub x: Buffer<f32, B>,
    pub y: Buffer<f32, B>,
}

pub fn bench<B: Lab>() -> Bench<B> {
    let device = B::device();
    let stream = Stream::on(&device).unwrap();
    let x = stream.upload(&[1.0, 2.0]).unwrap();
    let y = stream.alloc(2).unwrap();
    Bench {
        device,
        stream,
        x,
        y,
    }
}

pub fn status<B: Lab>(device: &B) -> CaptureStatus {
    device.captures().status().clone()
}

#[track_caller]
pub fn assert_idle(status: &CaptureStatus) {
    assert!(!status.any_active(), "a capture is left in the record");
    assert!(!status.any_recording(), "a window is left in the record");
}

/// The stream captures and replays as a new one does.
#[track_caller]
pub fn assert_usable<B: Lab>(stream: Stream<NoCapture, B>) {
    drop(used(stream));
}

/// As [`assert_usable`], to go on with the stream.
#[track_caller]
pub fn used<B: Lab>(stream: Stream<NoCapture, B>) -> Stream<NoCapture, B> {
    let x = stream.upload(&[40.0f32]).unwrap();
    let y = stream.alloc::<f32>(1).unwrap();
    let (stream, mut graph, ()) = stream.capture(|c| B::add(c, &x, &y, 2.0)).unwrap();
    stream.fill(&y, 0.0).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [42.0]);
    stream
}

/// Runs `f`, which panics, and catches it quietly.
#[track_caller]
pub fn panics<R>(f: impl FnOnce() -> R) {
    let caught = catch_unwind(AssertUnwindSafe(f));
    assert!(caught.is_err(), "it should have panicked");
}

/// The error and its causes, as a log shows them.
pub fn told(error: &Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

/// One `#[test]` for each rule, on the given backend.
macro_rules! suite {
    ($lab:ty) => {
        suite! { $lab;
            lifecycle: transitions_follow_the_capture_order,
            the_window_carries_its_owner,
            only_the_stream_that_opened_a_capture_may_seal_it,
            a_capture_no_one_can_close_does_not_wedge_the_stream,
            an_abandoned_window_reports_whose_it_was_and_what_doomed_it,
            a_rejected_transition_changes_nothing,
            abort_recovers_a_window_that_never_opened,
            the_record_counts_every_recording_stream,
            a_capture_runs_the_work_once_and_records_it_once,
            prepared_is_active_but_not_recording,
            a_failure_belongs_to_the_capture_it_happened_in,
            dropping_a_stream_ends_its_capture_in_every_phase,
            a_panic_in_the_warm_up_ends_the_capture,
            a_panic_in_the_window_ends_the_capture,
            a_caught_panic_between_two_commands_never_seals,
            an_early_return_ends_the_capture,
            an_error_of_the_captured_code_comes_back_with_the_stream,
            clones_of_a_device_share_one_record,
            two_streams_of_a_device_may_record_at_the_same_time,
            nothing_recorded_runs_before_a_replay,
            a_graph_replays_on_any_stream_of_its_device,
        }
        suite! { $lab;
            trace: the_first_failure_dooms_also_when_its_error_was_swallowed,
            later_failures_do_not_replace_the_first,
            a_doomed_recording_takes_no_more_commands,
            a_warm_up_in_which_a_command_failed_is_refused_by_name,
            a_window_without_a_warm_up_is_refused_by_name,
            an_empty_recording_is_an_error_with_a_name,
            a_recording_of_allocations_alone_is_empty,
            another_command_diverges,
            another_scalar_diverges,
            another_size_diverges,
            another_buffer_in_the_pattern_diverges,
            another_allocation_diverges,
            another_of_two_allocations_diverges,
            a_longer_recording_diverges,
            a_shorter_recording_diverges,
            reads_in_the_warm_up_are_not_part_of_the_trace,
            the_data_of_a_write_may_differ,
        }
        suite! { $lab;
            memory: a_graph_owns_all_it_touches,
            a_recorded_write_keeps_its_own_bytes,
            a_buffer_of_another_device_is_refused_by_name,
            a_graph_of_another_device_is_refused_by_name,
            alloc_returns_zeroes,
            scratch_of_a_graph_is_zero_at_every_replay,
            a_kept_value_lives_as_long_as_the_graph,
            a_kept_value_of_a_recording_that_fails_is_dropped,
            a_kept_value_outside_a_window_goes_when_the_stream_was_waited_for,
            a_kept_value_may_use_the_device_when_it_is_dropped,
            lengths_must_match,
            one_buffer_twice_with_a_write_is_refused_by_name,
            a_buffer_of_no_elements_is_refused_by_name,
            an_element_that_is_too_aligned_is_refused_by_name,
            a_length_that_overflows_is_refused_by_name,
            fill_repeats_every_byte_of_its_value,
            a_graph_tells_what_it_holds,
            an_upload_in_a_window_is_written_at_every_replay,
            buffers_dropped_in_a_window_do_not_break_it,
        }
    };
    ($lab:ty; $module:ident: $($test:ident),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                suite::$module::$test::<$lab>();
            }
        )+
    };
}
pub(crate) use suite;
