//! The catalogue of misuse: programs that must not compile, with the compiler's answers, word for
//! word, and beside each the nearest program that does. `src/misuse.rs` shows them.
//!
//! `.ci/bless` writes the answers anew; `.ci/bounds` removes what refuses, one bound at a time, and
//! sees a program of these compile, or its answer change.

#![expect(clippy::duplicate_mod, reason = "each program is a crate of its own")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn misuse_is_refused_in_these_words() {
    trybuild::TestCases::new().compile_fail("ui-tests/*.rs");
}

/// Runs each program that works: a module of its own, and a test of that name.
macro_rules! works {
    ($($name:ident)+) => {
        const WORKS: &[&str] = &[$(stringify!($name)),+];

        $(mod $name {
            include!(concat!("../ui-tests/pass/", stringify!($name), ".rs"));

            #[test]
            fn works() -> Result<(), graph_capture::Error> {
                main()
            }
        })+
    };
}

works! {
    abort_without_capture
    access_of_your_own
    backend_called_by_hand
    begin_twice
    begin_without_prepare
    buffer_launched_without_access
    buffer_of_another_backend
    capture_ignored
    capture_while_prepared
    capture_while_recording
    commands_carried_out_of_capture
    commands_held_across_await
    commands_kept_past_end
    commands_sent_to_another_thread
    commands_taken_from_stream
    completion_while_recording
    copy_from_another_backend
    custom_command_on_the_host
    custom_command_opens_a_window
    download_read_as_other_elements
    driver_reached_past_the_stream
    elements_on_the_heap
    elements_that_are_not_plain
    end_while_only_prepared
    end_without_begin
    graph_ignored
    graph_of_another_backend
    graph_read_by_two_threads
    graph_read_while_recording
    graph_replayed_by_two_threads
    graph_taken_apart
    kept_value_that_stays_on_its_thread
    kernel_borrows_a_local
    kernel_bound_to_a_name_first
    kernel_captures_a_stream
    kernel_captures_an_rc
    kernel_keeps_a_slice
    kernel_keeps_state
    kernel_run_by_hand
    kernel_takes_too_few_buffers
    kernel_writes_what_it_reads
    launch_without_accesses
    nine_accesses
    owner_without_capture
    phase_of_your_own
    pinned_recording_declared_free
    pinned_recording_held_across_await
    pinned_recording_sent_to_another_thread
    prepare_for_another_owner
    prepare_ignored
    prepare_twice
    prepare_while_recording
    profile_while_recording
    read_as_other_elements
    read_inside_capture
    read_into_while_recording
    read_while_recording
    record_of_another_backend
    record_written_from_outside
    recording_may_wait
    recording_opened_by_hand
    replay_inside_capture
    replay_while_recording
    replay_while_result_is_read
    result_outlives_graph
    stream_cloned
    stream_in_a_made_up_phase
    stream_shared_by_two_threads
    stream_taken_apart
    stream_used_after_abort
    stream_used_after_begin
    stream_used_after_capture
    stream_used_after_end
    stream_used_after_prepare
    streams_swapped
    synchronize_inside_capture
    synchronize_while_recording
    token_forged
    token_kept_past_its_command
    token_made
    token_of_another_backend
    waits_in_any_phase
    warm_up_again_while_recording
}

#[test]
fn every_program_has_its_answer_its_neighbour_and_its_page() {
    let programs = names("ui-tests", "rs");
    let answers = names("ui-tests", "stderr");
    let neighbours = names("ui-tests/pass", "rs");
    let run: BTreeSet<String> = WORKS.iter().map(ToString::to_string).collect();
    let pages = pages();
    assert_eq!(programs, answers, "programs, and answers of the compiler");
    assert_eq!(programs, neighbours, "programs, and those that work");
    assert_eq!(programs, run, "programs, and those that `works!` runs");
    assert_eq!(programs, pages, "programs, and pages of src/misuse.rs");
    assert_eq!(names("ui-tests/pass", "stderr"), BTreeSet::new());
}

/// The names of the files in `folder` that end in `extension`.
fn names(folder: &str, extension: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

/// The names in the catalogue, each at the head of an entry and once.
fn pages() -> BTreeSet<String> {
    let source = include_str!("../src/misuse.rs");
    let (_, catalogue) = source.split_once("catalogue! {").unwrap();
    let heads = catalogue.lines().filter_map(|line| {
        let name = line.strip_prefix("        ")?.strip_suffix(':')?;
        (!name.starts_with(' ')).then(|| name.to_owned())
    });
    let heads: Vec<String> = heads.collect();
    let pages: BTreeSet<String> = heads.iter().cloned().collect();
    assert_eq!(heads.len(), pages.len(), "a page stands twice");
    pages
}
