//! One batch: read, sent, waited for, marked.

use std::{collections::HashSet, time::Instant};

use inbox_engine::internal::Rule;

use super::{
    Pump,
    dispatch::{Concluded, kafka},
    outgoing::{OutgoingBatch, SentRow, Sorter, label, waits},
    publish_span::PublishSpan,
    serve::Refill,
    work::{NewRows, Work},
};
use crate::{
    port::{Marked, Rounds, Row, RowFailure},
    sink::{Forbidden, OutgoingRecord, Refusal, Shipment, Sink},
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
    /// The user lacks a right without which Kafka takes nothing.
    Forbidden(Forbidden),
}

/// What a round is to send.
struct RoundInput {
    batch: OutgoingBatch,
    /// There may be more.
    more: bool,
}

impl<F: Rounds> Pump<F> {
    /// One batch: read, sent, waited for, marked. Without a producer what is for Kafka stays where it is.
    pub(super) async fn round(&self, sink: Option<&Sink>, work: &mut Work<'_, F>) -> Round {
        match self.try_round(sink, work).await {
            Ok(round) | Err(round) => round,
        }
    }

    async fn try_round(&self, sink: Option<&Sink>, work: &mut Work<'_, F>) -> Result<Round, Round> {
        self.serve_now(work).await?;
        work.new_rows = NewRows::default();
        if sink.is_none() && !self.make_room(work).await? {
            return Ok(Round::Idle);
        }
        let Some(RoundInput { mut batch, mut more }) = self.read_rows(sink, work).await? else {
            return Ok(Round::Idle);
        };
        self.mark_failed(work, &mut batch).await?;
        let count = batch.records.len();
        let begun = Instant::now();
        let records = std::mem::take(&mut batch.records);
        let topics = if self.meters.is_any_forbidden() { topics(&records) } else { Vec::new() };
        let shipment = match sink {
            Some(sink) if count > 0 => {
                let span = PublishSpan::begin(&records);
                let shipped = sink.ship(records, work.lease.until.clone());
                match self.serve(work, Refill::Meanwhile, shipped).await? {
                    Some(shipment) => {
                        span.end(&shipment);
                        shipment
                    }
                    None => return Ok(Round::Shipped(true)), // nobody asked for that
                }
            }
            _ => Shipment::Done { refused: Vec::new(), left: Vec::new() },
        };
        match shipment {
            Shipment::Done { refused, left } => {
                if count > 0 {
                    work.kafka_fails = None;
                    self.troubles().kafka_works();
                    self.meters.kafka.note_answer(begun.elapsed());
                }
                more |= !left.is_empty() || work.new_rows.any();
                let progress = &mut work.progress;
                progress.limit = (progress.limit * 2).min(self.options.events_max);
                let sent = all_but(&batch.rows, &refused, &left);
                self.note_sent(all_but(&topics, &refused, &left));
                self.conclude(work, &sent, (batch, refused)).await?;
                Ok(Round::Shipped(more))
            }
            Shipment::Broken { refused, acknowledged, mixed, why } => {
                self.counters.unknown.add(1);
                if mixed {
                    work.progress.limit = (count / 2).max(1);
                }
                let unclear = refused.is_empty() && !mixed;
                if unclear {
                    work.kafka_fails.get_or_insert_with(Instant::now);
                    work.lease.report_outage(format!("Kafka: {why}"));
                    self.troubles().unknown(count, why);
                }
                let sent: Vec<SentRow> =
                    acknowledged.iter().map(|place| batch.rows[*place]).collect();
                self.conclude(work, &sent, (batch, refused)).await?;
                Ok(Round::NewProducer(unclear))
            }
            Shipment::Fenced(error) => Ok(self.note_fencing(work, error).await),
            Shipment::Forbidden(forbidden) => Ok(Round::Forbidden(forbidden)),
        }
    }

    /// Another producer has come. If the turn is ours in the database, a sleeper has fenced us by mistake: once more.
    async fn note_fencing(&self, work: &mut Work<'_, F>, error: String) -> Round {
        self.counters.fenced.add(1);
        Signal::Fenced { error }.emit();
        match self.renew(work.session, work.lease).await {
            Ok(true) => Round::Fenced,
            Ok(false) => Round::TurnLost,
            Err(error) => {
                self.database_out(error);
                Round::NewProducer(true)
            }
        }
    }

    /// Without Kafka rows are read for what has room: whether there is any.
    async fn make_room(&self, work: &mut Work<'_, F>) -> Result<bool, Round> {
        if !work.dispatch.is_low() {
            work.dispatch.spill(Instant::now());
            self.mark_concluded(work).await?;
            work.more = true;
        }
        Ok(work.dispatch.is_low())
    }

    /// Reads rows for the other destinations while Kafka is waited for.
    pub(super) async fn refill(&self, work: &mut Work<'_, F>) -> Result<(), Round> {
        work.more = false;
        work.looked = Instant::now();
        // What is known of rows is known of one session.
        if !work.knows_session() {
            return Ok(());
        }
        if let Some(RoundInput { mut batch, .. }) = self.read_rows(None, work).await? {
            self.mark_failed(work, &mut batch).await?;
        }
        Ok(())
    }

    /// Marks what cannot be sent now before anything is sent: what becomes of it meanwhile is not undone.
    async fn mark_failed(
        &self,
        work: &mut Work<'_, F>,
        batch: &mut OutgoingBatch,
    ) -> Result<(), Round> {
        let failed = std::mem::take(&mut batch.failed);
        self.mark(work, &mut Concluded { failed, ..Concluded::default() }).await
    }

    /// Reads rows and sorts them out; `None` when there is nothing to do. What waits behind a row that was set
    /// aside is marked as held; what other destinations take is taken in.
    async fn read_rows(
        &self,
        sink: Option<&Sink>,
        work: &mut Work<'_, F>,
    ) -> Result<Option<RoundInput>, Round> {
        work.dispatch.spill(Instant::now());
        self.mark_concluded(work).await?;
        if !work.knows_session() {
            // What is known of rows is known of one session: the loop asks anew.
            return Ok(Some(RoundInput { batch: OutgoingBatch::default(), more: true }));
        }
        work.dispatch.begin_look();
        let releases = self.let_go(sink, work).await?;
        let mut rows = self.due_rows(work).await?;
        work.looked = Instant::now();
        let known = (work.dispatch.known(), work.dispatch.bytes());
        let look = work.progress.look(self.options.bytes_max, known, Instant::now());
        let began = Instant::now();
        let seen = work.session.call(async |s| F::unsent(s, look).await).await;
        let page = seen.map_err(Round::DatabaseOut)?;
        let took = began.elapsed();
        work.progress.note_look(&page, took, Instant::now());
        let unsent = page.rows;
        self.counters.looks.add(1);
        let looked = self.update_floor(work, &unsent, took).await;
        looked.map_err(Round::DatabaseOut)?;
        let read = unsent.len();
        let bytes: usize = unsent.iter().map(Row::bytes).sum();
        // Somebody may have let a row go between the two looks.
        let due: HashSet<i64> = rows.iter().map(|row| row.id.seq).collect();
        rows.extend(unsent.into_iter().filter(|row| !due.contains(&row.id.seq)));
        work.more = releases || work.progress.waits_for_room(work.dispatch.is_low());
        if rows.is_empty() && !releases {
            return Ok(None);
        }
        if work.lease.until.passed() {
            let kept = self.renew(work.session, work.lease).await.map_err(Round::DatabaseOut)?;
            if !kept {
                return Err(Round::TurnLost);
            }
        }
        let sorter = Sorter {
            format: &self.options.format,
            routes: &self.options.routes,
            missing_topics: &work.progress.missing_topics,
            kafka: sink.is_some(),
            kafka_max: if work.dispatch.is_used() { work.progress.limit } else { usize::MAX },
            destinations: &self.options.destinations,
        };
        let mut batch = sorter.sort(rows, &mut work.dispatch, Instant::now());
        let blocked = batch.blocked.len();
        if blocked > 0 && Rule::HeldIsMarked.on() {
            let turn = work.lease.turn;
            let held = work.session.call(async |s| F::hold(s, turn, &batch.blocked).await).await;
            if !held.map_err(Round::DatabaseOut)? {
                return Err(Round::TurnLost);
            }
        }
        let widened = work.progress.widen(blocked + batch.passed, self.options.events_max);
        // What the batch had no room for is there at once.
        let full = read >= look.window || read >= look.events_max || bytes * 2 >= look.bytes_max;
        work.dispatch.note_look(full, Instant::now());
        let count = batch.records.len();
        let nothing = count + blocked + batch.failed.len() == 0 && batch.taken < batch.passed;
        let hides = full && nothing && !widened && work.dispatch.is_used();
        let moved = hides && move_aside(&mut batch, work);
        let onward = moved || (full && (blocked > 0 || widened));
        work.more |= onward || (full && batch.taken > 0);
        let more = releases
            || (count > 0 && (full || count + batch.taken < read))
            || (sink.is_some() && onward)
            || (!work.dispatch.is_used() && (full || count < read))
            || work.wants_rows();
        Ok(Some(RoundInput { batch, more }))
    }

    /// Marks what was sent to Kafka, and sets aside what it refused.
    async fn conclude(
        &self,
        work: &mut Work<'_, F>,
        sent: &[SentRow],
        (batch, refused): (OutgoingBatch, Vec<Refusal>),
    ) -> Result<(), Round> {
        let OutgoingBatch { rows, appended, .. } = batch;
        let mut failed = Vec::new();
        for Refusal { place, aggregate, topic, error, waits: what } in refused {
            let SentRow { id, attempts, .. } = rows[place];
            let event = label(&aggregate, id);
            failed.push(match what {
                Some(what) if Rule::RowsAwaitTopic.on() => {
                    self.note_wait(&mut work.progress.missing_topics, &topic, what);
                    waits(id, event, attempts, topic, what)
                }
                _ => RowFailure::new(id, event, attempts, error),
            });
        }
        let of = |waited: bool| sent.iter().filter(move |row| row.waited == waited);
        let ids = |waited| of(waited).map(|row| row.id).collect();
        let mut concluded = Concluded { sent: ids(false), late: ids(true), failed };
        self.mark(work, &mut concluded).await?;
        self.counters.batches.add(u64::from(!sent.is_empty()));
        self.meters.delivered(sent.len(), appended);
        Ok(())
    }

    /// Marks rows; until the database has taken it, nothing else goes on.
    pub(super) async fn mark(
        &self,
        work: &mut Work<'_, F>,
        concluded: &mut Concluded,
    ) -> Result<(), Round> {
        if concluded.is_empty() {
            return Ok(());
        }
        let mut backoff = self.backoff();
        for failure in &mut concluded.failed {
            failure.error = writable(&failure.error, |c| !c.is_control());
        }
        let turn = work.lease.turn;
        let missing = loop {
            let marks = concluded.marks();
            match work.session.call(async |s| F::mark(s, turn, marks).await).await {
                Ok(Marked::All) => break 0,
                Ok(Marked::Missing(rows)) => break rows,
                Ok(Marked::NotOurs) => return Err(Round::TurnLost),
                Err(error) => {
                    // Not every database has every character.
                    for failure in &mut concluded.failed {
                        failure.error =
                            writable(&failure.error, |c| c.is_ascii_graphic() || c == ' ');
                    }
                    work.lease.report_outage(error.clone());
                    self.database_out(error);
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        };
        self.counters.sent.add((concluded.sent.len() + concluded.late.len()) as u64);
        if !concluded.late.is_empty() {
            work.progress.expect_releases();
            work.more = true;
        }
        let now = Instant::now();
        for RowFailure { id, event, error, waits_for, attempts, retry_after } in &concluded.failed {
            match (waits_for, retry_after) {
                (None, None) => {
                    self.counters.failed.add(1);
                    let (event, error) = (event.clone(), error.clone());
                    Signal::SetAside { seq: id.seq, event, error }.emit();
                }
                (None, Some(after)) => {
                    self.counters.retries.add(u64::from(*attempts > 0));
                    work.progress.expect_due(*after, now);
                }
                (Some(_), _) => {}
            }
        }
        if missing > 0 && Rule::MissingRowsEndTurn.on() {
            Signal::WentBack { rows: missing }.emit();
            return Err(Round::WentBack);
        }
        Ok(())
    }
}

/// Rows that nothing becomes of now hide those behind them: they wait in the database. Answers whether any do.
fn move_aside<F: Rounds>(batch: &mut OutgoingBatch, work: &mut Work<'_, F>) -> bool {
    for overflow in std::mem::take(&mut batch.overflow) {
        let name = match &overflow.lane {
            None if !work.kafka_hides() => continue,
            None => {
                work.kafka_waits = true;
                kafka()
            }
            Some(lane) => {
                work.dispatch.note_overflow(lane, &overflow.aggregate, Instant::now());
                work.dispatch.name(lane)
            }
        };
        batch.failed.push(overflow.failure(name));
    }
    !batch.failed.is_empty()
}

/// The topic of each record.
fn topics(records: &[OutgoingRecord]) -> Vec<String> {
    records.iter().map(|record| record.topic.clone()).collect()
}

/// What is of a batch without what is of rows that were refused or left.
fn all_but<T: Clone>(all: &[T], refused: &[Refusal], left: &[usize]) -> Vec<T> {
    let mut sent: Vec<Option<T>> = all.iter().cloned().map(Some).collect();
    for place in refused.iter().map(|refusal| refusal.place).chain(left.iter().copied()) {
        if let Some(sent) = sent.get_mut(place) {
            *sent = None;
        }
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
