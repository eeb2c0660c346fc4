//! What the driver knows: contexts and all that lives in them.

use std::alloc::Layout;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::capture::Capture;
use crate::code;
use crate::control::Kind;
use crate::run::{Op, Work};

pub(crate) type Code = u32;
pub(crate) type Done = Result<(), Code>;

/// All of it. Objects are known by numbers that are never used again.
pub(crate) struct Sim {
    next: usize,
    pub(crate) contexts: HashMap<usize, Context>,
    pub(crate) streams: HashMap<usize, Stream>,
    pub(crate) events: HashMap<usize, Event>,
    pub(crate) graphs: HashMap<usize, Graph>,
    pub(crate) executables: HashMap<usize, Executable>,
    pub(crate) modules: HashMap<usize, Module>,
    pub(crate) functions: HashMap<usize, Function>,
    pub(crate) captures: HashMap<usize, Capture>,
    pub(crate) device_memory: BTreeMap<usize, Allocation>,
    pub(crate) pinned: BTreeMap<usize, Allocation>,
}

pub(crate) struct Context {
    pub(crate) device: i32,
    /// How often it is retained, where it is the device's primary one.
    pub(crate) primary: Option<usize>,
    pub(crate) legacy: usize,
    pub(crate) per_thread: HashMap<u64, usize>,
    /// What its work failed with: for good, as D says of such codes.
    pub(crate) poison: Option<Code>,
    pub(crate) limit: usize,
    pub(crate) allocated: usize,
    /// How many objects there are, by [`Kind`].
    pub(crate) live: [usize; Kind::COUNT],
}

pub(crate) struct Stream {
    pub(crate) context: usize,
    /// Whether it is in order with the legacy stream.
    pub(crate) blocking: bool,
    pub(crate) queue: VecDeque<Work>,
    pub(crate) submitted: u64,
    pub(crate) done: u64,
    pub(crate) capture: Option<usize>,
    /// Destroyed: its work still runs.
    pub(crate) destroyed: bool,
}

pub(crate) struct Event {
    pub(crate) context: usize,
    pub(crate) mark: Mark,
    pub(crate) asked: bool,
}

/// What was recorded in an event last.
#[derive(Clone)]
pub(crate) enum Mark {
    Nothing,
    /// A place in the queue of a stream.
    Place(usize, u64),
    /// Nodes of a capture.
    Captured(usize, Vec<usize>),
}

pub(crate) struct Graph {
    pub(crate) context: usize,
    pub(crate) nodes: Arc<Vec<Node>>,
    /// The handles by which its nodes are known.
    pub(crate) handles: Vec<usize>,
}

pub(crate) struct Node {
    pub(crate) op: Op,
    /// `CUgraphNodeType`.
    pub(crate) kind: u32,
    pub(crate) after: Vec<usize>,
}

pub(crate) struct Executable {
    pub(crate) context: usize,
    pub(crate) nodes: Arc<Vec<Node>>,
    pub(crate) last: Option<(usize, u64)>,
}

pub(crate) struct Module {
    pub(crate) context: usize,
    pub(crate) entries: HashMap<String, Vec<usize>>,
}

pub(crate) struct Function {
    pub(crate) module: usize,
    pub(crate) name: String,
    pub(crate) parameters: Vec<usize>,
}

/// Memory of the host's heap.
pub(crate) struct Allocation {
    pub(crate) context: usize,
    layout: Layout,
    /// Of a graph: freed with it.
    pub(crate) of_graph: bool,
}

impl Allocation {
    pub(crate) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Frees the memory at `address`.
    pub(crate) fn free(self, address: usize) {
        // SAFETY: `Sim::allocate` got it with this layout, and the table held it once.
        unsafe { std::alloc::dealloc(address as *mut u8, self.layout) };
    }
}

static SIM: LazyLock<Mutex<Sim>> = LazyLock::new(|| {
    Mutex::new(Sim {
        next: 0x1000,
        contexts: HashMap::new(),
        streams: HashMap::new(),
        events: HashMap::new(),
        graphs: HashMap::new(),
        executables: HashMap::new(),
        modules: HashMap::new(),
        functions: HashMap::new(),
        captures: HashMap::new(),
        device_memory: BTreeMap::new(),
        pinned: BTreeMap::new(),
    })
});

pub(crate) fn lock() -> MutexGuard<'static, Sim> {
    SIM.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    pub(crate) static CURRENT: Cell<usize> = const { Cell::new(0) };
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// The calling thread.
pub(crate) fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if THREAD.get() == 0 {
        THREAD.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    THREAD.get()
}

impl Sim {
    pub(crate) fn id(&mut self) -> usize {
        self.next += 16;
        self.next
    }

    pub(crate) fn context(&mut self, id: usize) -> Result<&mut Context, Code> {
        self.contexts.get_mut(&id).ok_or(code::INVALID_CONTEXT)
    }

    /// The current context, whatever state it is in: to destroy things in.
    pub(crate) fn current_in_any_state(&self) -> Result<usize, Code> {
        let current = CURRENT.get();
        if self.contexts.contains_key(&current) {
            Ok(current)
        } else {
            Err(code::INVALID_CONTEXT)
        }
    }

    /// The current context; or the error that its work has failed with.
    pub(crate) fn current(&self) -> Result<usize, Code> {
        let current = self.current_in_any_state()?;
        self.contexts[&current].poison.map_or(Ok(current), Err)
    }

    pub(crate) fn new_context(&mut self, device: i32, primary: Option<usize>) -> usize {
        let id = self.id();
        let legacy = self.id();
        self.streams.insert(legacy, Stream::new(id, true));
        let context = Context {
            device,
            primary,
            legacy,
            per_thread: HashMap::new(),
            poison: None,
            limit: usize::MAX,
            allocated: 0,
            live: [0; Kind::COUNT],
        };
        self.contexts.insert(id, context);
        id
    }

    /// The stream of a handle. ? A stream of another context than the current one is refused.
    pub(crate) fn stream(&mut self, handle: usize) -> Result<usize, Code> {
        let current = self.current()?;
        let id = match handle {
            0 | 1 => self.contexts[&current].legacy,
            2 => self.per_thread(current),
            other => other,
        };
        match self.streams.get(&id) {
            Some(stream) if stream.context == current && !stream.destroyed => Ok(id),
            _ => Err(code::INVALID_HANDLE),
        }
    }

    fn per_thread(&mut self, context: usize) -> usize {
        let thread = thread();
        if let Some(&id) = self.contexts[&context].per_thread.get(&thread) {
            return id;
        }
        let id = self.id();
        self.streams.insert(id, Stream::new(context, true));
        if let Ok(context) = self.context(context) {
            context.per_thread.insert(thread, id);
        }
        id
    }

    pub(crate) fn event(&mut self, handle: usize) -> Result<&mut Event, Code> {
        self.events.get_mut(&handle).ok_or(code::INVALID_HANDLE)
    }

    /// Counts one object more, or less.
    pub(crate) fn count(&mut self, context: usize, kind: Kind, more: bool) {
        // An object may outlive its context.
        if let Some(context) = self.contexts.get_mut(&context) {
            let live = &mut context.live[kind as usize];
            *live = if more {
                *live + 1
            } else {
                live.saturating_sub(1)
            };
        }
    }

    /// Memory of the heap, of no particular content.
    pub(crate) fn allocate(
        &mut self,
        context: usize,
        bytes: usize,
        pinned: bool,
    ) -> Result<usize, Code> {
        let layout = Layout::from_size_align(bytes, 256).map_err(|_| code::OUT_OF_MEMORY)?;
        if bytes == 0 {
            return Err(code::INVALID_VALUE);
        }
        let sums = self.context(context)?;
        let fits = |sum: &usize| pinned || *sum <= sums.limit;
        let sum = sums
            .allocated
            .checked_add(if pinned { 0 } else { bytes })
            .filter(fits)
            .ok_or(code::OUT_OF_MEMORY)?;
        // SAFETY: the size is not 0.
        let memory = unsafe { std::alloc::alloc(layout) };
        if memory.is_null() {
            return Err(code::OUT_OF_MEMORY);
        }
        sums.allocated = sum;
        // SAFETY: it has just been allocated with that size.
        unsafe { memory.write_bytes(0xA5, bytes) };
        let allocation = Allocation {
            context,
            layout,
            of_graph: false,
        };
        let table = if pinned {
            &mut self.pinned
        } else {
            &mut self.device_memory
        };
        table.insert(memory as usize, allocation);
        Ok(memory as usize)
    }

    /// Frees memory at once, whatever uses it.
    pub(crate) fn free(&mut self, address: usize, pinned: bool) -> Done {
        let table = if pinned {
            &mut self.pinned
        } else {
            &mut self.device_memory
        };
        let allocation = table.remove(&address).ok_or(code::INVALID_VALUE)?;
        let (context, bytes) = (allocation.context, allocation.bytes());
        allocation.free(address);
        let kind = if pinned { Kind::Pinned } else { Kind::Memory };
        self.count(context, kind, false);
        if let (false, Some(context)) = (pinned, self.contexts.get_mut(&context)) {
            context.allocated = context.allocated.saturating_sub(bytes);
        }
        Ok(())
    }
}

impl Stream {
    pub(crate) fn new(context: usize, blocking: bool) -> Self {
        Self {
            context,
            blocking,
            queue: VecDeque::new(),
            submitted: 0,
            done: 0,
            capture: None,
            destroyed: false,
        }
    }
}
