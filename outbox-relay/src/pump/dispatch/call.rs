//! Calls of destinations: each in a task of its own, all of them dropped with the turn.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;
use tokio::task::{Id, JoinSet};

use super::Item;
use crate::{
    deadline::Deadline,
    destination::{Delivery, Outcome, Sink},
};

/// Events that are handed to a destination together.
#[derive(Debug)]
pub(in crate::pump) struct Call {
    /// The number of the destination.
    pub(super) sink: usize,
    /// What they share outages with.
    pub(super) scope: String,
    pub(super) items: Vec<Item>,
}

/// The calls that are under way.
#[derive(Default)]
pub(in crate::pump) struct Calls {
    tasks: JoinSet<Option<Vec<Outcome>>>,
    /// Each, and when it was made.
    calls: HashMap<Id, (Call, Instant)>,
}

/// A call that has ended.
#[derive(Debug)]
pub(in crate::pump) struct EndedCall {
    pub(in crate::pump) call: Call,
    /// What became of its events; `None`: it was not made.
    pub(in crate::pump) outcomes: Option<Vec<Outcome>>,
    pub(in crate::pump) took: Duration,
}

impl Call {
    /// The number of the destination.
    pub(in crate::pump) fn sink(&self) -> usize {
        self.sink
    }
}

impl Calls {
    /// Makes a call, unless the turn is over.
    pub(in crate::pump) fn start(&mut self, sink: &Arc<dyn Sink>, call: Call, until: &Deadline) {
        let batch: Vec<Delivery> = call.items.iter().map(|item| item.delivery.clone()).collect();
        let (sink, until) = (Arc::clone(sink), until.clone());
        let task = self.tasks.spawn(async move {
            // A relay that was frozen must not go on where it stood.
            if until.passed() && Rule::CallsNeedTurn.on() {
                return None;
            }
            let deadline = sink.deadline();
            let answer = tokio::time::timeout(deadline, sink.deliver(&batch)).await;
            Some(answer.unwrap_or_else(|_| {
                let silent = format!("the destination did not answer within {deadline:?}");
                vec![Outcome::unknown(silent); batch.len()]
            }))
        });
        self.calls.insert(task.id(), (call, Instant::now()));
    }

    /// The next call that has ended. Never, while none is under way.
    pub(in crate::pump) async fn next(&mut self) -> EndedCall {
        loop {
            let (id, answer) = match self.tasks.join_next_with_id().await {
                None => std::future::pending().await,
                Some(Ok((id, answer))) => (id, Ok(answer)),
                Some(Err(error)) => (error.id(), Err(error)),
            };
            let Some((call, begun)) = self.calls.remove(&id) else { continue };
            let count = call.items.len();
            let outcomes = match answer {
                Ok(answer) => answer.map(|outcomes| one_each(outcomes, count)),
                // What a panic says may quote the payload.
                Err(_) => Some(vec![Outcome::retry("the destination panicked"); count]),
            };
            return EndedCall { call, outcomes, took: begun.elapsed() };
        }
    }

    /// Whether none is under way.
    pub(in crate::pump) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

/// One outcome for each event, whatever was answered.
fn one_each(outcomes: Vec<Outcome>, count: usize) -> Vec<Outcome> {
    if outcomes.len() == count {
        return outcomes;
    }
    let error = format!(
        "the destination answered {} outcomes for {count} events; it has to answer one for each",
        outcomes.len()
    );
    vec![Outcome::unknown(error); count]
}
