//! Calls of destinations other than Kafka: each in a task of its own, all of them dropped with the turn.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;
use outbox_planner::internal::CallId;
use tokio::task::{Id, JoinError, JoinSet};

use super::publish_span::PublishSpan;
use crate::{
    deadline::Deadline,
    destination::{Delivery, Destination, Outcome},
};

/// The calls that are under way.
#[derive(Default)]
pub(super) struct Calls {
    tasks: JoinSet<Option<Vec<Outcome>>>,
    /// Each, how many events it has, and when it was made.
    calls: HashMap<Id, (CallId, usize, Instant)>,
}

/// A call that has ended.
#[derive(Debug)]
pub(super) struct EndedCall {
    pub(super) id: CallId,
    /// What became of its events; `None`: the turn was over before it answered.
    pub(super) outcomes: Option<Vec<Outcome>>,
    pub(super) took: Duration,
}

impl Calls {
    /// Makes a call, which goes on while the turn lasts.
    pub(super) fn start(
        &mut self,
        (id, destination): (CallId, &Destination),
        batch: Vec<Delivery>,
        until: &Deadline,
    ) {
        let (sink, until, count) = (Arc::clone(&destination.sink), until.clone(), batch.len());
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
        self.calls.insert(task.id(), (id, count, Instant::now()));
    }

    /// The next call that has ended. Never, while none is under way.
    pub(super) async fn next(&mut self) -> EndedCall {
        loop {
            let Some(joined) = self.tasks.join_next_with_id().await else {
                std::future::pending().await
            };
            if let Some(ended) = self.end(joined) {
                return ended;
            }
        }
    }

    fn end(&mut self, joined: Result<(Id, Option<Vec<Outcome>>), JoinError>) -> Option<EndedCall> {
        let (task, answer) = match joined {
            Ok((task, answer)) => (task, Ok(answer)),
            Err(error) => (error.id(), Err(error)),
        };
        let (id, count, begun) = self.calls.remove(&task)?;
        let outcomes = match answer {
            Ok(answer) => answer.map(|outcomes| one_each(outcomes, count)),
            // What a panic says may quote the payload.
            Err(_) => Some(vec![Outcome::retry("the destination panicked"); count]),
        };
        Some(EndedCall { id, outcomes, took: begun.elapsed() })
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
