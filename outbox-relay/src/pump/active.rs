//! Having the turn: read, send, wait, mark, and again.

use std::time::{Duration, Instant};

use inbox_engine::internal::Rule;

use super::{
    LazySession, Pump, PumpEnd, PumpOptions,
    backoff::Backoff,
    dispatch::{Bounds, Dispatch, kafka},
    fencings::Fencings,
    keeper::Lease,
    round::Round,
    serve::Refill,
    work::Work,
};
use crate::{
    port::{Owners, Turn},
    sink::{ConnectError, Forbidden, Sink, SinkSettings},
    telemetry::Signal,
};

/// So many batches of rows are on their way to destinations other than Kafka, or queued for them.
const ROWS: usize = 4;

/// How a turn ended.
enum TurnEnd {
    /// The relay ends.
    Ended(PumpEnd),
    /// Another has the turn, or nobody.
    Lost,
    /// The database went back to an older state: what it says of this turn may be older, too.
    WentBack,
}

impl<F: Owners> Pump<F> {
    /// Ships until the turn is lost (`None`) or the relay ends.
    pub(super) async fn have_turn(
        &self,
        turn: Turn,
        lease: &Lease,
        session: &mut LazySession<F>,
    ) -> Option<PumpEnd> {
        let too_late = async {
            self.wait_for_shutdown().await;
            tokio::time::sleep(self.options.shutdown_deadline).await;
        };
        let over = tokio::select! {
            over = self.work(turn, lease, session) => over,
            () = self.keep(lease) => TurnEnd::Lost,
            () = self.prune_for_ever() => TurnEnd::Lost,
            () = too_late => TurnEnd::Ended(PumpEnd::CutShort),
        };
        // What is still on its way is given up; at the broker it is fenced in any case.
        lease.until.end();
        if matches!(over, TurnEnd::Lost) {
            Signal::TurnLost { fence: turn.fence }.emit();
            return None;
        }
        let give_up = session.call(async |s| F::give_turn_up(s, turn).await);
        // Whoever stands by waits for the lease to end when this comes to nothing.
        let _ = tokio::time::timeout(Duration::from_secs(2), give_up).await;
        match over {
            TurnEnd::Ended(end) => Some(end),
            TurnEnd::Lost | TurnEnd::WentBack => None,
        }
    }

    /// A producer after the other, until something ends it.
    async fn work(&self, turn: Turn, lease: &Lease, session: &mut LazySession<F>) -> TurnEnd {
        let dispatch = self.new_dispatch();
        let mut work = Work::new(lease, session, self.options.events_max, dispatch);
        match self.ship(turn, &mut work).await {
            Err(TurnEnd::Ended(end)) => {
                // The turn is ours still: what was delivered is marked.
                let finish = self.finish_calls(&mut work);
                _ = tokio::time::timeout(self.options.shutdown_deadline, finish).await;
                TurnEnd::Ended(end)
            }
            Err(end) => end,
            Ok(()) => match self.finish_calls(&mut work).await {
                Err(Round::TurnLost) => TurnEnd::Lost,
                Err(Round::WentBack) => TurnEnd::WentBack,
                Ok(()) | Err(_) => TurnEnd::Ended(PumpEnd::Shutdown),
            },
        }
    }

    /// Ships until the relay is asked to end.
    async fn ship(&self, turn: Turn, work: &mut Work<'_, F>) -> Result<(), TurnEnd> {
        let mut backoff = self.backoff();
        let mut fencings = Fencings::default();
        // Rows may be read while a producer is made ready.
        while self.may_read(work).await {
            let Some(sink) = self.producer(turn, work, &mut backoff).await? else { continue };
            // The producer has the newest epoch now. Only if the turn is still ours may it be used: a relay
            // that slept between taking its turn and coming here has fenced its successor, not the other
            // way round, and must stop.
            match self.renew(work.session, work.lease).await {
                Ok(true) => {}
                Ok(false) => return Err(TurnEnd::Lost),
                Err(error) => {
                    self.database_out(error);
                    self.pause(backoff.next()).await;
                    continue;
                }
            }
            while self.may_read(work).await {
                let round = self.round(sink.as_ref(), work).await;
                let next = match round {
                    Round::Shipped(more) => {
                        backoff.reset();
                        self.note_success(&fencings, turn, work);
                        if more { Ok(()) } else { self.rest(work).await }
                    }
                    Round::Idle => {
                        self.note_success(&fencings, turn, work);
                        self.rest(work).await
                    }
                    Round::NewProducer(pause) => {
                        if pause {
                            work.lose_kafka();
                            self.pause_serving(work, backoff.next()).await.or_else(ended)?;
                        }
                        break;
                    }
                    Round::Forbidden(forbidden) => {
                        self.kafka_forbids(work.lease, forbidden);
                        work.lose_kafka();
                        self.pause_serving(work, backoff.next()).await.or_else(ended)?;
                        break;
                    }
                    Round::Fenced => {
                        fencings.add(Instant::now());
                        if fencings.persist(Instant::now()) {
                            id_shared(turn, work.lease);
                        }
                        work.lose_kafka();
                        self.pause_serving(work, backoff.next()).await.or_else(ended)?;
                        break;
                    }
                    round => Err(round),
                };
                if let Err(round) = next {
                    match round {
                        Round::DatabaseOut(error) => {
                            if Rule::FailedLookIsTold.on() {
                                work.lease.report_outage(error.clone());
                            }
                            self.database_out(error);
                            self.pause(backoff.next()).await;
                        }
                        round => ended(round)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes a producer ready, where Kafka is a destination; `None`: not now.
    async fn producer(
        &self,
        turn: Turn,
        work: &mut Work<'_, F>,
        backoff: &mut Backoff,
    ) -> Result<Option<Option<Sink>>, TurnEnd> {
        if !self.options.routes.reach_kafka() {
            return Ok(Some(None));
        }
        work.lose_kafka();
        let connected = async {
            tokio::select! {
                sink = Sink::connect(self.sink_settings(turn)) => Some(sink),
                () = self.wait_for_shutdown() => None,
            }
        };
        let connected = match self.serve(work, Refill::Meanwhile, connected).await {
            Ok(connected) => connected.flatten(),
            Err(round) => return ended(round).map(|()| None),
        };
        match connected {
            None => Ok(None),
            Some(Ok(sink)) => {
                work.without_kafka = None;
                if self.options.fencing.is_some() {
                    self.meters.note_allowed("transactional_id", None);
                }
                if std::mem::take(&mut work.kafka_waits) {
                    work.progress.let_destination_go(kafka());
                }
                Ok(Some(Some(sink)))
            }
            Some(Err(ConnectError::Fatal(why))) => Err(TurnEnd::Ended(PumpEnd::KafkaFatal(why))),
            Some(Err(ConnectError::Forbidden(forbidden))) => {
                self.kafka_forbids(work.lease, forbidden);
                self.pause_serving(work, backoff.next()).await.or_else(ended)?;
                Ok(None)
            }
            Some(Err(ConnectError::Outage(why))) => {
                self.kafka_out(work.lease, why);
                self.pause_serving(work, backoff.next()).await.or_else(ended)?;
                Ok(None)
            }
        }
    }

    fn new_dispatch(&self) -> Dispatch {
        let PumpOptions { retry, destinations, routes, events_max, bytes_max, .. } = &self.options;
        let bounds = destinations.iter().map(Bounds::of).collect();
        let mut dispatch = Dispatch::new(*retry, bounds, events_max * ROWS, bytes_max * ROWS);
        if let ([destination], false) = (&destinations[..], routes.reach_kafka()) {
            dispatch.keep_what_waits(destination.one_scope);
        }
        dispatch
    }

    /// A round went well.
    fn note_success(&self, fencings: &Fencings, turn: Turn, work: &Work<'_, F>) {
        let lease = work.lease;
        self.troubles().database_works();
        if fencings.persist(Instant::now()) {
            id_shared(turn, lease);
        } else if let Some(why) = self.standstill(work) {
            lease.report_outage(why);
        } else if lease.report_progress() {
            Signal::Moving.emit();
        }
    }

    /// Why nothing goes anywhere, as far as it is not Kafka's: that is told where it is met.
    fn standstill(&self, work: &Work<'_, F>) -> Option<String> {
        if self.options.routes.reach_kafka() { None } else { work.dispatch.standstill() }
    }

    fn kafka_forbids(&self, lease: &Lease, forbidden: Forbidden) {
        lease.report_standstill(&forbidden.to_string());
        self.note_forbidden(forbidden);
    }

    fn kafka_out(&self, lease: &Lease, why: String) {
        self.counters.outages.add(1);
        lease.report_outage(why.clone());
        self.troubles().kafka_out(why);
    }

    fn sink_settings(&self, turn: Turn) -> SinkSettings {
        let mut settings = self.options.sink.clone();
        let id = |prefix: &String| format!("{prefix}-{}", turn.outbox_id.simple());
        settings.transactional_id = self.options.fencing.as_ref().map(id);
        settings
    }
}

/// A round that cannot go on ends the turn; what the database is out for is tried again by the next round.
fn ended(round: Round) -> Result<(), TurnEnd> {
    match round {
        Round::TurnLost => Err(TurnEnd::Lost),
        Round::WentBack => Err(TurnEnd::WentBack),
        _ => Ok(()),
    }
}

/// Another producer comes again and again, under the same id, though the turn is ours.
fn id_shared(turn: Turn, lease: &Lease) {
    let id = turn.outbox_id;
    let why = format!(
        "id_shared: two relays use transactional id {id} and keep fencing each other: the other \
         one works on a copy of this database, or still on the database from before a failover. \
         Stop it, or give the copy a new id: UPDATE outbox_relays SET outbox_id = \
         gen_random_uuid() (SQLite: lower(hex(randomblob(16))))"
    );
    if lease.report_standstill(&why) {
        Signal::IdShared { reason: why }.emit();
    }
}
