//! Calls of destinations: each in a task of its own, all of them dropped with the turn.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;
use tokio::task::{Id, JoinError, JoinSet};

use super::{super::publish_span::PublishSpan, Item};
use crate::{
    deadline::Deadline,
    destination::{Delivery, Destination, Outcome},
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
    /// What became of its events; `None`: the turn was over before it answered.
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
    /// Makes a call, which goes on while the turn lasts.
    pub(in crate::pump) fn start(
        &mut self,
        destination: &Destination,
        call: Call,
        until: &Deadline,
    ) {
        let batch: Vec<Delivery> = call.items.iter().map(|item| item.delivery.clone()).collect();
        let (sink, until) = (Arc::clone(&destination.sink), until.clone());
        let span = PublishSpan::begin_call(&destination.name, &batch);
        let task = self.tasks.spawn(async move {
            let deadline = sink.deadline();
            let answer = tokio::time::timeout(deadline, sink.deliver(&batch));
            let answer = tokio::select! {
                // First: a relay that was frozen must not go on where it stood.
                biased;
                () = end_of_turn(&until) => return None,
                answer = answer => answer,
            };
            let outcomes = answer.unwrap_or_else(|_| {
                let silent = format!("the destination did not answer within {deadline:?}");
                vec![Outcome::unknown(silent); batch.len()]
            });
            span.end_call(&outcomes);
            Some(outcomes)
        });
        self.calls.insert(task.id(), (call, Instant::now()));
    }

    /// The next call that has ended. Never, while none is under way.
    pub(in crate::pump) async fn next(&mut self) -> EndedCall {
        loop {
            let Some(joined) = self.tasks.join_next_with_id().await else {
                std::future::pending().await
            };
            if let Some(ended) = self.end(joined) {
                return ended;
            }
        }
    }

    /// One that has ended already.
    pub(in crate::pump) fn try_next(&mut self) -> Option<EndedCall> {
        loop {
            let joined = self.tasks.try_join_next_with_id()?;
            if let Some(ended) = self.end(joined) {
                return Some(ended);
            }
        }
    }

    fn end(&mut self, joined: Result<(Id, Option<Vec<Outcome>>), JoinError>) -> Option<EndedCall> {
        let (id, answer) = match joined {
            Ok((id, answer)) => (id, Ok(answer)),
            Err(error) => (error.id(), Err(error)),
        };
        let (call, begun) = self.calls.remove(&id)?;
        let count = call.items.len();
        let outcomes = match answer {
            Ok(answer) => answer.map(|outcomes| one_each(outcomes, count)),
            // What a panic says may quote the payload.
            Err(_) => Some(vec![Outcome::retry("the destination panicked"); count]),
        };
        Some(EndedCall { call, outcomes, took: begun.elapsed() })
    }

    /// Whether none is under way.
    pub(in crate::pump) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

/// Resolves when the turn is over, as often as that is put off.
async fn end_of_turn(until: &Deadline) {
    if !Rule::CallsNeedTurn.on() {
        std::future::pending::<()>().await;
    }
    while !until.passed() {
        tokio::time::sleep_until(until.at().into()).await;
    }
}

/// One outcome for each event, whatever was answered.
fn one_each(outcomes: Vec<Outcome>, count: usize) -> Vec<Outcome> {
    if outcomes.len() == count {
        return outcomes;
    }
    let error = format!(
        "the destination returned {} outcomes for {count} events; it must return one for each",
        outcomes.len()
    );
    vec![Outcome::unknown(error); count]
}
