//! One call of a handler: decoded before, guarded during, judged after.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures::FutureExt;
use inbox_engine::internal::Rule;
use inbox_store::internal::port::{Sessions, StoreFault};
use outbox_core::{CodecError, Decode};

use super::{RunEnd, RunEvent};
use crate::{
    Event, Fault, HandlerError, HandlerResult, Tx,
    handler::{limited, panic_text},
    tx::Seen,
};

/// Decodes the payload of an event. A decoder that panics has refused the payload.
pub(super) fn decode<T, C: Decode<T>>(codec: &C, event: &RunEvent<'_>) -> Result<Event<T>, String> {
    let envelope = event.delivery.event.as_ref().map_err(ToString::to_string)?;
    let decoded = catch_unwind(AssertUnwindSafe(|| match &envelope.payload {
        Some(payload) => codec.decode(payload),
        None => codec.decode_tombstone(),
    }));
    match decoded {
        Ok(Ok(payload)) => Ok(Event::new(event.delivery, event.attempt, payload)),
        Ok(Err(error)) => Err(limited(advised(&error))),
        // What the panic said may quote the payload.
        Err(_) => Err("the payload's decoder panicked".to_owned()),
    }
}

/// What is wrong with the payload, and what to do about it.
fn advised(error: &CodecError) -> String {
    match error {
        CodecError::Syntax(_) | CodecError::Shape(_) => {
            format!("{error}; correct its producer, or the type that the handler takes")
        }
        error => error.to_string(),
    }
}

/// How a call of a handler ended.
pub(super) enum Answer {
    Answered(HandlerResult),
    Panicked(String),
    TimedOut,
}

/// Calls a handler. The call is dropped at the deadline.
pub(super) async fn call(
    handler: impl Future<Output = HandlerResult>,
    deadline: Duration,
) -> Answer {
    if !Rule::AttemptDeadline.on() {
        return caught(handler).await;
    }
    tokio::time::timeout(deadline, caught(handler)).await.unwrap_or(Answer::TimedOut)
}

async fn caught(handler: impl Future<Output = HandlerResult>) -> Answer {
    if !Rule::PanicIsFailure.on() {
        return Answer::Answered(handler.await);
    }
    match AssertUnwindSafe(handler).catch_unwind().await {
        Ok(answer) => Answer::Answered(answer),
        Err(panic) => Answer::Panicked(panic_text(&*panic)),
    }
}

/// What is wrong with a call.
pub(super) struct Blame {
    /// The index that the handler named.
    pub(super) at: Option<usize>,
    pub(super) fault: Fault,
    pub(super) error: String,
    /// The session is of no use any more.
    pub(super) hung: bool,
}

/// Judges a call by its answer and by what the transaction saw; `None` when all is well.
pub(super) fn judge<DB: Sessions>(
    answer: Answer,
    tx: &Tx<'_, DB>,
    deadline: Duration,
) -> Option<Blame> {
    tx.handled();
    let seen = tx.seen();
    let blame = match answer {
        Answer::TimedOut => {
            Blame { hung: true, ..ranked(Fault::Retry, None, late(deadline), seen) }
        }
        Answer::Panicked(said) => {
            let said = tx.unquoted(format!("the handler panicked: {said}"));
            ranked(Fault::Retry, None, said, seen)
        }
        Answer::Answered(Err(error)) => {
            let seen = seen.or_else(|| seen_unguarded(&error, tx));
            ranked(error.fault(), error.index(), tx.unquoted(error.text()), seen)
        }
        Answer::Answered(Ok(())) => swallowed(seen?),
    };
    Some(Blame { hung: blame.hung || tx.running(), ..blame })
}

/// What the handler said, unless the transaction saw something that is not the handler's to judge.
fn ranked(fault: Fault, at: Option<usize>, error: String, seen: Option<Seen>) -> Blame {
    let Some(seen) = seen else { return Blame { at, fault, error, hung: false } };
    let (fault, hung) = (outranked(fault, seen.fault), spoilt(&seen));
    let error = if seen.error.starts_with(&error) {
        seen.error
    } else {
        format!("{error}; the transaction first saw: {}", seen.error)
    };
    Blame { at, fault, error: limited(error), hung }
}

/// The session would do the same to others.
fn spoilt(seen: &Seen) -> bool {
    matches!(seen.fault, StoreFault::Stale | StoreFault::Broken)
}

/// The handler answered `Ok` on a transaction that can only be rolled back.
fn swallowed(seen: Seen) -> Blame {
    let error = format!(
        "the handler swallowed an error of its transaction ({}); return it, or do what may fail in \
         tx.savepoint()",
        seen.error
    );
    let (fault, hung) = (outranked(Fault::Retry, seen.fault), spoilt(&seen));
    Blame { at: None, fault, error: limited(error), hung }
}

/// What queued statements failed with, whoever awaited something while they were sent: it is the failure
/// of the event that queued. `None` when none has failed.
pub(super) fn not_sent<DB: Sessions>(tx: &Tx<'_, DB>) -> Option<RunEnd> {
    let (whose, seen) = (tx.not_sent()?, tx.seen()?);
    let error = limited(format!("a queued statement failed: {}", seen.error));
    let fault = outranked(Fault::Retry, seen.fault);
    let hung = tx.running() || spoilt(&seen);
    Some(RunEnd::Failed { at: whose.at, fault, error, hung })
}

/// Sends what is queued; answers how the run ended if that failed.
pub(super) async fn flushed<DB: Sessions>(tx: &mut Tx<'_, DB>) -> Option<RunEnd> {
    match tx.flush().await {
        Ok(()) => None,
        Err(_) => not_sent(tx),
    }
}

/// Nothing that was handled is settled before what its handler queued is sent.
pub(super) async fn sent<DB: Sessions>(end: RunEnd, tx: &mut Tx<'_, DB>) -> RunEnd {
    if matches!(end, RunEnd::Failed { .. }) || !Rule::QueueSentBeforeAdvance.on() {
        return end;
    }
    flushed(tx).await.unwrap_or(end)
}

fn late(deadline: Duration) -> String {
    format!(
        "the handler did not answer within {deadline:?}; make it faster, or raise the deadline of an \
         attempt"
    )
}

fn outranked(said: Fault, seen: StoreFault) -> Fault {
    match seen {
        StoreFault::Broken | StoreFault::Outage | StoreFault::Saturated => Fault::Outage,
        StoreFault::Conflict | StoreFault::Stale => Fault::Conflict,
        StoreFault::TransactionEnded => Fault::Reject,
        StoreFault::Statement => said,
    }
}

/// An error of the lent connection went past the guard. (One of a foreign connection would not be
/// the consumer's to judge.)
fn seen_unguarded<DB: Sessions>(error: &HandlerError, tx: &Tx<'_, DB>) -> Option<Seen> {
    let cause = error.database_error().filter(|_| tx.unguarded_used())?;
    Some(Seen { fault: DB::fault(cause), error: error.text() })
}
