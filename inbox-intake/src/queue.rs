//! The queue: requests wait for their turn, and transactions run that take many of them.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::FutureExt as _;
use inbox_runtime::internal::{Direct, DirectEvent};
use inbox_store::internal::port::Owners;
use tokio::sync::{Notify, oneshot};

use crate::{
    answer::Answer,
    lane_set::LaneSet,
    line::Line,
    portion::{Portion, QueueLimits, Queued},
    run::{LATE, run},
    ticket::{Pending, Slot, Ticket},
};

/// Transactions at work at once. More of them share what there is to do in smaller transactions, each as dear as a large
/// one: with 16 senders of single events 2 took 4,900 events a second, 4 took 4,600, 16 took 3,100.
const WORKING_MAX: usize = 2;
/// A transaction that takes longer waits for something that is no processor: others go beside it.
const QUICK: Duration = Duration::from_millis(20);
/// COMMITs that take longer wait for a disk or another server, for no processor either. Where processors alone are short
/// one takes half of this.
const COMMIT_QUICK: Duration = Duration::from_micros(750);
/// One that takes longer counts as this: what hung once is soon forgotten.
const COMMIT_MAX: Duration = Duration::from_millis(10);
/// Events of a request from which on it goes in two halves, where two transactions may be open at once.
const HALVED_MIN: usize = 16;

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
    /// Boxed: they are sorted and moved a few times before they run.
    line: Line<Box<Pending>>,
    open: Open,
    commit: CommitTime,
    bytes: usize,
    ending: bool,
}

/// How far a transaction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It needs a processor.
    Working,
    /// It waits for COMMIT, and no longer for a processor: a disk is slow, or the next half has its lanes already.
    Committing,
    /// It lasts longer than [`QUICK`].
    Slow,
}

/// The open transactions of each phase.
#[derive(Debug, Default)]
struct Open {
    working: usize,
    committing: usize,
    slow: usize,
}

impl Open {
    fn all(&self) -> usize {
        self.working + self.committing + self.slow
    }

    fn of(&mut self, phase: Phase) -> &mut usize {
        match phase {
            Phase::Working => &mut self.working,
            Phase::Committing => &mut self.committing,
            Phase::Slow => &mut self.slow,
        }
    }

    /// One of them is in another phase now.
    fn change(&mut self, phase: &mut Phase, to: Phase) {
        *self.of(*phase) -= 1;
        *self.of(to) += 1;
        *phase = to;
    }
}

/// How long COMMITs have taken lately: an average, in which the newer ones have more weight.
#[derive(Debug, Default)]
struct CommitTime(Duration);

impl CommitTime {
    fn add(&mut self, took: Duration) {
        self.0 = (self.0 * 7 + took.min(COMMIT_MAX)) / 8;
    }

    fn is_quick(&self) -> bool {
        self.0 <= COMMIT_QUICK
    }
}

impl Queued for Box<Pending> {
    fn lane(&self) -> u16 {
        self.event.lane()
    }

    fn bytes(&self) -> usize {
        self.event.bytes()
    }

    fn is_over(&self) -> bool {
        self.slot.is_over()
    }
}

impl State {
    /// Answers what nobody waits for, and what its bytes took is free again.
    fn answer_over(&mut self) {
        for pending in self.line.take_over() {
            self.bytes -= pending.bytes();
            pending.slot.answer(Answer::again(LATE, 1));
        }
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
        if state.bytes + bytes > self.limits.bytes_max {
            state.line.skip_over();
            state.answer_over();
        }
        if state.bytes > 0 && state.bytes + bytes > self.limits.bytes_max {
            return Err(Closed::Full);
        }
        state.bytes += bytes;
        let slot = |place| Slot { ticket: Arc::clone(&ticket), place };
        let pending = events.into_iter().enumerate();
        let pending = pending.map(|(place, event)| Box::new(Pending { event, slot: slot(place) }));
        let pending: Vec<_> = pending.collect();
        if pending.len() >= HALVED_MIN && self.limits.transactions_max > 1 {
            state.line.push_halves(pending);
        } else {
            state.line.push(pending);
        }
        self.start(&mut state);
        Ok(answers)
    }

    /// Takes nothing more in, and waits until what was taken in is answered.
    pub(crate) async fn finish(&self) {
        loop {
            let idle = self.idle.notified();
            {
                let mut state = self.state();
                state.ending = true;
                if state.open.all() == 0 && state.line.is_empty() {
                    return;
                }
            }
            idle.await;
        }
    }

    /// Begins transactions, as many as may be open and as there is something for.
    fn start(self: &Arc<Self>, state: &mut State) {
        while self.start_one(state) {}
        if state.open.all() == 0 {
            self.idle.notify_waiters();
        }
    }

    /// Begins a transaction, if one more may be open and there is something for it.
    fn start_one(self: &Arc<Self>, state: &mut State) -> bool {
        if state.open.all() >= self.limits.transactions_max.max(1)
            || state.open.working >= WORKING_MAX
        {
            return false;
        }
        let portion = state.line.next_portion(&self.limits);
        state.answer_over();
        let Some(portion) = portion else { return false };
        state.open.working += 1;
        let queue = Arc::clone(self);
        // A transaction runs to its end, whoever has gone away meanwhile.
        tokio::spawn(async move { queue.run(portion).await });
        true
    }

    async fn run(self: Arc<Self>, portion: Portion<Box<Pending>>) {
        let halved = portion.is_half();
        let (pending, lanes, bytes) = portion.into_parts();
        let pending = pending.into_iter().map(|pending| *pending).collect();
        let (at_commit, commits) = oneshot::channel();
        // In a task of its own: a handler that does not yield would keep this one from seeing that it is slow. A panic
        // ends that task alone.
        let direct = Arc::clone(&self.direct);
        let mut ran = tokio::spawn(async move { run(&direct, pending, at_commit).await });
        let mut commits = pin!(commits.fuse());
        let mut quick = pin!(tokio::time::sleep(QUICK));
        let mut phase = Phase::Working;
        // `freed`: another one may have its lanes.
        let (mut freed, mut committing_since) = (false, None);
        loop {
            tokio::select! {
                biased;
                _ = &mut ran => break,
                told = &mut commits => {
                    committing_since = told.ok().map(|()| Instant::now());
                    if committing_since.is_some() && phase == Phase::Working {
                        let mut state = self.state();
                        freed = free_early(&mut state, lanes, halved);
                        if freed && halved || !state.commit.is_quick() {
                            state.open.change(&mut phase, Phase::Committing);
                        }
                        self.start(&mut state);
                    }
                }
                () = &mut quick, if phase != Phase::Slow => {
                    let mut state = self.state();
                    state.open.change(&mut phase, Phase::Slow);
                    if !freed {
                        state.line.slow(lanes);
                    }
                    self.start(&mut state);
                }
            }
        }
        let mut state = self.state();
        *state.open.of(phase) -= 1;
        if let Some(since) = committing_since {
            state.commit.add(since.elapsed());
        }
        state.bytes -= bytes;
        if freed {
            state.line.committed(lanes);
        } else {
            state.line.free(lanes);
        }
        self.start(&mut state);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While the only transaction is committed, one more may have its lanes, and waits in the database for the one before.
/// Beside others it would wait there with lanes that they do not have; not where both have half of the lanes, of large
/// requests. Behind a slow one it would wait long, and with all of its lanes.
fn free_early(state: &mut State, lanes: LaneSet, halved: bool) -> bool {
    let State { line, open, .. } = state;
    let beside = halved && open.slow == 0 && open.committing < WORKING_MAX;
    let may = open.all() == 1 || beside && !line.is_committing(lanes);
    if may {
        line.free_early(lanes);
    }
    may
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_hung_once_is_soon_forgotten() {
        let mut commit = CommitTime::default();
        let mut add = |micros, times| {
            (0..times).for_each(|_| commit.add(Duration::from_micros(micros)));
            commit.is_quick()
        };
        assert!(add(300, 20));
        assert!(!add(60_000_000, 1));
        assert!(add(300, 20), "it was taken for longer than COMMIT_MAX");
        assert!(!add(1_000, 20) && add(300, 10));
    }
}
