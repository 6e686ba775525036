//! Calls of handlers, to find those that go on though their time is over.
//!
//! A handler that blocks its thread cannot be dropped by anybody: all that can be done is to say its name.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use outbox_core::TopicPartition;

use crate::Delivery;

/// A call is dropped when its time is over, unless it blocks its thread or the machine is starved.
const MARGIN: Duration = Duration::from_secs(5);

/// The calls of all handlers of a consumer.
#[derive(Debug, Default)]
pub struct Calls(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: BTreeMap<u64, Run>,
    /// Calls of runs that have ended, by `partition_ref`.
    ended: HashMap<i64, u64>,
}

/// A run of events through one handler.
#[derive(Debug)]
struct Run {
    partition_ref: i64,
    deadline: Duration,
    current: Arc<Current>,
}

/// How far a run is.
type Current = Mutex<Progress>;

#[derive(Debug, Default)]
struct Progress {
    /// The call that is under way: its first event, and when it began.
    call: Option<(Arc<Delivery>, Instant)>,
    /// Calls that have come back.
    ended: u64,
}

/// A run that has begun. It ends when dropped.
#[derive(Debug)]
pub struct OpenRun<'c> {
    calls: &'c Calls,
    number: u64,
    current: Arc<Current>,
}

impl Calls {
    /// A run begins, of which each call of the handler has so much time.
    pub fn begin(&self, partition_ref: i64, deadline: Duration) -> OpenRun<'_> {
        let current = Arc::<Current>::default();
        let mut state = guard(&self.0);
        let number = state.next;
        state.next += 1;
        state.open.insert(number, Run { partition_ref, deadline, current: Arc::clone(&current) });
        OpenRun { calls: self, number, current }
    }

    /// How many calls have come back in a partition: handlers are at work there though no offset moves.
    pub fn ended_calls(&self, partition_ref: i64) -> u64 {
        let state = guard(&self.0);
        let open = state.open.values().filter(|run| run.partition_ref == partition_ref);
        let open: u64 = open.map(|run| guard(&run.current).ended).sum();
        open + state.ended.get(&partition_ref).copied().unwrap_or_default()
    }

    /// What is to be said of a call that should have ended long ago, in one partition or in any.
    pub fn overdue(&self, partition_ref: Option<i64>, now: Instant) -> Option<String> {
        let state = guard(&self.0);
        let wanted = |run: &&Run| partition_ref.is_none_or(|wanted| wanted == run.partition_ref);
        state.open.values().filter(wanted).find_map(|run| run.overdue(now))
    }

    /// What is to be said of the call that has gone on longest, if it is longer than a moment.
    pub fn longest(&self, now: Instant) -> Option<String> {
        let state = guard(&self.0);
        let open = state.open.values().filter_map(|run| {
            let (delivery, begun) = guard(&run.current).call.clone()?;
            Some((now.saturating_duration_since(begun), delivery, run.deadline))
        });
        let (ran, delivery, deadline) = open.max_by_key(|(ran, ..)| *ran)?;
        (ran > MARGIN).then(|| sentence(&delivery, deadline))
    }
}

impl Run {
    fn overdue(&self, now: Instant) -> Option<String> {
        let current = guard(&self.current);
        let (delivery, begun) = current.call.as_ref()?;
        let late = now.saturating_duration_since(*begun) > self.deadline + MARGIN;
        late.then(|| sentence(delivery, self.deadline))
    }
}

/// Without a time that grows: what is the same is said once.
fn sentence(delivery: &Delivery, deadline: Duration) -> String {
    let TopicPartition { topic, partition } = &delivery.partition;
    let event_type = delivery.event.as_ref().map_or("?", |event| &event.event_type);
    let event_id = delivery.id();
    format!(
        "the handler of `{event_type}` was called for {topic}/{partition}@{} (event {event_id}) \
         and did not return within its deadline (`retry.attempt_deadline`, {deadline:?}): it \
         blocks its thread; only ending the process can stop it. Move blocking code into \
         `tokio::task::spawn_blocking`",
        delivery.offset.0
    )
}

impl OpenRun<'_> {
    /// The handler is called.
    pub fn call(&self, delivery: &Arc<Delivery>) {
        guard(&self.current).call = Some((Arc::clone(delivery), Instant::now()));
    }

    /// It has come back, or was dropped.
    pub fn end_call(&self) {
        let mut current = guard(&self.current);
        current.call = None;
        current.ended += 1;
    }
}

impl Drop for OpenRun<'_> {
    fn drop(&mut self) {
        let mut state = guard(&self.calls.0);
        if let Some(run) = state.open.remove(&self.number) {
            *state.ended.entry(run.partition_ref).or_default() += guard(&run.current).ended;
        }
    }
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_tests::delivery;

    #[test]
    fn a_call_that_outlives_its_time_is_named() {
        let calls = Calls::default();
        let run = calls.begin(7, Duration::from_secs(30));
        let at = |seconds: u64| Instant::now() + Duration::from_secs(seconds);
        assert_eq!(calls.overdue(None, at(100)), None, "nothing was called yet");
        run.call(&delivery(17, None));
        assert_eq!(calls.overdue(Some(7), at(34)), None);
        let said = calls.overdue(Some(7), at(36)).unwrap();
        assert!(said.contains("`OrderPaid` was called for orders/3@17"), "{said}");
        assert_eq!(calls.overdue(None, at(50)), Some(said));
        assert_eq!(calls.overdue(Some(8), at(50)), None, "another partition");
        run.end_call();
        assert_eq!(calls.overdue(None, at(50)), None);
        // A run of many slow calls moves, though it does not end.
        assert_eq!((calls.ended_calls(7), calls.ended_calls(8)), (1, 0));
        drop(run);
        assert_eq!((calls.ended_calls(7), calls.ended_calls(8)), (1, 0));
    }
}
