//! Events that wait for their turn: a queue for each lane, and transactions that take what waits in many of them.
//!
//! A lane is in one transaction of this process at most, so what comes for it meanwhile goes together in the next one.

use std::{
    collections::VecDeque,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::FutureExt as _;
use inbox_runtime::internal::{Direct, DirectEvent};
use inbox_store::internal::port::Owners;
use tokio::sync::{Notify, oneshot};

use crate::{
    answer::Answer,
    run::run,
    ticket::{Pending, Slot, Ticket},
};

/// How much waits, and runs.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Transactions that are open at once.
    pub transactions_max: usize,
    /// Events of one transaction.
    pub batch_events_max: usize,
    /// Bytes of one transaction's events; a single larger event goes alone.
    pub batch_bytes_max: usize,
    /// Bytes of all events that wait or run.
    pub bytes_max: usize,
}

/// Why nothing more is taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closed {
    /// Too much waits already.
    Full,
    /// The process ends.
    Ending,
}

/// The queues.
#[derive(Debug)]
pub(crate) struct Queue<DB: Owners> {
    direct: Arc<Direct<DB>>,
    limits: QueueLimits,
    state: Mutex<State>,
    idle: Notify,
}

#[derive(Debug, Default)]
struct State {
    lanes: Vec<LaneQueue>,
    /// Lanes that wait for a transaction, each once, in the order in which they began to.
    ready: VecDeque<usize>,
    running: usize,
    bytes: usize,
    ending: bool,
}

#[derive(Debug, Default)]
struct LaneQueue {
    waiting: VecDeque<Pending>,
    busy: bool,
    is_ready: bool,
}

/// What goes into one transaction.
struct Portion {
    lanes: Vec<usize>,
    pending: Vec<Pending>,
    bytes: usize,
}

impl Portion {
    fn has_room(&self, bytes: usize, limits: &QueueLimits) -> bool {
        self.pending.is_empty()
            || (self.pending.len() < limits.batch_events_max
                && self.bytes + bytes <= limits.batch_bytes_max)
    }
}

impl<DB: Owners> Queue<DB> {
    pub(crate) fn new(direct: Arc<Direct<DB>>, limits: QueueLimits) -> Self {
        Self { direct, limits, state: Mutex::default(), idle: Notify::new() }
    }

    /// Takes the events of a request in, in their order; what comes back is answered when all of them are.
    pub(crate) fn submit(
        self: &Arc<Self>,
        events: Vec<DirectEvent>,
        wait: Duration,
    ) -> Result<oneshot::Receiver<Vec<Answer>>, Closed> {
        let aggregates = events.iter().map(DirectEvent::aggregate).collect();
        let (ticket, answers) = Ticket::new(aggregates, Instant::now() + wait);
        let bytes: usize = events.iter().map(DirectEvent::bytes).sum();
        let mut state = self.state();
        if state.ending {
            return Err(Closed::Ending);
        }
        if state.bytes > 0 && state.bytes + bytes > self.limits.bytes_max {
            return Err(Closed::Full);
        }
        state.bytes += bytes;
        for (place, event) in events.into_iter().enumerate() {
            let slot = Slot { ticket: Arc::clone(&ticket), place };
            state.wait(Pending { event, slot });
        }
        self.start(&mut state);
        Ok(answers)
    }

    /// Whether nothing more is taken in.
    pub(crate) fn is_ending(&self) -> bool {
        self.state().ending
    }

    /// Takes nothing more in, and waits until what was taken in is answered.
    pub(crate) async fn finish(&self) {
        loop {
            let idle = self.idle.notified();
            {
                let mut state = self.state();
                state.ending = true;
                if state.running == 0 && state.ready.is_empty() {
                    return;
                }
            }
            idle.await;
        }
    }

    /// Begins transactions, as many as may be open and as there is something for.
    fn start(self: &Arc<Self>, state: &mut State) {
        while state.running < self.limits.transactions_max.max(1) {
            let Some(portion) = state.next_portion(&self.limits) else { break };
            state.running += 1;
            let queue = Arc::clone(self);
            // A transaction runs to its end, whoever has gone away meanwhile.
            tokio::spawn(async move { queue.run(portion).await });
        }
        if state.running == 0 {
            self.idle.notify_waiters();
        }
    }

    async fn run(self: Arc<Self>, portion: Portion) {
        let Portion { lanes, pending, bytes } = portion;
        // Of a panic nobody is answered: those who wait send it again.
        drop(AssertUnwindSafe(run(&self.direct, pending)).catch_unwind().await);
        let mut state = self.state();
        state.running -= 1;
        state.bytes -= bytes;
        for lane in lanes {
            state.lanes[lane].busy = false;
            state.make_ready(lane);
        }
        self.start(&mut state);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wait(&mut self, pending: Pending) {
        let lane = usize::from(pending.event.lane());
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, LaneQueue::default);
        }
        self.lanes[lane].waiting.push_back(pending);
        self.make_ready(lane);
    }

    fn make_ready(&mut self, lane: usize) {
        let queue = &mut self.lanes[lane];
        if !queue.busy && !queue.is_ready && !queue.waiting.is_empty() {
            queue.is_ready = true;
            self.ready.push_back(lane);
        }
    }

    /// What the next transaction takes: whole lanes, in the order in which they began to wait.
    fn next_portion(&mut self, limits: &QueueLimits) -> Option<Portion> {
        let mut portion = Portion { lanes: Vec::new(), pending: Vec::new(), bytes: 0 };
        while let Some(lane) = self.ready.pop_front() {
            let queue = &mut self.lanes[lane];
            let before = portion.pending.len();
            while let Some(next) = queue.waiting.front()
                && portion.has_room(next.event.bytes(), limits)
            {
                portion.bytes += next.event.bytes();
                portion.pending.extend(queue.waiting.pop_front());
            }
            if portion.pending.len() == before {
                self.ready.push_front(lane);
                break;
            }
            (queue.is_ready, queue.busy) = (false, true);
            portion.lanes.push(lane);
        }
        // The order of a transaction is that of its lanes; within a lane it is as they came.
        portion.pending.sort_by_key(|pending| pending.event.lane());
        (!portion.lanes.is_empty()).then_some(portion)
    }
}
