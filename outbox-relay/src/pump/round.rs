//! One batch: read, sent, waited for, marked.

use std::time::Instant;

use bytes::Bytes;
use inbox_engine::internal::Rule;

use super::{
    Held, Pump,
    keeper::Lease,
    parcels::{Sorted, label, sort, waits},
    progress::Progress,
};
use crate::{
    port::{Failure, Feed, Marked, RowId, View},
    sink::{Parcel, Refusal, Shipment, Sink},
    telemetry::Signal,
};

/// The longest error that is written on a row.
const ERROR_CHARS: usize = 2_000;

/// What a round came to.
pub(super) enum Round {
    /// Rows went; with `true` there may be more.
    Shipped(bool),
    /// There was nothing to do.
    Idle,
    /// The producer is done for; with `true` it may help to wait.
    NewProducer(bool),
    /// The database is out.
    DatabaseOut(String),
    /// Another producer has the outbox's id, though the turn is ours.
    Fenced,
    /// Another relay has the turn.
    TurnLost,
    /// The database went back to an older state.
    WentBack,
    /// Kafka refuses for good.
    Fatal(String),
}

/// What a round is to send.
struct Load {
    sorted: Sorted,
    /// There may be more.
    more: bool,
}

impl<F: Feed> Pump<F> {
    /// One batch: read, sent, waited for, marked.
    pub(super) async fn round(
        &self,
        sink: &Sink,
        lease: &Lease,
        session: &mut Held<F>,
        progress: &mut Progress,
    ) -> Round {
        let Load { mut sorted, mut more } = match self.load(sink, lease, session, progress).await {
            Ok(Some(load)) => load,
            Ok(None) => return Round::Idle,
            Err(round) => return round,
        };
        let count = sorted.parcels.len();
        let shipment = if count == 0 {
            Shipment::Done { refused: Vec::new(), left: Vec::new() }
        } else {
            sink.ship(std::mem::take(&mut sorted.parcels), lease.until.clone()).await
        };
        match shipment {
            Shipment::Done { refused, left } => {
                if count > 0 {
                    self.troubles().kafka_works();
                }
                more |= !left.is_empty();
                progress.limit = (progress.limit * 2).min(self.plan.events_max);
                let sent = all_but(&sorted, &refused, &left);
                let next = Round::Shipped(more);
                self.conclude(session, lease, &sent, (sorted, refused), progress, next).await
            }
            Shipment::Broken { refused, acknowledged, mixed, why } => {
                self.counters.unknown.add(1);
                if mixed {
                    progress.limit = (count / 2).max(1);
                }
                let unclear = refused.is_empty() && !mixed;
                if unclear {
                    lease.is_out(format!("Kafka: {why}"));
                    self.troubles().unknown(count, why);
                }
                let sent: Vec<RowId> =
                    acknowledged.iter().map(|place| sorted.ids[*place]).collect();
                let next = Round::NewProducer(unclear);
                self.conclude(session, lease, &sent, (sorted, refused), progress, next).await
            }
            Shipment::Fenced(error) => {
                Signal::Fenced { error }.emit();
                // If the turn is ours in the database, a sleeper has fenced us by mistake: once more.
                match self.renew(session, lease).await {
                    Ok(true) => Round::Fenced,
                    Ok(false) => Round::TurnLost,
                    Err(error) => {
                        self.database_out(error);
                        Round::NewProducer(true)
                    }
                }
            }
            Shipment::Fatal(why) => Round::Fatal(why),
        }
    }

    /// Reads rows and sorts them out; `None` when there is nothing to do. What waits behind a row that was set
    /// aside is marked as held.
    async fn load(
        &self,
        sink: &Sink,
        lease: &Lease,
        session: &mut Held<F>,
        progress: &mut Progress,
    ) -> Result<Option<Load>, Round> {
        let releases = self.let_go(sink, lease, session, progress).await?;
        let look = progress.look(self.plan.bytes_max);
        let began = Instant::now();
        let seen = session.call(async |s| F::unsent(s, look).await).await;
        let View { rows, aside } = seen.map_err(Round::DatabaseOut)?;
        progress.aside = aside;
        self.counters.looks.add(1);
        let looked = self.looked(session, progress, &rows, began.elapsed()).await;
        looked.map_err(Round::DatabaseOut)?;
        if rows.is_empty() && !releases {
            return Ok(None);
        }
        if lease.until.passed() {
            let kept = self.renew(session, lease).await.map_err(Round::DatabaseOut)?;
            if !kept {
                return Err(Round::TurnLost);
            }
        }
        let read = rows.len();
        let sorted = sort(rows, &self.plan.template, &progress.absent);
        let blocked = sorted.blocked.len();
        if blocked > 0 && Rule::HeldIsMarked.on() {
            let held = session.call(async |s| F::hold(s, lease.turn, &sorted.blocked).await).await;
            if !held.map_err(Round::DatabaseOut)? {
                return Err(Round::TurnLost);
            }
        }
        progress.widen(blocked, self.plan.events_max);
        let count = sorted.parcels.len();
        // What the batch had no room for is there at once.
        let more = read >= look.window
            || count >= look.events_max
            || payloads(&sorted) * 2 >= look.bytes_max
            || count < read
            || releases;
        Ok(Some(Load { sorted, more }))
    }

    /// Marks what was sent and sets aside what cannot be; until the database has taken it, nothing else
    /// goes on.
    async fn conclude(
        &self,
        session: &mut Held<F>,
        lease: &Lease,
        sent: &[RowId],
        (sorted, refused): (Sorted, Vec<Refusal>),
        progress: &mut Progress,
        next: Round,
    ) -> Round {
        let Sorted { ids, mut failed, .. } = sorted;
        failed.extend(refused.into_iter().map(|Refusal { place, aggregate, error, missing }| {
            let (id, event) = (ids[place], label(&aggregate, ids[place]));
            match missing {
                Some(topic) if Rule::RowsAwaitTopic.on() => waits(id, event, topic),
                _ => Failure { id, event, error, waits_for: None },
            }
        }));
        if sent.is_empty() && failed.is_empty() {
            return next;
        }
        let mut backoff = self.backoff();
        for failure in &mut failed {
            failure.error = writable(&failure.error, |c| !c.is_control());
        }
        let missing = loop {
            match session.call(async |s| F::mark(s, lease.turn, sent, &failed).await).await {
                Ok(Marked::All) => break 0,
                Ok(Marked::Missing(rows)) => break rows,
                Ok(Marked::NotOurs) => return Round::TurnLost,
                Err(error) => {
                    // Not every database has every character.
                    for failure in &mut failed {
                        failure.error =
                            writable(&failure.error, |c| c.is_ascii_graphic() || c == ' ');
                    }
                    lease.is_out(error.clone());
                    self.database_out(error);
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        };
        self.counters.sent.add(sent.len() as u64);
        self.counters.batches.add(u64::from(!sent.is_empty()));
        for Failure { id, event, error, waits_for } in failed {
            match waits_for {
                None => {
                    self.counters.failed.add(1);
                    Signal::SetAside { seq: id.seq, event, error }.emit();
                }
                Some(topic) if progress.absent.add(&topic, Instant::now()) => {
                    Signal::TopicMissing { topic }.emit();
                }
                Some(_) => {}
            }
        }
        if missing > 0 && Rule::MissingRowsEndTurn.on() {
            Signal::WentBack { rows: missing }.emit();
            return Round::WentBack;
        }
        next
    }
}

fn payloads(sorted: &Sorted) -> usize {
    let payload = |parcel: &Parcel| parcel.record.payload.as_ref().map_or(0, Bytes::len);
    sorted.parcels.iter().map(payload).sum()
}

/// The rows of a batch without those that were refused or left.
fn all_but(sorted: &Sorted, refused: &[Refusal], left: &[usize]) -> Vec<RowId> {
    let mut sent: Vec<Option<RowId>> = sorted.ids.iter().copied().map(Some).collect();
    for place in refused.iter().map(|refusal| refusal.place).chain(left.iter().copied()) {
        sent[place] = None;
    }
    sent.into_iter().flatten().collect()
}

/// A text that the database can store: what it may not take is escaped, and it has an end.
fn writable(text: &str, plain: impl Fn(char) -> bool) -> String {
    if !Rule::ErrorIsWritable.on() {
        return text.to_owned();
    }
    let mut written = String::new();
    for c in text.chars().take(ERROR_CHARS) {
        if plain(c) { written.push(c) } else { written.extend(c.escape_unicode()) }
    }
    written
}
