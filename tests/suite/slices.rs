//! Rule M12: a slice of a buffer is a buffer.

use graph_capture::{Buffer, Error};

use super::{Bench, Lab, bench};

/// Five numbers, 0 to 4.
fn five<B: Lab>(stream: &graph_capture::Commands<B>) -> Buffer<f32, B> {
    stream.upload(&[0.0, 1.0, 2.0, 3.0, 4.0]).unwrap()
}

/// Wherever a buffer is.
pub fn a_slice_is_accepted_wherever_a_buffer_is<B: Lab>() {
    let Bench { stream, x, y, .. } = bench::<B>();
    let all = five(&stream);
    let middle = all.slice(1..3).unwrap();
    assert_eq!(middle.len(), 2);
    assert_eq!(stream.read(&middle).unwrap(), [1.0, 2.0]);
    stream.write(&middle, &[8.0, 9.0]).unwrap();
    B::add(&stream, &middle, &y, 1.0).unwrap();
    assert_eq!(stream.read(&y).unwrap(), [9.0, 10.0]);
    stream.copy(&x, &middle).unwrap();
    assert_eq!(stream.read(&all).unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0]);
    stream.fill(&all.slice(3..).unwrap(), 7.0).unwrap();
    assert_eq!(stream.read(&all).unwrap(), [0.0, 1.0, 2.0, 7.0, 7.0]);
    stream.check(&middle).unwrap();
}

/// In a recording too, at its place.
pub fn a_recording_uses_the_slice_at_its_place<B: Lab>() {
    let Bench { stream, x, .. } = bench::<B>();
    let all = five(&stream);
    let (tail, head) = (all.slice(3..).unwrap(), all.slice(..2).unwrap());
    let (stream, mut graph, out) = stream
        .capture(|c| {
            B::add(c, &x, &tail, 10.0)?;
            c.copy(&tail, &head)?;
            c.download(&all.slice(1..=3).unwrap())
        })
        .unwrap();
    stream.fill(&all, 0.0).unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(stream.read(&all).unwrap(), [11.0, 12.0, 0.0, 11.0, 12.0]);
    assert_eq!(graph.read(&out, &stream).unwrap(), [12.0, 0.0, 11.0]);
}

/// It keeps all of the memory.
pub fn a_slice_keeps_the_memory_alive<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let part = five(&stream).slice(2..4).unwrap();
    let noise: Vec<_> = (0..4).map(|_| five(&stream)).collect();
    assert_eq!(stream.read(&part).unwrap(), [2.0, 3.0]);
    drop(noise);
}

/// Slices of slices count from their own beginning.
pub fn a_slice_of_a_slice_counts_from_its_own_beginning<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let inner = five(&stream).slice(1..).unwrap().slice(1..3).unwrap();
    assert_eq!(stream.read(&inner).unwrap(), [2.0, 3.0]);
}

/// Overlap with a write is refused; slices apart, and reads that overlap, are not.
pub fn slices_that_overlap_are_refused_where_one_is_written<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let all = five(&stream);
    let part = |range: std::ops::Range<usize>| all.slice(range).unwrap();
    for (from, to) in [
        (0..2, 1..3),
        (1..3, 0..2),
        (0..2, 0..2),
        (0..4, 1..2),
        (2..3, 0..5),
    ] {
        let error = B::add(&stream, &part(from.clone()), &part(to.clone()), 1.0).unwrap_err();
        assert!(
            matches!(error, Error::Aliased { .. }),
            "{from:?} {to:?}: {error:?}"
        );
        stream.write(&all, &[0.0, 1.0, 2.0, 3.0, 4.0]).unwrap();
    }
    B::add(&stream, &part(0..2), &part(2..4), 10.0).unwrap();
    stream.copy(&part(3..5), &part(1..3)).unwrap();
    B::accumulate(&stream, &part(4..5), &part(0..1)).unwrap();
    assert_eq!(stream.read(&all).unwrap(), [4.0, 11.0, 4.0, 11.0, 4.0]);
}

/// Bad ranges, by name.
pub fn a_slice_that_does_not_lie_in_its_buffer_is_refused_by_name<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let all = five(&stream);
    #[expect(clippy::reversed_empty_ranges, reason = "that is the point")]
    let bad = [0..6, 6..7, 3..2, usize::MAX - 1..usize::MAX, 0..usize::MAX];
    for range in bad {
        let error = all.slice(range.clone()).unwrap_err();
        assert!(
            matches!(error, Error::BadSlice { len: 5, .. }),
            "{range:?}: {error:?}"
        );
        assert!(error.to_string().contains("slices.rs"), "{error}");
    }
    assert!(matches!(
        all.slice(..=usize::MAX),
        Err(Error::BadSlice { .. })
    ));
    assert!(matches!(
        all.slice(2..2),
        Err(Error::ZeroLength { call: "slice", .. })
    ));
    let whole = (all.slice(..).unwrap(), all.slice(0..=4).unwrap());
    assert_eq!((whole.0.len(), whole.1.len()), (5, 5));
}

/// L9: another slice of the same buffer is another access.
pub fn another_slice_diverges<B: Lab>() {
    let Bench { stream, .. } = bench::<B>();
    let all = five(&stream);
    let mut run = 0;
    let refused = stream
        .capture(|c| {
            run += 1;
            c.fill(&all.slice(run..run + 2).unwrap(), 0.0)
        })
        .unwrap_err();
    let Error::Diverged {
        warm_up, recorded, ..
    } = refused.error()
    else {
        panic!("{refused:?}");
    };
    assert!(
        warm_up.contains("at 4..12") && recorded.contains("at 8..16"),
        "{refused:?}"
    );
}
