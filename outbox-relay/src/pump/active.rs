//! Having the turn: read, send, wait, mark, and again.

use std::time::{Duration, Instant};

use bytes::Bytes;
use inbox_engine::Rule;

use super::{
    End, Held, Pump,
    fencings::Fencings,
    keeper::Lease,
    parcels::{Sorted, sort},
};
use crate::{
    port::{Failure, Feed, Marked, RowId, Turn},
    sink::{ConnectError, Parcel, Refusal, Shipment, Sink, SinkSettings},
    telemetry::Signal,
};

/// The longest error that is written on a row.
const ERROR_CHARS: usize = 2_000;

/// How a turn ended.
enum Over {
    /// The relay ends.
    Ended(End),
    /// Another has the turn, or nobody.
    Lost,
    /// The database went back to an older state: what it says of this turn may be older, too.
    WentBack,
}

/// What a round came to.
enum Round {
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

impl<F: Feed> Pump<F> {
    /// Ships until the turn is lost (`None`) or the relay ends.
    pub(super) async fn have_turn(
        &self,
        turn: Turn,
        lease: &Lease,
        session: &mut Held<F>,
    ) -> Option<End> {
        let too_late = async {
            self.asked_to_end().await;
            tokio::time::sleep(self.plan.shutdown_deadline).await;
        };
        let over = tokio::select! {
            over = self.work(turn, lease, session) => over,
            () = self.keep(lease) => Over::Lost,
            () = self.prune_for_ever() => Over::Lost,
            () = too_late => Over::Ended(End::CutShort),
        };
        // What is still on its way is given up; at the broker it is fenced in any case.
        lease.until.end();
        if matches!(over, Over::Lost) {
            Signal::TurnLost { fence: turn.fence }.emit();
            return None;
        }
        let give_up = session.call(async |s| F::give_turn_up(s, turn).await);
        // Whoever stands by waits for the lease to end when this comes to nothing.
        let _ = tokio::time::timeout(Duration::from_secs(2), give_up).await;
        match over {
            Over::Ended(end) => Some(end),
            Over::Lost | Over::WentBack => None,
        }
    }

    /// A producer after the other, until something ends it.
    async fn work(&self, turn: Turn, lease: &Lease, session: &mut Held<F>) -> Over {
        let mut backoff = self.backoff();
        let mut limit = self.plan.events_max;
        let (mut fencings, mut asked) = (Fencings::default(), None);
        while !self.ending() {
            let sink = tokio::select! {
                sink = Sink::connect(self.sink_settings(turn)) => sink,
                () = self.asked_to_end() => return Over::Ended(End::Shutdown),
            };
            let sink = match sink {
                Ok(sink) => sink,
                Err(ConnectError::Fatal(why)) => return Over::Ended(End::KafkaFatal(why)),
                Err(ConnectError::Outage(why)) => {
                    self.kafka_out(lease, why);
                    self.pause(backoff.next()).await;
                    continue;
                }
            };
            // The producer has the newest epoch now. Only if the turn is still ours may it be used: a relay
            // that slept between taking its turn and coming here has fenced its successor, not the other
            // way round, and must stop.
            match self.renew(session, lease).await {
                Ok(true) => {}
                Ok(false) => return Over::Lost,
                Err(error) => {
                    self.database_out(error);
                    self.pause(backoff.next()).await;
                    continue;
                }
            }
            while self.may_read(lease, session, &mut asked).await {
                match self.round(&sink, lease, session, &mut limit).await {
                    Round::Shipped(more) => {
                        backoff.reset();
                        went(&fencings, turn, lease);
                        if !more {
                            self.rest().await;
                        }
                    }
                    Round::Idle => {
                        went(&fencings, turn, lease);
                        self.rest().await;
                    }
                    Round::NewProducer(pause) => {
                        if pause {
                            self.pause(backoff.next()).await;
                        }
                        break;
                    }
                    Round::Fenced => {
                        fencings.add(Instant::now());
                        if fencings.go_on(Instant::now()) {
                            id_shared(turn, lease);
                        }
                        self.pause(backoff.next()).await;
                        break;
                    }
                    Round::DatabaseOut(error) => {
                        if Rule::FailedLookIsTold.on() {
                            lease.stands_still(Some(error.clone()));
                        }
                        self.database_out(error);
                        self.pause(backoff.next()).await;
                    }
                    Round::TurnLost => return Over::Lost,
                    Round::WentBack => return Over::WentBack,
                    Round::Fatal(why) => return Over::Ended(End::KafkaFatal(why)),
                }
            }
        }
        Over::Ended(End::Shutdown)
    }

    /// One batch: read, sent, waited for, marked.
    async fn round(
        &self,
        sink: &Sink,
        lease: &Lease,
        session: &mut Held<F>,
        limit: &mut usize,
    ) -> Round {
        let (events_max, bytes_max) = (*limit, self.plan.bytes_max);
        let rows = match session.call(async |s| F::unsent(s, events_max, bytes_max).await).await {
            Ok(rows) => rows,
            Err(error) => return Round::DatabaseOut(error),
        };
        self.counters.looks.add(1);
        if rows.is_empty() {
            return Round::Idle;
        }
        if lease.until.passed() {
            match self.renew(session, lease).await {
                Ok(true) => {}
                Ok(false) => return Round::TurnLost,
                Err(error) => return Round::DatabaseOut(error),
            }
        }
        let read = rows.len();
        let mut sorted = sort(rows, &self.plan.template);
        let count = sorted.parcels.len();
        // What the batch had no room for is there at once.
        let more = read >= *limit || payloads(&sorted) * 2 >= bytes_max || count < read;
        let shipment = if count == 0 {
            Shipment::Done { refused: Vec::new(), left: Vec::new() }
        } else {
            sink.ship(std::mem::take(&mut sorted.parcels), lease.until.clone()).await
        };
        match shipment {
            Shipment::Done { refused, left } => {
                *limit = (*limit * 2).min(self.plan.events_max);
                let sent = all_but(&sorted, &refused, &left);
                self.conclude(session, lease, &sent, sorted, refused, Round::Shipped(more)).await
            }
            Shipment::Broken { refused, acknowledged, mixed, why } => {
                self.counters.unknown.add(1);
                if mixed {
                    *limit = (count / 2).max(1);
                }
                let unclear = refused.is_empty() && !mixed;
                if unclear {
                    lease.stands_still(Some(format!("Kafka: {why}")));
                    Signal::Unknown { rows: count, error: why }.emit();
                }
                let sent: Vec<RowId> =
                    acknowledged.iter().map(|place| sorted.ids[*place]).collect();
                let next = Round::NewProducer(unclear);
                self.conclude(session, lease, &sent, sorted, refused, next).await
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

    /// Marks what was sent and sets aside what cannot be; until the database has taken it, nothing else
    /// goes on.
    async fn conclude(
        &self,
        session: &mut Held<F>,
        lease: &Lease,
        sent: &[RowId],
        sorted: Sorted,
        refused: Vec<Refusal>,
        next: Round,
    ) -> Round {
        let Sorted { ids, labels, mut failed, .. } = sorted;
        failed.extend(refused.into_iter().map(|Refusal { place, error }| Failure {
            id: ids[place],
            event: labels[place].clone(),
            error,
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
                    lease.stands_still(Some(error.clone()));
                    self.database_out(error);
                    tokio::time::sleep(backoff.next()).await;
                }
            }
        };
        self.counters.sent.add(sent.len() as u64);
        self.counters.batches.add(u64::from(!sent.is_empty()));
        self.counters.failed.add(failed.len() as u64);
        for Failure { id, event, error } in failed {
            Signal::SetAside { seq: id.seq, event, error }.emit();
        }
        if missing > 0 && Rule::MissingRowsEndTurn.on() {
            Signal::WentBack { rows: missing }.emit();
            return Round::WentBack;
        }
        next
    }

    /// Waits until there may be something to do.
    async fn rest(&self) {
        let poll = async {
            if self.plan.poll_interval.is_zero() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(self.plan.poll_interval).await;
        };
        tokio::select! {
            () = self.bells.rows.notified() => {}
            () = poll => {}
            () = self.asked_to_end() => {}
        }
    }

    fn kafka_out(&self, lease: &Lease, why: String) {
        self.counters.outages.add(1);
        lease.stands_still(Some(why.clone()));
        Signal::KafkaOutage { error: why }.emit();
    }

    fn sink_settings(&self, turn: Turn) -> SinkSettings {
        let mut settings = self.plan.sink.clone();
        let id = |prefix: &String| format!("{prefix}-{}", turn.outbox_id.simple());
        settings.transactional_id = self.plan.fencing.as_ref().map(id);
        settings
    }
}

/// A round went well.
fn went(fencings: &Fencings, turn: Turn, lease: &Lease) {
    if fencings.go_on(Instant::now()) {
        id_shared(turn, lease);
    } else {
        moving(lease);
    }
}

/// Another producer comes again and again, under the same id, though the turn is ours.
fn id_shared(turn: Turn, lease: &Lease) {
    let id = turn.outbox_id;
    let why = format!(
        "id_shared: another relay uses this outbox's id {id} at the broker, and each breaks the other's \
         batches off: one of a copy of this database, or one that still works on the database before a \
         failover. End it, or give the copy an id of its own: UPDATE outbox_relays SET outbox_id = \
         gen_random_uuid() (SQLite: lower(hex(randomblob(16))))"
    );
    if lease.stands_still(Some(why.clone())).as_ref() != Some(&why) {
        Signal::IdShared { reason: why }.emit();
    }
}

fn moving(lease: &Lease) {
    if lease.stands_still(None).is_some() {
        Signal::Moving.emit();
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
