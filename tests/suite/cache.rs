//! `GraphCache`: from a key to a graph.

use graph_capture::server::{Cached, CachedGraph, GraphCache, GraphRef, StreamPool};
use graph_capture::{Buffer, Download, Error, StreamId};

use super::{Lab, panics, told};

const ME: StreamId = StreamId::new(1);

type Cache<B> = GraphCache<usize, Buffer<f32, B>, Download<f32>, B>;
type Kept<'c, B> = Cached<'c, Buffer<f32, B>, Download<f32>, B>;

fn pool<B: Lab>() -> StreamPool<B> {
    StreamPool::new(B::device(), 1).unwrap()
}

/// A graph over `len` numbers that adds one to each.
fn get<'c, B: Lab>(cache: &'c mut Cache<B>, pool: &mut StreamPool<B>, len: usize) -> Kept<'c, B> {
    cache.get_or_capture(
        pool,
        ME,
        len,
        |c| c.alloc(len),
        |c, x| {
            let y = c.alloc::<f32>(len)?;
            B::add(c, x, &y, 1.0)?;
            c.download(&y)
        },
    )
}

fn run<B: Lab>(
    pool: &mut StreamPool<B>,
    graph: &mut CachedGraph<Buffer<f32, B>, Download<f32>, B>,
    data: &[f32],
) -> Vec<f32> {
    pool.write(ME, graph.inputs(), data).unwrap();
    graph.replay(pool, ME).unwrap();
    graph.read(pool, ME, graph.outputs()).unwrap().to_vec()
}

/// The first call for a key captures, the others find it, and each input gets its own result.
pub fn a_key_is_captured_once<B: Lab>() {
    let (mut pool, mut cache) = (pool::<B>(), Cache::new(4, usize::MAX));
    for round in 0..3 {
        for len in [1, 3] {
            let cached = get(&mut cache, &mut pool, len);
            assert_eq!(matches!(cached, Cached::Captured(_)), round == 0);
            assert_eq!(matches!(cached, Cached::Hit(_)), round > 0);
            let data = vec![round as f32; len];
            let result = run(&mut pool, &mut cached.into_result().unwrap(), &data);
            assert_eq!(result, vec![round as f32 + 1.0; len]);
        }
    }
    let counts = cache.counts();
    let shown = [counts.hits, counts.misses, counts.failed, counts.evictions];
    assert_eq!(shown, [4, 2, 0, 0]);
    assert_eq!((counts.graphs, counts.never_replayed), (2, 0));
}

/// Bounded by number: the longest unused goes, and frees what it held.
pub fn the_graph_unused_for_longest_goes_first<B: Lab>() {
    let (mut pool, mut cache) = (pool::<B>(), Cache::new(2, usize::MAX));
    for len in [1, 2, 1, 3] {
        let mut graph = get(&mut cache, &mut pool, len).into_result().unwrap();
        run(&mut pool, &mut graph, &vec![0.0; len]);
    }
    assert!(matches!(get(&mut cache, &mut pool, 1), Cached::Hit(_)));
    assert!(matches!(get(&mut cache, &mut pool, 2), Cached::Captured(_)));
    let counts = cache.counts();
    assert_eq!((counts.evictions, counts.graphs), (2, 2));
    assert_eq!(
        counts.bytes,
        pool.memory().in_use + pool.memory().held_by_graphs
    );
}

/// Bounded by bytes; a graph that is larger than all of it is given away, and nothing goes for it.
pub fn a_graph_too_large_for_the_cache_is_not_kept<B: Lab>() {
    let mut pool = pool::<B>();
    let bytes = {
        let mut cache = Cache::new(9, usize::MAX);
        get(&mut cache, &mut pool, 10).into_result().unwrap();
        cache.counts().bytes
    };
    let mut cache = Cache::new(9, bytes);
    assert!(matches!(
        get(&mut cache, &mut pool, 10),
        Cached::Captured(_)
    ));
    let cached = get(&mut cache, &mut pool, 1000);
    assert!(matches!(cached, Cached::NotKept(_)), "{cached:?}");
    let GraphRef::Given(mut graph) = cached.into_result().unwrap() else {
        panic!("it was kept");
    };
    assert_eq!(run(&mut pool, &mut graph, &[1.0; 1000]), [2.0; 1000]);
    assert!(matches!(get(&mut cache, &mut pool, 10), Cached::Hit(_)));
    assert!(matches!(get(&mut cache, &mut pool, 9), Cached::Captured(_)));
    let counts = cache.counts();
    assert_eq!(
        (counts.not_kept, counts.evictions, counts.graphs),
        (1, 1, 1)
    );
    assert!(counts.bytes <= bytes);
    assert_eq!(counts.never_replayed, 2);
}

/// What a log shows of a cache and of its answers.
pub fn a_cache_says_what_it_has<B: Lab>() {
    let (mut pool, mut cache) = (pool::<B>(), Cache::<B>::new(4, 1000));
    let captured = format!("{:?}", get(&mut cache, &mut pool, 2));
    assert!(
        captured.starts_with("Captured(CachedGraph(Graph"),
        "{captured}"
    );
    let hit = format!("{:?}", get(&mut cache, &mut pool, 2));
    assert!(hit.starts_with("Hit("), "{hit}");
    let shown = format!("{cache:?}");
    assert!(shown.starts_with("GraphCache { graphs: 1"), "{shown}");
}

/// As many go as it takes, and no more.
pub fn room_is_made_for_one_graph_by_as_many_as_it_takes<B: Lab>() {
    let mut pool = pool::<B>();
    let bytes_of = |pool: &mut StreamPool<B>, len| {
        let mut cache = Cache::new(1, usize::MAX);
        get(&mut cache, pool, len).into_result().unwrap();
        cache.counts().bytes
    };
    let (small, large) = (bytes_of(&mut pool, 64), bytes_of(&mut pool, 128));
    let mut cache = Cache::new(9, small + large);
    // Of one size, by three keys.
    for key in [64, 65, 66] {
        let cached = cache.get_or_capture(
            &mut pool,
            ME,
            key,
            |c| c.alloc(64),
            |c, x| {
                let y = c.alloc::<f32>(64)?;
                B::add(c, x, &y, 1.0)?;
                c.download(&y)
            },
        );
        assert!(matches!(cached, Cached::Captured(_)));
    }
    assert!(matches!(
        get(&mut cache, &mut pool, 128),
        Cached::Captured(_)
    ));
    let counts = cache.counts();
    assert_eq!((counts.evictions, counts.graphs), (2, 2), "{counts:?}");
    assert_eq!(counts.bytes, small + large);
    assert!(cache.get(&66).is_some(), "the youngest went");
}

/// A capture that fails is not cached, says why, and the next call tries again.
pub fn a_failed_capture_is_not_cached<B: Lab>() {
    let (mut pool, mut cache) = (pool::<B>(), Cache::<B>::new(4, usize::MAX));
    let failed = cache.get_or_capture(
        &mut pool,
        ME,
        2,
        |c| c.alloc(2),
        |_, _| Err(Error::step("not today")),
    );
    let Cached::NotCaptured(error) = failed else {
        panic!("{failed:?}");
    };
    assert!(told(&error).contains("not today"));
    let failed = cache.get_or_capture(
        &mut pool,
        ME,
        2,
        |_| Err(Error::step("no input")),
        |_, _| unreachable!(),
    );
    assert!(matches!(failed, Cached::NotCaptured(_)));
    panics(|| {
        cache
            .get_or_capture(&mut pool, ME, 2, |c| c.alloc(2), |_, _| panic!())
            .into_result()
            .is_ok()
    });
    assert!(matches!(get(&mut cache, &mut pool, 2), Cached::Captured(_)));
    let counts = cache.counts();
    assert_eq!((counts.misses, counts.failed, counts.graphs), (4, 3, 1));
}

/// In a capture of somebody else nothing is captured and nothing runs; the caller sees why.
pub fn a_cache_captures_nothing_in_the_capture_of_another<B: Lab>() {
    let (mut pool, mut cache) = (pool::<B>(), Cache::<B>::new(4, usize::MAX));
    for owner in [ME, StreamId::new(2)] {
        pool.prepare(owner).unwrap();
        let cached =
            cache.get_or_capture(&mut pool, ME, 2, |_| unreachable!(), |_, _| unreachable!());
        let Cached::NotCaptured(error) = cached else {
            panic!("{cached:?}");
        };
        assert!(
            error.to_string().starts_with("capture of stream 1"),
            "{error}"
        );
        assert!(pool.abort(owner).unwrap().is_none());
    }
}

/// A look is a use; and all go at once, such as when the model is another.
pub fn a_cache_is_looked_into_and_cleared<B: Lab>() {
    let (mut pool, mut cache) = (pool::<B>(), Cache::new(2, usize::MAX));
    for len in [1, 2] {
        get(&mut cache, &mut pool, len).into_result().unwrap();
    }
    assert!(cache.get(&1).is_some() && cache.get(&3).is_none());
    get(&mut cache, &mut pool, 3).into_result().unwrap();
    assert!(cache.get(&1).is_some() && cache.get(&2).is_none());
    cache.clear();
    assert!(cache.get(&1).is_none());
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.misses, counts.graphs), (2, 3, 0));
    assert_eq!((counts.never_replayed, counts.bytes), (3, 0));
}

/// A graph is taken out by its key.
pub fn a_key_can_be_removed<B: Lab>() {
    let (mut pool, mut cache) = (pool::<B>(), Cache::new(4, usize::MAX));
    get(&mut cache, &mut pool, 2).into_result().unwrap();
    assert!(cache.remove(&2) && !cache.remove(&2));
    assert_eq!(
        (cache.counts().graphs, cache.counts().never_replayed),
        (0, 1)
    );
    assert_eq!(pool.memory().in_use + pool.memory().held_by_graphs, 0);
}
