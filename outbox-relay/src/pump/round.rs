//! One batch: read, sent, waited for, marked.

use std::time::Instant;

use bytes::Bytes;
use inbox_engine::internal::Rule;

use super::{
    LazySession, Pump,
    keeper::Lease,
    outgoing::{OutgoingBatch, label, sort, waits},
    progress::Progress,
};
use crate::{
    port::{Marked, Rounds, RowFailure, RowId, RowPage},
    sink::{OutgoingRecord, Refusal, Shipment, Sink},
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
struct RoundInput {
    batch: OutgoingBatch,
    /// There may be more.
    more: bool,
}

impl<F: Rounds> Pump<F> {
    /// One batch: read, sent, waited for, marked.
    pub(super) async fn round(
        &self,
        sink: &Sink,
        lease: &Lease,
        session: &mut LazySession<F>,
        progress: &mut Progress,
    ) -> Round {
        let RoundInput { mut batch, mut more } =
            match self.read_rows(sink, lease, session, progress).await {
                Ok(Some(input)) => input,
                Ok(None) => return Round::Idle,
                Err(round) => return round,
            };
        let count = batch.records.len();
        let begun = Instant::now();
        let shipment = if count == 0 {
            Shipment::Done { refused: Vec::new(), left: Vec::new() }
        } else {
            sink.ship(std::mem::take(&mut batch.records), lease.until.clone()).await
        };
        match shipment {
            Shipment::Done { refused, left } => {
                if count > 0 {
                    self.troubles().kafka_works();
                    self.meters.delivery_seconds.took(begun.elapsed());
                }
                more |= !left.is_empty();
                progress.limit = (progress.limit * 2).min(self.options.events_max);
                let sent = all_but(&batch, &refused, &left);
                let next = Round::Shipped(more);
                self.conclude(session, lease, &sent, (batch, refused), progress, next).await
            }
            Shipment::Broken { refused, acknowledged, mixed, why } => {
                self.counters.unknown.add(1);
                if mixed {
                    progress.limit = (count / 2).max(1);
                }
                let unclear = refused.is_empty() && !mixed;
                if unclear {
                    lease.report_outage(format!("Kafka: {why}"));
                    self.troubles().unknown(count, why);
                }
                let sent: Vec<RowId> = acknowledged.iter().map(|place| batch.ids[*place]).collect();
                let next = Round::NewProducer(unclear);
                self.conclude(session, lease, &sent, (batch, refused), progress, next).await
            }
            Shipment::Fenced(error) => {
                self.counters.fenced.add(1);
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
    async fn read_rows(
        &self,
        sink: &Sink,
        lease: &Lease,
        session: &mut LazySession<F>,
        progress: &mut Progress,
    ) -> Result<Option<RoundInput>, Round> {
        let releases = self.let_go(sink, lease, session, progress).await?;
        let look = progress.look(self.options.bytes_max);
        let began = Instant::now();
        let seen = session.call(async |s| F::unsent(s, look).await).await;
        let RowPage { rows, aside } = seen.map_err(Round::DatabaseOut)?;
        progress.aside = aside;
        self.counters.looks.add(1);
        let looked = self.update_floor(session, progress, &rows, began.elapsed()).await;
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
        let batch = sort(rows, &self.options.template, &progress.missing_topics);
        let blocked = batch.blocked.len();
        if blocked > 0 && Rule::HeldIsMarked.on() {
            let held = session.call(async |s| F::hold(s, lease.turn, &batch.blocked).await).await;
            if !held.map_err(Round::DatabaseOut)? {
                return Err(Round::TurnLost);
            }
        }
        progress.widen(blocked, self.options.events_max);
        let count = batch.records.len();
        // What the batch had no room for is there at once.
        let more = read >= look.window
            || count >= look.events_max
            || payloads(&batch) * 2 >= look.bytes_max
            || count < read
            || releases;
        Ok(Some(RoundInput { batch, more }))
    }

    /// Marks what was sent and sets aside what cannot be; until the database has taken it, nothing else
    /// goes on.
    async fn conclude(
        &self,
        session: &mut LazySession<F>,
        lease: &Lease,
        sent: &[RowId],
        (batch, refused): (OutgoingBatch, Vec<Refusal>),
        progress: &mut Progress,
        next: Round,
    ) -> Round {
        let OutgoingBatch { ids, mut failed, appended, .. } = batch;
        failed.extend(refused.into_iter().map(|Refusal { place, aggregate, error, missing }| {
            let (id, event) = (ids[place], label(&aggregate, ids[place]));
            match missing {
                Some(topic) if Rule::RowsAwaitTopic.on() => waits(id, event, topic),
                _ => RowFailure { id, event, error, waits_for: None },
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
                    lease.report_outage(error.clone());
                    self.database_out(error);
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        };
        self.counters.sent.add(sent.len() as u64);
        self.counters.batches.add(u64::from(!sent.is_empty()));
        self.meters.delivered(sent.len(), appended);
        for RowFailure { id, event, error, waits_for } in failed {
            match waits_for {
                None => {
                    self.counters.failed.add(1);
                    Signal::SetAside { seq: id.seq, event, error }.emit();
                }
                Some(topic) if progress.missing_topics.add(&topic, Instant::now()) => {
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

fn payloads(batch: &OutgoingBatch) -> usize {
    let payload = |record: &OutgoingRecord| record.record.payload.as_ref().map_or(0, Bytes::len);
    batch.records.iter().map(payload).sum()
}

/// The rows of a batch without those that were refused or left.
fn all_but(batch: &OutgoingBatch, refused: &[Refusal], left: &[usize]) -> Vec<RowId> {
    let mut sent: Vec<Option<RowId>> = batch.ids.iter().copied().map(Some).collect();
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
