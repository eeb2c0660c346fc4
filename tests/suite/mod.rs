//! The rules as tests, generic over the backend: L in `lifecycle` and `trace`, N in `server`,
//! `neighbours`, `owners`, `bystanders` and `cache`, M in the others.
//! A backend's own test file implements [`Lab`] and calls `suite!`.
#![allow(dead_code)] // Not every test file uses every helper.

pub mod bystanders;
pub mod cache;
pub mod habits;
pub mod lifecycle;
pub mod marks;
pub mod memory;
pub mod neighbours;
mod on_host;
pub mod owners;
pub mod pool;
pub mod results;
pub mod scratch;
pub mod server;
pub mod slices;
pub mod trace;

use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use graph_capture::{
    Backend, Buffer, CaptureStatus, Commands, DeviceMemory, Error, NoCapture, Stream,
};

/// What the rules need of a backend to be tested: devices, and two launches.
pub trait Lab: Backend {
    /// Whether this machine has such a device. Where not, it says so, and panics if the device is
    /// demanded.
    fn is_there() -> bool {
        true
    }

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

    /// Launches of one name that do nothing, but say that they write `y`, or read and write it.
    fn touch(
        commands: &Commands<Self>,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
        also_read: bool,
    ) -> Result<(), Error>;
}

/// Whether `GRAPH_CAPTURE_REQUIRE`, a list with commas, names this backend: then its tests fail where
/// its device is missing, and do not pass over it.
pub fn is_demanded(backend: &str) -> bool {
    let demanded = std::env::var("GRAPH_CAPTURE_REQUIRE").unwrap_or_default();
    demanded.split(',').any(|name| name.trim() == backend)
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

/// The device holds nothing but these bytes, which could not be freed.
#[track_caller]
pub fn assert_holds_only(memory: DeviceMemory, lost: usize) {
    let DeviceMemory {
        in_use,
        held_by_graphs,
        free,
        waiting,
        allocated,
        ..
    } = memory;
    let figures = [
        in_use,
        held_by_graphs,
        free,
        waiting,
        memory.lost,
        allocated,
    ];
    assert_eq!(figures, [0, 0, 0, 0, lost, lost], "{memory:?}");
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
            a_caught_panic_that_cost_no_command_seals,
            an_early_return_ends_the_capture,
            an_error_of_the_captured_code_comes_back_with_the_stream,
            an_error_that_the_caller_made_of_a_failure_comes_back,
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
            another_kind_of_access_diverges,
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
            refusals_name_their_place_in_the_source,
            an_element_that_is_too_aligned_is_refused_by_name,
            a_length_that_overflows_is_refused_by_name,
            fill_repeats_every_byte_of_its_value,
            a_graph_tells_what_it_holds,
            an_upload_in_a_window_is_written_at_every_replay,
            buffers_dropped_in_a_window_do_not_break_it,
        }
        suite! { $lab;
            pool: memory_that_is_dropped_serves_the_next_allocation,
            figures_of_memory_tell_where_each_byte_is,
            memory_of_a_live_graph_is_given_to_nobody_else,
            scratch_of_a_window_serves_it_again,
            scratch_that_a_handle_reaches_is_not_taken_again,
            scratch_that_another_graph_touches_is_not_taken_again,
            an_input_dropped_in_the_window_is_not_taken_as_scratch,
            what_the_warm_up_freed_is_kept_for_the_recording,
            buffers_of_the_warm_up_may_be_kept,
            what_was_primed_is_free_when_the_capture_ends,
            a_buffer_of_the_warm_up_that_goes_in_the_window_is_free_for_others,
            a_window_that_needs_more_than_its_warm_up_is_doomed_by_name,
            memory_of_a_window_is_not_readable_before_a_replay,
            captures_leave_memory_flat,
            free_memory_does_not_keep_another_size_from_being_allocated,
        }
        suite! { $lab;
            scratch: scratch_of_one_size_serves_another,
            scratch_serves_smaller_scratch_too,
            buffers_that_are_there_at_once_have_their_own_parts_of_a_page,
            two_buffers_in_one_page_have_marks_of_their_own,
            a_buffer_of_a_shared_page_outlives_window_and_graph,
            scratch_that_the_recording_drops_later_is_not_taken,
            scratch_that_is_dropped_later_may_exhaust_the_pool,
            scratch_that_the_recording_drops_earlier_is_taken,
            scratch_that_is_dropped_earlier_is_not_lent_past_the_plan,
            a_part_of_a_page_that_another_graph_touches_is_not_taken_again,
            scratch_that_another_graph_touches_in_both_runs_is_planned_for,
            a_warm_up_keeps_no_more_than_it_had_at_once,
            a_window_opens_with_little_free,
            a_recording_that_is_given_up_gives_its_pages_back,
        }
        suite! { $lab;
            marks: reading_what_a_refused_command_should_have_written_gives_its_cause,
            a_mark_is_on_the_memory,
            a_command_over_marked_memory_is_refused_and_passes_the_cause_on,
            a_write_of_all_of_it_clears_the_mark,
            a_write_of_a_part_does_not_clear_the_mark,
            a_marked_input_dooms_a_recording,
            a_failure_in_a_window_marks_nothing,
            a_replay_over_marked_input_is_refused_and_marks_its_outputs,
            a_replay_clears_the_marks_of_what_it_writes,
            a_replay_that_writes_a_part_does_not_clear_the_mark,
            memory_of_another_device_is_not_marked,
        }
        suite! { $lab;
            slices: a_slice_is_accepted_wherever_a_buffer_is,
            a_recording_uses_the_slice_at_its_place,
            a_slice_keeps_the_memory_alive,
            a_slice_of_a_slice_counts_from_its_own_beginning,
            slices_that_overlap_are_refused_where_one_is_written,
            a_slice_that_does_not_lie_in_its_buffer_is_refused_by_name,
            another_slice_diverges,
        }
        suite! { $lab;
            results: a_download_holds_what_the_buffer_held_at_its_place,
            a_download_is_read_on_any_stream_of_the_device,
            a_download_that_cannot_be_read_is_refused_by_name,
            a_download_keeps_its_memory_in_the_window,
            a_download_gives_elements_of_any_size,
            a_completion_is_done_when_the_work_before_it_is,
            profile_times_its_work_and_hands_out_its_result,
            the_last_warm_up_pass_is_the_one_compared,
            a_pass_that_failed_may_be_repeated,
            a_graph_lists_its_commands_and_what_they_touch,
            a_graph_draws_itself,
        }
        suite! { $lab;
            habits: unrelated_work_of_the_same_sizes_runs_between_two_replays,
            new_buffers_take_the_place_of_dropped_ones_between_two_replays,
            one_of_two_graphs_on_one_stream_is_destroyed,
            a_graph_is_dropped_inside_a_window,
            a_graph_is_dropped_on_another_thread,
            another_thread_works_while_a_stream_records,
            a_capture_fails_in_the_middle_and_the_stream_is_used_again,
            captures_that_fail_leave_an_older_graph_as_it_was,
            the_first_work_of_a_device_is_a_capture,
            a_trimmed_pool_serves_the_next_capture,
        }
        mod server {
            use super::*;
            suite! { $lab;
                server: transitions_follow_the_capture_order,
                the_window_carries_its_owner,
                only_the_stream_that_opened_a_capture_may_seal_it,
                a_capture_no_one_can_close_does_not_wedge_the_stream,
                an_abandoned_window_reports_whose_it_was_and_what_doomed_it,
                a_rejected_transition_changes_nothing,
                abort_recovers_a_window_that_never_opened,
                the_record_counts_every_recording_stream,
                callers_fold_onto_streams_by_their_number,
                a_pool_of_no_streams_is_refused,
                the_owner_of_an_abandoned_capture_is_told_once,
                a_new_capture_is_not_answered_with_an_old_notice,
                the_last_of_two_abandoned_captures_is_told,
            }
            suite! { $lab;
                neighbours: a_neighbours_waits_in_a_window_are_refused,
                a_neighbours_refused_write_marks_its_memory,
                a_neighbours_calls_in_a_window_run_on_a_spare_stream,
                a_diverted_write_is_seen_by_the_owners_replay,
                questions_are_always_answered,
                a_neighbours_refused_launch_marks_what_it_would_have_written,
                a_neighbours_refused_replay_marks_what_it_would_have_written,
                nothing_that_a_neighbour_does_dooms_the_owners_capture,
                a_mark_of_a_neighbour_is_for_the_replay_to_refuse,
                neighbours_run_as_usual_beside_a_warm_up,
                neighbours_do_not_take_the_memory_that_a_warm_up_primed,
            }
            suite! { $lab;
                bystanders: a_refused_closure_marks_all_that_it_would_have_written,
                a_refused_closure_with_scratch_marks_its_output,
                a_pool_told_to_refuse_refuses,
                a_disconnection_does_not_take_the_notice_of_another,
                a_capture_that_expired_is_reported_though_its_value_panics,
                an_abandoned_capture_is_counted_though_its_value_panics,
                what_was_kept_on_the_spare_stream_goes_when_the_caller_waited,
                a_pool_of_very_many_streams_does_not_panic,
                a_cached_graph_replayed_on_another_device_is_refused_and_marks_nothing,
                ids_of_both_namespaces_are_two_callers_on_one_stream,
                counts_of_a_cache_add_up_after_a_panic,
                the_advice_of_a_refusal_in_the_warm_up_can_be_followed,
                an_evicted_graph_whose_value_panics_costs_the_next_caller_nothing,
                a_disconnection_destroys_graphs_though_a_value_panics,
            }
            suite! { $lab;
                cache: a_key_is_captured_once,
                the_graph_unused_for_longest_goes_first,
                a_graph_too_large_for_the_cache_is_not_kept,
                room_is_made_for_one_graph_by_as_many_as_it_takes,
                a_cache_says_what_it_has,
                a_failed_capture_is_not_cached,
                a_cache_captures_nothing_in_the_capture_of_another,
                a_key_can_be_removed,
                a_cache_is_looked_into_and_cleared,
            }
            suite! { $lab;
                owners: what_the_owner_cannot_have_recorded_dooms_its_capture,
                an_error_of_a_closure_of_the_owner_dooms_its_capture,
                a_panic_of_a_closure_of_the_owner_dooms_its_capture,
                the_owners_own_waits_in_its_window_are_refused,
                what_a_refused_capture_would_have_written_is_marked,
                what_a_replay_that_did_not_start_would_have_written_is_marked,
                graphs_have_names_of_their_own,
                a_graph_is_destroyed_once_and_when_its_replay_is_done,
                a_graph_is_destroyed_by_its_owner_alone,
                a_caller_that_disconnects_loses_its_capture,
                a_capture_that_outlasts_its_time_is_abandoned,
                a_pool_counts_what_it_did,
                a_pool_is_trimmed_between_windows,
                a_pool_tells_when_the_work_of_a_caller_is_done,
                a_pool_captures_with_several_passes,
            }
        }
    };
    ($lab:ty; $module:ident: $($test:ident),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                if <$lab as suite::Lab>::is_there() {
                    suite::$module::$test::<$lab>();
                }
            }
        )+
    };
}
pub(crate) use suite;
