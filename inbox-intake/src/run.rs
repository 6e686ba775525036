//! Events in their transactions, again in smaller ones where that helps, until each is answered.

use std::{collections::BTreeMap, time::Duration};

use inbox_engine::internal::{BatchOutcome, Doom, Failure, HandlerFault, Mode, TransactionFault};
use inbox_runtime::internal::{Direct, DirectEvent};
use inbox_store::internal::port::Owners;
use service_kit::{backoff, chance};
use tokio::sync::oneshot;

use crate::{
    answer::{Answer, UNKNOWN},
    ticket::{Pending, Slot},
};

/// Transactions that one event is tried in, beside those in which others failed.
const CONFLICTS_MAX: u32 = 6;
/// Transactions in a row that leave as many events as before: what nothing explains ends, too.
const TRIES_MAX: u32 = 200;
/// Before the second try after a conflict; it doubles each time.
const CONFLICT_DELAY: Duration = Duration::from_millis(10);
const CONFLICT_DELAY_MAX: Duration = Duration::from_secs(1);

const OUT: &str = "the database is unavailable at the moment";
const BUSY: &str = "another transaction holds a lock that it needs";
const NO_END: &str = "its transaction failed repeatedly, for an unknown reason";
const FAILED: &str = "its handler failed, and may succeed later";
const BEHIND: &str = "an earlier event of its aggregate in this request was not accepted";
const FULL: &str = "the limit of parked events is reached; release or discard some first";
pub(crate) const LATE: &str = "it was not reached in time";

/// Events that go into one transaction.
struct Part {
    pending: Vec<Pending>,
    mode: Mode,
    conflicts: u32,
}

/// Runs events, in the order of their lanes. Each is answered, once it is settled or once it is known that only sending
/// it again helps. `committing` is told when all of them are about to be committed in one transaction.
pub(crate) async fn run<DB: Owners>(
    direct: &Direct<DB>,
    pending: Vec<Pending>,
    committing: oneshot::Sender<()>,
) {
    let mut parts = vec![Part { pending, mode: Mode::Together, conflicts: 0 }];
    let mut committing = Some(committing);
    let mut tries = 0;
    while tries < TRIES_MAX {
        let before = left(&parts);
        let Some(part) = parts.pop() else { return };
        parts.extend(try_part(direct, part, committing.take()).await.into_iter().rev());
        // One that was found out is one less to be found.
        tries = if left(&parts) < before { 0 } else { tries + 1 };
    }
    for pending in parts.into_iter().flat_map(|part| part.pending) {
        pending.slot.answer(Answer::again(NO_END, 1));
    }
}

/// Events that are not answered, and those of them of which nobody knows yet that they are to be parked.
fn left(parts: &[Part]) -> (usize, usize) {
    let pending = || parts.iter().flat_map(|part| &part.pending);
    (pending().count(), pending().filter(|pending| !pending.event.is_doomed()).count())
}

/// Runs one part; answers what is left to be run, in its order.
async fn try_part<DB: Owners>(
    direct: &Direct<DB>,
    part: Part,
    committing: Option<oneshot::Sender<()>>,
) -> Vec<Part> {
    let Part { pending, mode, conflicts } = part;
    let pending = answer_where(pending, |pending| pending.slot.is_over(), LATE);
    // What was refused before may have been in another part, or in another transaction.
    let pending = answer_where(pending, |pending| pending.slot.is_behind(), BEHIND);
    if pending.is_empty() {
        return Vec::new();
    }
    if pending.len() > 1 && pending.iter().any(|pending| pending.event.is_suspect()) {
        return apart(pending, mode, conflicts);
    }
    if mode == Mode::Careful && pending.len() > Mode::CAREFUL_MAX {
        return split(pending, Mode::CAREFUL_MAX, mode, conflicts);
    }
    let (events, slots): (Vec<DirectEvent>, Vec<Slot>) =
        pending.into_iter().map(|Pending { event, slot }| (event, slot)).unzip();
    let (events, outcome) = direct.settle(events, mode, committing).await;
    match outcome {
        Ok(settled) => {
            for (slot, settlement) in slots.into_iter().zip(settled) {
                slot.answer(Answer::Settled(settlement));
            }
            Vec::new()
        }
        Err(outcome) => {
            let pending = events.into_iter().zip(slots);
            let pending = pending.map(|(event, slot)| Pending { event, slot }).collect();
            again(pending, mode, conflicts, outcome).await
        }
    }
}

/// Has those sent again of which that is true, and keeps the others.
fn answer_where(
    mut pending: Vec<Pending>,
    is: impl Fn(&Pending) -> bool,
    error: &'static str,
) -> Vec<Pending> {
    pending.retain(|pending| {
        let again = is(pending);
        if again {
            pending.slot.answer(Answer::again(error, 1));
        }
        !again
    });
    pending
}

/// What is done about a transaction that was not committed.
async fn again(
    pending: Vec<Pending>,
    mode: Mode,
    conflicts: u32,
    outcome: BatchOutcome,
) -> Vec<Part> {
    let alone = pending.len() == 1;
    match outcome {
        BatchOutcome::Failed(_) if mode == Mode::Together && !alone => {
            vec![Part { pending, mode: Mode::Careful, conflicts }]
        }
        BatchOutcome::Failed(failures) => {
            let named: BTreeMap<usize, Failure> = failures
                .into_iter()
                .filter_map(|failure| Some((failure.index?, failure)))
                .collect();
            if named.is_empty() {
                return halves(pending, Mode::Careful, conflicts, FAILED);
            }
            vec![Part { pending: blame(pending, named), mode, conflicts }]
        }
        BatchOutcome::Full(_) if alone => answer_all(&pending, Answer::again(FULL, 60)),
        BatchOutcome::Full(_) => halves(pending, mode, conflicts, FULL),
        BatchOutcome::Fault(
            TransactionFault::Conflict(_)
            | TransactionFault::Locked { .. }
            | TransactionFault::Blocked(_)
            | TransactionFault::Fenced,
        )
        | BatchOutcome::Reused(_) => {
            if conflicts >= CONFLICTS_MAX {
                return answer_all(&pending, Answer::again(BUSY, 1));
            }
            tokio::time::sleep(delay(conflicts)).await;
            let size = pending.len().div_ceil(2);
            split(pending, size, mode, conflicts + 1)
        }
        BatchOutcome::Fault(TransactionFault::Unknown(_)) => {
            answer_all(&pending, Answer::again(UNKNOWN, 1))
        }
        BatchOutcome::Fault(
            TransactionFault::Broken(_)
            | TransactionFault::Outage(_)
            | TransactionFault::Unreached(_),
        )
        | BatchOutcome::Committed(_) => answer_all(&pending, Answer::again(OUT, 5)),
    }
}

/// Answers those whose handler may succeed later, and what follows them in their requests; answers what is left, in which
/// those that never can are to be parked.
fn blame(pending: Vec<Pending>, mut named: BTreeMap<usize, Failure>) -> Vec<Pending> {
    let mut rest = Vec::new();
    for (index, mut pending) in pending.into_iter().enumerate() {
        let failure = named.remove(&index);
        let retry = failure.as_ref().is_some_and(|failure| failure.fault == HandlerFault::Retry);
        if retry {
            pending.slot.answer(Answer::again(FAILED, 1));
        } else if pending.slot.is_behind() {
            pending.slot.answer(Answer::again(BEHIND, 1));
        } else if let Some(Failure { fault, error, .. }) = failure {
            if pending.event.is_doomed() {
                // Even parking it failed.
                pending.slot.answer(Answer::again(OUT, 5));
                continue;
            }
            pending.event.doom(Doom { reason: fault.park_reason(), error });
            rest.push(pending);
        } else {
            rest.push(pending);
        }
    }
    rest
}

/// Half of them at a time; of one alone there is nothing more to find out.
fn halves(pending: Vec<Pending>, mode: Mode, conflicts: u32, error: &'static str) -> Vec<Part> {
    if pending.len() < 2 {
        return answer_all(&pending, Answer::again(error, 1));
    }
    let size = pending.len().div_ceil(2);
    split(pending, size, mode, conflicts)
}

fn split(pending: Vec<Pending>, size: usize, mode: Mode, conflicts: u32) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = pending;
    while !rest.is_empty() {
        let behind = rest.split_off(rest.len().min(size.max(1)));
        parts.push(Part { pending: std::mem::replace(&mut rest, behind), mode, conflicts });
    }
    parts
}

/// Events that a process may have ended with are alone in their transactions; the others stay together, in their order.
fn apart(pending: Vec<Pending>, mode: Mode, conflicts: u32) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut joins = false;
    for pending in pending {
        let alone = pending.event.is_suspect();
        match parts.last_mut().filter(|_| joins && !alone) {
            Some(part) => part.pending.push(pending),
            None => parts.push(Part { pending: vec![pending], mode, conflicts }),
        }
        joins = !alone;
    }
    parts
}

fn answer_all(pending: &[Pending], answer: Answer) -> Vec<Part> {
    for pending in pending {
        pending.slot.answer(answer.clone());
    }
    Vec::new()
}

/// With some chance, so that two that meet do not meet again.
fn delay(conflicts: u32) -> Duration {
    backoff(CONFLICT_DELAY, CONFLICT_DELAY_MAX, conflicts + 1, chance())
}
