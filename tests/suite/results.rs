//! Results out of a graph (downloads), waiting (`completion`, `profile`), looking at a graph, and
//! warm-ups of several passes (L15).

use std::time::Duration;

use graph_capture::{Commands, Error, NodeKind, Stream};

use super::{Bench, Lab, bench, told};

/// A download is a copy as of its place in the recording.
pub fn a_download_holds_what_the_buffer_held_at_its_place<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let (stream, mut graph, (early, late)) = stream
        .capture(|c| {
            B::add(c, &x, &y, 1.0)?;
            let early = c.download(&y)?;
            c.fill(&y, 9.0)?;
            Ok((early, c.download(&y)?))
        })
        .unwrap();
    assert_eq!((early.len(), late.len()), (2, 2));
    for add in [0.0, 10.0] {
        stream.write(&x, &[add, add + 1.0]).unwrap();
        graph.replay(&stream).unwrap();
        stream.fill(&y, 0.0).unwrap();
        assert_eq!(graph.read(&early, &stream).unwrap(), [add + 1.0, add + 2.0]);
        assert_eq!(graph.read(&late, &stream).unwrap(), [9.0, 9.0]);
    }
}

/// It may be read on another stream than the one that replayed.
pub fn a_download_is_read_on_any_stream_of_the_device<B: Lab>() {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench::<B>();
    let (stream, mut graph, out) = stream
        .capture(|c| {
            B::add(c, &x, &y, 1.0)?;
            c.download(&y)
        })
        .unwrap();
    graph.replay(&stream).unwrap();
    let other = Stream::on(&device).unwrap();
    assert_eq!(graph.read(&out, &other).unwrap(), [2.0, 3.0]);
}

/// Not yet replayed, of another graph, of a warm-up, of another device: by name.
pub fn a_download_that_cannot_be_read_is_refused_by_name<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let mut warm_up = None;
    let (stream, mut graph, out) = stream
        .capture(|c| {
            c.fill(&x, 1.0)?;
            let out = c.download(&x)?;
            warm_up.get_or_insert(out.clone());
            Ok(out)
        })
        .unwrap();
    let refused = graph.read(&out, &stream).unwrap_err();
    assert!(matches!(refused, Error::NotReplayed), "{refused:?}");

    graph.replay(&stream).unwrap();
    let of_warm_up = graph.read(&warm_up.unwrap(), &stream).unwrap_err();
    assert!(
        matches!(of_warm_up, Error::ForeignDownload { .. }),
        "{of_warm_up:?}"
    );
    let outside = stream.download(&x).unwrap();
    assert!(matches!(
        graph.read(&outside, &stream),
        Err(Error::ForeignDownload { .. })
    ));
    let (stream, other, _) = stream
        .capture(|c| {
            c.fill(&x, 2.0)?;
            c.download(&x)
        })
        .unwrap();
    let of_other = other.read(&out, &stream).unwrap_err();
    assert!(told(&of_other).contains("results.rs"), "{of_other}");

    let foreign = Stream::on(&B::device()).unwrap();
    let elsewhere = graph.read(&out, &foreign).unwrap_err();
    assert!(
        matches!(elsewhere, Error::OtherDevice { .. }),
        "{elsewhere:?}"
    );
    assert_eq!(graph.read(&out, &stream).unwrap(), [1.0, 1.0]);
}

/// M2: nothing that the window allocates later takes the memory of a download.
pub fn a_download_keeps_its_memory_in_the_window<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let (stream, mut graph, out) = stream
        .capture(|c| {
            let out = c.download(&x)?;
            let scratch = c.alloc(2)?;
            B::add(c, &x, &scratch, 40.0)?;
            B::add(c, &scratch, &y, 0.0)?;
            Ok(out)
        })
        .unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(graph.read(&out, &stream).unwrap(), [1.0, 2.0]);
}

/// Elements of any size.
pub fn a_download_gives_elements_of_any_size<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let odd = stream.upload(&[[1u8, 2, 3], [4, 5, 6]]).unwrap();
    let wide = stream.upload(&[u128::MAX, 7]).unwrap();
    let (stream, mut graph, (odd, wide)) = stream
        .capture(|c| Ok((c.download(&odd)?, c.download(&wide)?)))
        .unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(graph.read(&odd, &stream).unwrap(), [[1, 2, 3], [4, 5, 6]]);
    assert_eq!(graph.read(&wide, &stream).unwrap(), [u128::MAX, 7]);
}

/// A completion is done when the work before it is, and can be waited for.
pub fn a_completion_is_done_when_the_work_before_it_is<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let completion = stream.completion().unwrap();
    let elsewhere = completion.clone();
    drop(stream);
    assert!(elsewhere.wait(Duration::from_secs(60)).unwrap());
    assert!(completion.is_done().unwrap());
    assert!(completion.wait(Duration::ZERO).unwrap());
}

/// `profile` runs its work, hands out its result, and measures.
pub fn profile_times_its_work_and_hands_out_its_result<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let (seven, time) = stream
        .profile(|c| {
            B::add(c, &x, &y, 1.0)?;
            Ok(7)
        })
        .unwrap();
    assert_eq!(seven, 7);
    assert!(time < Duration::from_secs(60));
    assert_eq!(stream.read(&y).unwrap(), [2.0, 3.0]);
    let failed = stream.profile(|c| c.write(&x, &[]));
    assert!(matches!(failed, Err(Error::LengthMismatch { .. })));
}

/// L15: the last pass is the one that the recording must equal.
pub fn the_last_warm_up_pass_is_the_one_compared<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let mut pass = 0;
    let (stream, mut graph, passes) = stream
        .capture_with(3, |c| {
            pass += 1;
            if pass < 3 {
                // Tries out, as the first passes do.
                let scratch = c.alloc(2)?;
                B::add(c, &x, &scratch, 1.0)?;
            }
            B::add(c, &x, &y, 1.0)?;
            Ok(pass)
        })
        .unwrap();
    assert_eq!(passes, 4);
    assert_eq!(graph.len(), 1);
    graph.replay(&stream).unwrap();
}

/// L14, L15: a failed pass is forgotten by the next; no pass at all is no warm-up.
pub fn a_pass_that_failed_may_be_repeated<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let stream = stream.prepare().unwrap();
    let _ = stream.write(&y, &[]);
    let stream = stream.again();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    B::add(&stream, &x, &y, 1.0).unwrap();
    let (stream, _graph) = stream.end().unwrap();
    let refused = stream.prepare().unwrap().again().begin().unwrap_err();
    assert!(
        matches!(refused.error(), Error::NoWarmUp { .. }),
        "{refused:?}"
    );
    let none = refused
        .into_stream()
        .capture_with(0, |c| B::add(c, &x, &y, 1.0));
    assert!(matches!(none.unwrap_err().error(), Error::NoWarmUp { .. }));
}

fn looked_at<B: Lab>(c: &Commands<B>) -> Result<(), Error> {
    let x = c.upload(&[1.0, 2.0])?;
    let y = c.alloc(2)?;
    B::add(c, &x, &y, 1.0)?;
    B::accumulate(c, &x.slice(..1).unwrap(), &y.slice(1..).unwrap())?;
    c.download(&y)?;
    Ok(())
}

/// A graph lists its commands, and what each reads and writes.
pub fn a_graph_lists_its_commands_and_what_they_touch<B: Lab>() {
    let (_stream, graph, ()) = bench::<B>().stream.capture(looked_at).unwrap();
    let kinds: Vec<_> = graph.nodes().map(|node| node.kind()).collect();
    assert_eq!(
        kinds,
        [
            NodeKind::Upload,
            NodeKind::Alloc,
            NodeKind::Launch,
            NodeKind::Launch,
            NodeKind::Download
        ]
    );
    let names: Vec<_> = graph.nodes().map(|node| node.name()).collect();
    assert_eq!(names, ["upload", "alloc", "add", "accumulate", "download"]);
    let accumulate = graph.nodes().nth(3).unwrap();
    let touched: Vec<_> = accumulate
        .accesses()
        .map(|access| (access.buffer, access.bytes, access.reads, access.writes))
        .collect();
    assert_eq!(touched, [(0, 0..4, true, false), (1, 4..8, true, true)]);
    assert!(accumulate.location().file().ends_with("results.rs"));
    assert_eq!(
        graph.to_string(),
        "0: upload writes 0\n\
         1: alloc writes 1\n\
         2: launch `add` reads 0, writes 1\n\
         3: launch `accumulate` reads 0, reads and writes 1\n\
         4: download reads 1, writes 2\n"
    );
}

/// And draws them, with an edge where one uses what another left.
pub fn a_graph_draws_itself<B: Lab>() {
    let (_stream, graph, ()) = bench::<B>().stream.capture(looked_at).unwrap();
    let dot = graph.to_dot();
    assert!(dot.starts_with("digraph") && dot.ends_with("}\n"), "{dot}");
    for line in [
        r#"n2 [label="2: launch `add`\nreads 0, writes 1"];"#,
        "n0 -> n2 [label=\"0\"];",
        "n1 -> n2 [label=\"1\"];",
        "n0 -> n3 [label=\"0\"];",
        "n2 -> n3 [label=\"1\"];",
        "n3 -> n4 [label=\"1\"];",
    ] {
        assert!(dot.contains(line), "{line} is missing: {dot}");
    }
    assert_eq!(dot.matches("->").count(), 5, "{dot}");
}
