//! One call of a handler: decoded before, guarded during, judged after.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures::FutureExt;
use inbox_engine::internal::Rule;
use inbox_store::internal::port::{Sessions, StoreFault};
use outbox_core::{CodecError, Decode, Payload};

use super::{CallFailure, RunEnd, RunEvent};
use crate::{
    Event, Fault, HandlerError, HandlerResult, Tx,
    handler::{limit_text, panic_text},
    tx::StatementFault,
};

/// Decodes the payload of an event. A decoder that panics has refused the payload.
pub(super) fn decode<T, C: Decode<T>>(
    codec: &C,
    event: &RunEvent<'_>,
) -> Result<Event<T>, DecodeFault> {
    let payload = payload(event).map_err(DecodeFault::Unreadable)?;
    let payload = decode_payload(codec, &payload)?;
    Ok(Event::new(event.delivery, event.attempt, payload))
}

/// The same of a payload alone.
pub(super) fn decode_payload<T, C: Decode<T> + ?Sized>(
    codec: &C,
    payload: &Payload<'_>,
) -> Result<T, DecodeFault> {
    match catch_unwind(AssertUnwindSafe(|| codec.decode(payload))) {
        Ok(Ok(payload)) => Ok(payload),
        Ok(Err(error)) if error.is_outage() => {
            Err(DecodeFault::Unavailable(limit_text(error.to_string())))
        }
        Ok(Err(error)) => Err(DecodeFault::Unreadable(limit_text(advise(&error)))),
        // What the panic said may quote the payload.
        Err(_) => Err(DecodeFault::Unreadable("the payload's decoder panicked".to_owned())),
    }
}

/// Why a payload was not decoded.
#[derive(Debug)]
pub(super) enum DecodeFault {
    /// It is not what its handler takes.
    Unreadable(String),
    /// What its codec needs is not there; no event is at fault.
    Unavailable(String),
}

impl DecodeFault {
    /// The sentence.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Unreadable(text) | Self::Unavailable(text) => text,
        }
    }

    /// How a run ends by it at the event at `at`, when so many before it were handled.
    pub(super) fn end(self, at: usize, ran: usize) -> RunEnd {
        match self {
            Self::Unreadable(error) => RunEnd::Undecodable { at, ran, error },
            Self::Unavailable(error) => RunEnd::Unavailable(error),
        }
    }
}

/// What a codec sees of an event.
pub(super) fn payload<'a>(event: &RunEvent<'a>) -> Result<Payload<'a>, String> {
    let delivery = event.delivery;
    let envelope = delivery.event.as_ref().map_err(ToString::to_string)?;
    let headers = &delivery.as_read().headers;
    let payload = Payload::of(envelope, headers, &delivery.partition.topic);
    Ok(payload.with_text_in_schema(delivery.read_as.is_text_in_schema))
}

/// What is wrong with the payload, and what to do about it.
fn advise(error: &CodecError) -> String {
    match error {
        CodecError::Syntax(_) | CodecError::Shape(_) => {
            format!("{error}; fix its producer, or the handler's type")
        }
        error => error.to_string(),
    }
}

/// How a call of a handler ended.
pub(super) enum CallEnd {
    Answered(HandlerResult),
    Panicked(String),
    TimedOut,
}

/// Calls a handler. The call is dropped at the deadline.
pub(super) async fn call(
    handler: impl Future<Output = HandlerResult>,
    deadline: Duration,
) -> CallEnd {
    if !Rule::AttemptDeadline.on() {
        return catch_panic(handler).await;
    }
    tokio::time::timeout(deadline, catch_panic(handler)).await.unwrap_or(CallEnd::TimedOut)
}

async fn catch_panic(handler: impl Future<Output = HandlerResult>) -> CallEnd {
    if !Rule::PanicIsFailure.on() {
        return CallEnd::Answered(handler.await);
    }
    match AssertUnwindSafe(handler).catch_unwind().await {
        Ok(answer) => CallEnd::Answered(answer),
        Err(panic) => CallEnd::Panicked(panic_text(&*panic)),
    }
}

/// Judges a call by how it ended and by what the transaction saw; `None` when all is well.
pub(super) fn judge<DB: Sessions>(
    end: CallEnd,
    tx: &Tx<'_, DB>,
    deadline: Duration,
) -> Option<CallFailure> {
    tx.end_call();
    let seen = tx.first_fault();
    let failure = match end {
        CallEnd::TimedOut => {
            CallFailure { hung: true, ..rank(Fault::Retry, None, deadline_text(deadline), seen) }
        }
        CallEnd::Panicked(said) => {
            let said = tx.unquoted(format!("the handler panicked: {said}"));
            rank(Fault::Retry, None, said, seen)
        }
        CallEnd::Answered(Err(error)) => {
            let seen = seen.or_else(|| seen_unguarded(&error, tx));
            rank(error.fault(), error.index(), tx.unquoted(error.text()), seen)
        }
        CallEnd::Answered(Ok(())) => swallowed_error(seen?),
    };
    Some(CallFailure { hung: failure.hung || tx.running(), ..failure })
}

/// What the handler said, unless the transaction saw something that is not the handler's to judge.
fn rank(
    fault: Fault,
    at: Option<usize>,
    error: String,
    seen: Option<StatementFault>,
) -> CallFailure {
    let Some(seen) = seen else { return CallFailure { at, fault, error, hung: false } };
    let (fault, hung) = (outrank(fault, seen.fault), is_spoilt(&seen));
    let error = if seen.error.starts_with(&error) {
        seen.error
    } else {
        format!("{error}; the first error in the transaction was: {}", seen.error)
    };
    CallFailure { at, fault, error: limit_text(error), hung }
}

/// The session would do the same to others.
fn is_spoilt(seen: &StatementFault) -> bool {
    matches!(seen.fault, StoreFault::Stale | StoreFault::Broken)
}

/// The handler answered `Ok` on a transaction that can only be rolled back.
fn swallowed_error(seen: StatementFault) -> CallFailure {
    let error = format!(
        "the handler swallowed an error of its transaction ({}); return it, or run what may fail \
         in tx.savepoint()",
        seen.error
    );
    let (fault, hung) = (outrank(Fault::Retry, seen.fault), is_spoilt(&seen));
    CallFailure { at: None, fault, error: limit_text(error), hung }
}

/// What queued statements failed with, whoever awaited something while they were sent: it is the failure
/// of the event that queued. `None` when none has failed.
pub(super) fn queue_failure<DB: Sessions>(tx: &Tx<'_, DB>) -> Option<RunEnd> {
    let (whose, seen) = (tx.queue_failure()?, tx.first_fault()?);
    let error = limit_text(format!("a queued statement failed: {}", seen.error));
    let fault = outrank(Fault::Retry, seen.fault);
    let hung = tx.running() || is_spoilt(&seen);
    Some(RunEnd::Failed(CallFailure { at: whose.at, fault, error, hung }))
}

/// Sends what is queued; answers how the run ended if that failed.
pub(super) async fn flush_queue<DB: Sessions>(tx: &mut Tx<'_, DB>) -> Option<RunEnd> {
    match tx.flush().await {
        Ok(()) => None,
        Err(_) => queue_failure(tx),
    }
}

/// Nothing that was handled is settled before what its handler queued is sent.
pub(super) async fn send_queued<DB: Sessions>(end: RunEnd, tx: &mut Tx<'_, DB>) -> RunEnd {
    if matches!(end, RunEnd::Failed(_) | RunEnd::Unavailable(_))
        || !Rule::QueueSentBeforeAdvance.on()
    {
        return end;
    }
    flush_queue(tx).await.unwrap_or(end)
}

fn deadline_text(deadline: Duration) -> String {
    format!(
        "the handler did not finish within {deadline:?}; make it faster, or raise \
         `retry.attempt_deadline`"
    )
}

fn outrank(said: Fault, seen: StoreFault) -> Fault {
    match seen {
        StoreFault::Broken | StoreFault::Outage | StoreFault::Saturated => Fault::Outage,
        StoreFault::Conflict | StoreFault::Stale => Fault::Conflict,
        StoreFault::Locked => Fault::Locked,
        StoreFault::TransactionEnded => Fault::Reject,
        StoreFault::Statement => said,
    }
}

/// An error of the lent connection went past the guard. (One of a foreign connection would not be
/// the consumer's to judge.)
fn seen_unguarded<DB: Sessions>(error: &HandlerError, tx: &Tx<'_, DB>) -> Option<StatementFault> {
    let cause = error.database_error().filter(|_| tx.unguarded_used())?;
    Some(StatementFault { fault: DB::fault(cause), error: error.text() })
}
