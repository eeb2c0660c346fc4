//! What does not compile, what the compiler says of it, and what to write instead.
//!
//! Each page shows a program that makes one mistake, the compiler's whole answer, what happens on a
//! device where nothing checks, and the nearest program that works. The programs and the answers are
//! files under `ui-tests/`, which the tests compile and run, so a page cannot say what is not so.
//! Answers are those of the compiler that `rust-toolchain.toml` names.
//!
//! | group | what goes wrong there |
//! |---|---|
//! | [`order`] | `prepare`, `begin`, `end` and `abort` in another order |
//! | [`while_recording`] | waiting, reading and replaying in an open window |
//! | [`threads`] | streams, recordings and graphs on more than one thread |
//! | [`ownership`] | a stream used after its transition, commands that outlive theirs, results that change under the reader |
//! | [`launches`] | what a kernel captures, and which buffers it is given |
//! | [`sealed`] | phases, tokens, records and accesses of one's own making |
//!
//! Where the answer is an error `E0277` with a sentence about streams, the sentence is this crate's.
//! Where it is about moves, borrows, types or privacy it is the language's, and the page says what it
//! comes to.

/// A module for each group, and in it a page for each misuse, under the name of its files.
macro_rules! catalogue {
    ($(
        $(#[$about:meta])*
        $group:ident {$(
            $name:ident: $title:literal, $on_a_device:literal;
        )+}
    )+) => {$(
        $(#[$about])*
        pub mod $group {$(
            #[doc = $title]
            ///
            /// ```compile_fail
            #[doc = include_str!(concat!("../ui-tests/", stringify!($name), ".rs"))]
            /// ```
            ///
            /// # The compiler's answer
            ///
            /// ```text
            #[doc = include_str!(concat!("../ui-tests/", stringify!($name), ".stderr"))]
            /// ```
            ///
            /// # Where nothing checks
            ///
            #[doc = $on_a_device]
            ///
            /// # What works
            ///
            /// ```
            #[doc = include_str!(concat!("../ui-tests/pass/", stringify!($name), ".rs"))]
            /// ```
            pub mod $name {}
        )+}
    )+};
}

catalogue! {
    /// The transitions in another order than `prepare`, `begin`, `end`.
    ///
    /// Each transition takes the stream by value, in one phase, and gives it back in the next. A call
    /// in the wrong phase names the phase that it needs and the one that the stream is in. The
    /// [short form](crate::Stream::capture) takes the whole way in one call, so none of this can
    /// happen there.
    order {
        begin_without_prepare:
            "A window opened on a stream that was never prepared.",
            "The window records work that never ran. Whatever happens only the first time (a library's \
             set-up, a kernel's compilation, an allocation) then happens inside the window, where the \
             driver forbids it: a matrix product that is captured before cuBLAS was ever used ends in an \
             error of cuBLAS ([pytorch/pytorch#99397](https://github.com/pytorch/pytorch/issues/99397)), and a first call that tunes itself breaks the \
             capture ([vllm-project/vllm#46523](https://github.com/vllm-project/vllm/issues/46523)).";
        end_without_begin:
            "A capture ended where none was begun.",
            "The driver answers with an illegal state, or with a graph of nothing. Where that answer is \
             not looked at, a null graph is made executable and launched, and the error shows up far \
             from its cause ([NVIDIA/cuopt#1758](https://github.com/NVIDIA/cuopt/issues/1758)).";
        end_while_only_prepared:
            "A capture ended before its window was opened.",
            "What ran in the warm-up was run and not recorded, so there is no graph to have. Code that \
             goes on without one falls back to launching piece by piece, and nobody notices but by the \
             clock.";
        prepare_twice:
            "A prepared stream prepared again.",
            "Two warm-ups share one stream, and the memory and the kernels of the first are taken for \
             those of the second. What the recording then does is not what was tried: in \
             [tracel-ai/burn#5772](https://github.com/tracel-ai/burn/issues/5772) warm-up and recording decided differently about the same memory.";
        prepare_while_recording:
            "A second capture started inside an open window.",
            "The warm-up of the second capture would not run but be recorded into the first, and what it \
             should have compiled and allocated for real would be asked for inside a window. The first \
             capture breaks, and the second has seen nothing.";
        begin_twice:
            "A window opened inside a window of the same stream.",
            "The driver refuses, since a stream that captures cannot begin. Captures that are nested by way of \
             a library merge, and break both ([pytorch/pytorch#191827](https://github.com/pytorch/pytorch/issues/191827)).";
        capture_while_prepared:
            "The short form on a stream that is prepared already.",
            "There would be two owners and two warm-ups for one window, and the record would tell of \
             both. The short form prepares, begins and ends by itself.";
        capture_while_recording:
            "The short form inside an open window.",
            "It would warm up inside the window, where nothing runs, and begin a window within a window. \
             A library that captures by itself could not be called inside its caller's capture: \
             [microsoft/onnxruntime#32081](https://github.com/microsoft/onnxruntime/issues/32081).";
        prepare_for_another_owner:
            "A prepared capture prepared again for another owner.",
            "Who owns a capture is who is told of its failures, and who may end it. If it changed on the \
             way, a failure would go to a client that issued none of the commands.";
        warm_up_again_while_recording:
            "Another pass of the warm-up, with the window open.",
            "Work that should run, to compile or to tune, is recorded instead, and the graph holds it \
             once more than was meant. An autotuner that measures in a window measures nothing, or breaks \
             it ([vllm-project/vllm#46523](https://github.com/vllm-project/vllm/issues/46523)).";
        abort_without_capture:
            "A capture given up where none is under way.",
            "To close a window that is not open is an error of the driver's, which on many paths is kept \
             and reported by the next call that has nothing to do with it (cudarc#590).";
        owner_without_capture:
            "A stream without a capture asked for its owner.",
            "A server that takes a stale owner for the present one gives a failure to the wrong caller, \
             or lets a caller end what it never began.";
    }

    /// Waiting, reading and replaying in an open window.
    ///
    /// Inside a window nothing runs, so there is nothing to wait for and nothing to read. Commands
    /// ([`Commands`](crate::Commands)) are recorded; what waits is a call of the stream, in phase
    /// `NoCapture` or `Prepared`.
    while_recording {
        synchronize_while_recording:
            "A stream waited for inside its window.",
            "The driver forbids it, and breaks the capture: every later command of the window fails, and \
             there is no graph. The wait is often hidden in a library: [microsoft/onnxruntime#15002](https://github.com/microsoft/onnxruntime/issues/15002), \
             [NVlabs/instant-ngp#795](https://github.com/NVlabs/instant-ngp/issues/795).";
        read_while_recording:
            "A result read inside the window.",
            "A blocking copy waits for a stream that is not running, so the driver refuses and breaks the \
             capture ([JuliaGPU/CUDA.jl#1229](https://github.com/JuliaGPU/CUDA.jl/issues/1229)). A copy that does not block is recorded, and the reader \
             finds whatever was in its memory before; a later replay then writes there, used for \
             something else or not.";
        read_into_while_recording:
            "A result read into the caller's memory inside the window.",
            "The copy is recorded with the address of that memory. At the replay the memory is gone or \
             serves something else, and the device writes there all the same \
             ([huggingface/candle#3352](https://github.com/huggingface/candle/issues/3352) is the same with a copy to the device).";
        profile_while_recording:
            "Work timed inside the window.",
            "Where the clock is stopped without waiting, the time is that of recording, which says \
             nothing; where it waits, the capture breaks. Timing events that were recorded in a window \
             cannot be asked outside it.";
        completion_while_recording:
            "A point to wait for, marked inside the window.",
            "An event that was recorded in a window stands for a node of the graph and not for work that \
             is under way, so asking it is an error and breaks captures that are open: a thread that \
             polls such events brought down whole jobs ([pytorch/pytorch#104487](https://github.com/pytorch/pytorch/issues/104487), \
             [sgl-project/sglang#29235](https://github.com/sgl-project/sglang/issues/29235)).";
        replay_while_recording:
            "A graph replayed on a stream whose window is open.",
            "A graph cannot be launched into a stream that captures: the driver refuses and breaks the \
             capture. In [microsoft/onnxruntime#32081](https://github.com/microsoft/onnxruntime/issues/32081) the clean-up after that ended the process.";
        graph_read_while_recording:
            "What a replay left, read on a stream whose window is open.",
            "The read has to wait for the replay, and a wait on this stream breaks its capture. \
             [NVIDIA/warp#653](https://github.com/NVIDIA/warp/issues/653) is such a read, inside a capture.";
        read_inside_capture:
            "A result read by the captured code.",
            "Code that looks at a result to decide what comes next cannot be recorded: a graph takes the \
             way that was taken once. Where the read is let through, the decision is made on old bytes, \
             and every replay repeats it.";
        synchronize_inside_capture:
            "The device waited for by the captured code.",
            "The wait breaks the capture, or waits for work that was recorded and never ran. The call is \
             often one that was left in for debugging: [JuliaGPU/CUDA.jl#1229](https://github.com/JuliaGPU/CUDA.jl/issues/1229) is such a wait in a copy.";
        replay_inside_capture:
            "A graph replayed by the captured code.",
            "The launch of a graph is not a command that can be recorded, and fails inside the window \
             ([microsoft/onnxruntime#32081](https://github.com/microsoft/onnxruntime/issues/32081)).";
        waits_in_any_phase:
            "A function for streams in any phase that waits on them.",
            "A helper that flushes or waits is called from everywhere, sooner or later from inside a \
             window, and breaks the capture of a caller who does not know that it waits \
             ([microsoft/onnxruntime#15002](https://github.com/microsoft/onnxruntime/issues/15002)).";
    }

    /// Streams, recordings and graphs on more than one thread.
    ///
    /// A stream is used by one thread at a time and may move between threads; a recording moves only
    /// where the driver may close a window on another thread than the one that opened it. A graph may
    /// move, and is replayed by one thread at a time. `Third` in the programs below is a backend written
    /// for the tests; with `true` its windows stay on their thread, as those of CUDA do.
    threads {
        stream_shared_by_two_threads:
            "One stream used by two threads.",
            "Two threads that issue into one window have no order, so the graph is another one each time. \
             On CUDA a call from another thread can break the window as a whole: [ggml-org/llama.cpp#11804](https://github.com/ggml-org/llama.cpp/issues/11804), \
             [NVIDIA/TensorRT#2888](https://github.com/NVIDIA/TensorRT/issues/2888).";
        commands_sent_to_another_thread:
            "Commands lent to another thread.",
            "As with a shared stream: the order of the recording is left to chance, and a call of the other \
             thread can break the window ([NVIDIA/TensorRT#2888](https://github.com/NVIDIA/TensorRT/issues/2888)).";
        graph_replayed_by_two_threads:
            "One graph replayed by two threads at once.",
            "An executable graph is not safe to launch from two threads, and two runs of it write the same \
             scratch and the same outputs. The results are mixed, with no error: in \
             [microsoft/onnxruntime#17355](https://github.com/microsoft/onnxruntime/issues/17355) a graph made for one thread was run from others, and crashed.";
        graph_read_by_two_threads:
            "One graph's result read by two threads at once.",
            "Both threads wait and copy into the same place. Who comes second finds half of what the first \
             one wrote.";
        pinned_recording_sent_to_another_thread:
            "A recording carried to another thread than its driver allows.",
            "CUDA closes a thread's window only on that thread, and otherwise answers `WRONG_THREAD` and \
             leaves the stream capturing, so it can neither be ended nor used. Pools of threads that hand \
             streams around meet this: [microsoft/onnxruntime#28002](https://github.com/microsoft/onnxruntime/issues/28002) warns of it.";
        pinned_recording_held_across_await:
            "An open window held across an `.await` of a task that may change its thread.",
            "The task goes on on another thread, sometimes, and then the window cannot be closed. With few \
             tasks it works, and with load it fails.";
        commands_held_across_await:
            "Commands borrowed across an `.await`.",
            "The borrow would be used by whichever thread polls next, while the order of one stream depends \
             on there being one. Streams may be owned across an `.await`; commands are for the code between.";
        kept_value_that_stays_on_its_thread:
            "A value kept by a graph that must stay on its thread.",
            "A graph goes on whichever thread drops it last, and what it kept goes with it. A count that is \
             not atomic then loses an update, and the value is freed twice or never.";
    }

    /// A stream used after its transition, commands that outlive theirs, results that change under the
    /// reader.
    ///
    /// A transition takes the stream and gives it back in another phase, so the old name is gone.
    /// Commands are borrowed from their stream. What `graph.read` gives borrows the graph.
    ownership {
        stream_used_after_prepare:
            "A stream used after `prepare` took it.",
            "Two handles, of which one believes that no capture is under way: what it issues is part of a \
             warm-up that does not expect it, and the recording differs from that.";
        stream_used_after_begin:
            "A prepared stream used after `begin` took it.",
            "There is one driver stream, so what the old handle issues is recorded too. A write of the next \
             input becomes a node of the graph, and every replay writes that input again \
             ([tracel-ai/burn#5779](https://github.com/tracel-ai/burn/issues/5779): values of the host that were frozen into a graph).";
        stream_used_after_end:
            "A recording used after `end` sealed it.",
            "The command runs now, at once, where its author thinks it is recorded. The graph lacks it, with \
             no error.";
        stream_used_after_abort:
            "A capture ended after it was given up.",
            "The second call closes a window that is closed. The driver's error for that is kept, and told \
             to whoever calls next (cudarc#590).";
        stream_used_after_capture:
            "A stream used under its old name after `capture`.",
            "Nothing would go wrong on the device; but a name that stays valid is one that can be used \
             while the capture is under way, by the captured code too.";
        stream_cloned:
            "A second handle to one stream.",
            "One handle records while the other one waits, reads or frees on the same driver stream, which \
             breaks the capture. Where a stream is a shared handle, nothing keeps two parts of a program from \
             this.";
        streams_swapped:
            "The insides of two streams exchanged.",
            "Each stream would then have the other's phase: one that is recording waits, and one that is \
             idle is ended. The commands are lent out for reading only, so they cannot be exchanged.";
        commands_taken_from_stream:
            "Commands moved out of their stream.",
            "Commands without their stream have no phase and no guard, so nobody would close their window: \
             a failed end that nobody cleans up leaves a stream capturing for good ([NVIDIA/warp#1957](https://github.com/NVIDIA/warp/issues/1957)).";
        commands_kept_past_end:
            "Commands of a recording used when it has ended.",
            "They are recorded nowhere, and run at once on memory that the graph owns now, between two \
             replays or during one.";
        commands_carried_out_of_capture:
            "Commands carried out of the captured code.",
            "What is issued later goes into no graph, or into the next one that the same stream records.";
        prepare_ignored:
            "The stream that `prepare` gives back ignored.",
            "Where phases are flags, a stream that is left prepared goes on holding its memory and counts \
             as capturing for ever: nothing is freed, since somebody might be recording. Here it ends when \
             it is dropped, and the compiler says that it is dropped.";
        capture_ignored:
            "What `capture` gives back ignored.",
            "The recorded run does nothing, so code that ignores the graph has computed the warm-up only, \
             and its second result is the first one.";
        graph_ignored:
            "A recorded graph ignored.",
            "To record is not to run. Outputs keep what they held before, and look like results.";
        replay_while_result_is_read:
            "A graph replayed while its result is looked at.",
            "The output of a graph is the same memory at each replay, so a result that was not copied \
             changes under its reader. It is the best known fault of captured code: \
             [pytorch/pytorch#104435](https://github.com/pytorch/pytorch/issues/104435), [pytorch/pytorch#148439](https://github.com/pytorch/pytorch/issues/148439).";
        result_outlives_graph:
            "A result looked at when its graph is gone.",
            "The memory goes back to the pool with the graph, and is somebody else's: a use after free, \
             which safe code could reach in [NVlabs/cutile-rs#270](https://github.com/NVlabs/cutile-rs/issues/270).";
        read_as_other_elements:
            "A buffer read as another type of elements.",
            "The bytes are those of the other type, and nothing says so: numbers come out that look like \
             rubbish, or worse, like numbers.";
        download_read_as_other_elements:
            "A download read as another type of elements.",
            "As with a buffer: the bytes are taken for what they are not.";
    }

    /// What a kernel captures, and which buffers it is given.
    ///
    /// A recorded kernel runs at every replay, on any thread, when the function that launched it has
    /// long returned: it owns what it captured, keeps no state, and uses the memory that its launch
    /// names.
    launches {
        kernel_borrows_a_local:
            "A kernel that borrows a variable of its function.",
            "The graph keeps the address, and the replay reads memory that is gone: \
             [huggingface/candle#3352](https://github.com/huggingface/candle/issues/3352) is a recorded copy from host memory that had been freed.";
        kernel_keeps_state:
            "A kernel that keeps state between its runs.",
            "A graph of a device repeats what was recorded; host code of a kernel does not run again, so \
             its state stands still. Counters that were kept on the host froze in [tracel-ai/burn#5779](https://github.com/tracel-ai/burn/issues/5779).";
        kernel_captures_a_stream:
            "A kernel that issues commands.",
            "A function that runs in a stream and calls the device waits for itself. CUDA forbids calls of \
             its own inside host functions, and answers with an error or not at all.";
        kernel_captures_an_rc:
            "A kernel that captures an `Rc`.",
            "The graph is replayed and dropped on any thread, and the count of an `Rc` is not atomic: the \
             value is freed twice or never.";
        kernel_keeps_a_slice:
            "A kernel that keeps the slice it was given.",
            "The memory is reused as soon as the kernel is done, so the slice shows what other commands \
             write there. Pointers that outlive their launch are the most common fault of graphs: \
             [NVlabs/cutile-rs#270](https://github.com/NVlabs/cutile-rs/issues/270).";
        kernel_writes_what_it_reads:
            "A kernel that writes a buffer it should only read.",
            "The order between streams is made from what launches declare. A write that nobody knows of \
             races with every other reader, and no error tells.";
        kernel_takes_too_few_buffers:
            "A kernel with another number of buffers than its launch.",
            "A driver takes an array of pointers and does not know how many the kernel reads. It reads on \
             past the end, and uses what is there as an address.";
        kernel_bound_to_a_name_first:
            "A closure bound to a name before it is launched.",
            "Nothing goes wrong on a device: this is about the compiler, which infers that a closure works \
             for slices of every lifetime only where it sees the launch. Write the closure in the call, or \
             the type of its parameter, or a function.";
        buffer_launched_without_access:
            "A buffer in a launch that does not say how it is used.",
            "Without knowing who reads and who writes, nobody can keep two streams in order, or tell which \
             outputs a failed launch has left as they were.";
        launch_without_accesses:
            "A launch that uses no memory.",
            "It could have no result, and a graph of it nothing to own. Where a kernel finds its memory by \
             other ways, the graph does not keep that alive ([kekzl/imp#1648](https://github.com/kekzl/imp/issues/1648): an address baked into a graph).";
        nine_accesses:
            "A launch of more than eight buffers.",
            "Nothing: eight is the limit of this crate, so that the types of the slices can be inferred.";
        buffer_of_another_backend:
            "A buffer of another backend in a launch.",
            "An address of one device is a number to the other. With luck it is not mapped; else the kernel \
             writes into memory of its own device. Devices that are mixed up in a capture break it: \
             [pytorch/pytorch#87794](https://github.com/pytorch/pytorch/issues/87794).";
        copy_from_another_backend:
            "A buffer copied from another backend's memory.",
            "A copy between devices needs both drivers, and one wait between them. A driver that is given \
             the other's address copies from somewhere else.";
        graph_of_another_backend:
            "A graph replayed on a stream of another backend.",
            "A graph is an object of the driver that sealed it: another one takes the handle for one of its \
             own. Captures that mix devices fail far from the mistake ([pytorch/pytorch#87794](https://github.com/pytorch/pytorch/issues/87794)).";
        elements_that_are_not_plain:
            "Elements of which not every pattern of bytes is a value.",
            "A kernel may leave any bytes in a buffer. A `bool` that is 2 is undefined behaviour, in code \
             that only looks at it.";
        elements_on_the_heap:
            "Elements whose bytes are elsewhere.",
            "The device would get addresses of the host. What it writes over them is freed later, as if it \
             were memory.";
        custom_command_on_the_host:
            "A command of one's own on the host backend.",
            "Such a command reaches the driver stream itself, so it is for the crate that owns the driver. \
             From outside it could wait or free in a window, which breaks it ([pytorch/pytorch#159594](https://github.com/pytorch/pytorch/issues/159594): a \
             free inside a capture).";
    }

    /// Phases, tokens, records and accesses of one's own making.
    ///
    /// The order holds because nobody can go around it. Phases are sealed, streams are made without a
    /// capture, the device record is written by the crate's transitions, and a backend's functions take
    /// tokens that only the crate makes: anybody can implement [`Backend`](crate::Backend), and nobody
    /// can call it.
    sealed {
        phase_of_your_own:
            "A fourth phase.",
            "A phase says what a driver is doing. One that no driver knows would let a stream wait, end or \
             change its thread while its window is open.";
        stream_in_a_made_up_phase:
            "A stream of a phase that there is not.",
            "As with a fourth phase: what the stream may do would be unknown, to the crate and to the reader.";
        recording_may_wait:
            "A recording declared able to wait.",
            "Every wait in a window breaks its capture, whoever declared it harmless \
             ([microsoft/onnxruntime#15002](https://github.com/microsoft/onnxruntime/issues/15002)).";
        pinned_recording_declared_free:
            "A recording declared free to change its thread.",
            "The driver does not ask what was declared: it refuses to close the window on another thread, and \
             the stream stays in it. A backend that can promise otherwise says so once, for its driver, by \
             `EndsAnywhere`.";
        recording_opened_by_hand:
            "A stream opened in phase `Recording`.",
            "The type would say recording, and the driver would not: every command runs at once, and `end` \
             seals nothing.";
        stream_taken_apart:
            "A stream put together from another's insides.",
            "The phase would be whatever its author wrote, and no longer what the driver is doing.";
        record_written_from_outside:
            "The device record written from outside.",
            "Memory goes back to the driver only while nobody records. A capture in the record that there is \
             not holds all of it up; one that is missing lets a free into an open window \
             ([pytorch/pytorch#159594](https://github.com/pytorch/pytorch/issues/159594)).";
        record_of_another_backend:
            "One backend given the record of another.",
            "Each of the two would wait for windows of the other, and free in its own.";
        backend_called_by_hand:
            "A backend's `begin` called by hand.",
            "The driver records, and stream and record do not know. Waits and frees then hit an open window, \
             and nobody closes it ([NVIDIA/warp#1957](https://github.com/NVIDIA/warp/issues/1957): a stream that stays capturing for good).";
        token_forged:
            "A token put together by hand.",
            "As with a call by hand: the driver's window would open behind the back of the stream.";
        token_made:
            "A token made as the crate makes it.",
            "As with a token put together by hand.";
        custom_command_opens_a_window:
            "A custom command that opens a window.",
            "A command that begins a capture takes all that comes after it into a window that no phase tells \
             of; the two merge and break ([pytorch/pytorch#191827](https://github.com/pytorch/pytorch/issues/191827) is such a case).";
        token_kept_past_its_command:
            "A token kept when its command is over.",
            "It would reach the driver stream at any time, in a window that was opened since: a wait or a \
             free then breaks that capture.";
        token_of_another_backend:
            "A token passed on to another backend.",
            "A third backend could open windows on a device that is not its own, whose streams know nothing \
             of it.";
        driver_reached_past_the_stream:
            "The driver stream taken out of its stream.",
            "Calls of the driver's own are not compared, not ordered and not counted, and the ones that wait \
             break the window ([JuliaGPU/CUDA.jl#1229](https://github.com/JuliaGPU/CUDA.jl/issues/1229): a wait inside a copy did).";
        kernel_run_by_hand:
            "A kernel run past the commands.",
            "It would run during other commands on the same memory, with no order between them.";
        access_of_your_own:
            "A type declared to be an access.",
            "Memory that is used and not named is not kept by the graph, and not ordered between streams: \
             use after free, and races ([NVlabs/cutile-rs#270](https://github.com/NVlabs/cutile-rs/issues/270)).";
        graph_taken_apart:
            "A graph looked into, for what it owns.",
            "The executable would outlive the memory that it writes to. In [beehive-lab/TornadoVM#1006](https://github.com/beehive-lab/TornadoVM/issues/1006) graphs \
             ran over buffers that had been exchanged, with wrong results and no error.";
    }
}
