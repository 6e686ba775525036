//! Having the turn: read, send, wait, mark, and again.

use std::time::{Duration, Instant};

use inbox_engine::internal::Rule;

use super::{
    LazySession, Pump, PumpEnd, fencings::Fencings, keeper::Lease, progress::Progress, round::Round,
};
use crate::{
    port::{Owners, Turn},
    sink::{ConnectError, Sink, SinkSettings},
    telemetry::Signal,
};

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
        let mut backoff = self.backoff();
        let mut progress = Progress::new(self.options.events_max, Instant::now());
        let (mut fencings, mut asked) = (Fencings::default(), None);
        while !self.is_ending() {
            let sink = tokio::select! {
                sink = Sink::connect(self.sink_settings(turn)) => sink,
                () = self.wait_for_shutdown() => return TurnEnd::Ended(PumpEnd::Shutdown),
            };
            let sink = match sink {
                Ok(sink) => sink,
                Err(ConnectError::Fatal(why)) => return TurnEnd::Ended(PumpEnd::KafkaFatal(why)),
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
                Ok(false) => return TurnEnd::Lost,
                Err(error) => {
                    self.database_out(error);
                    self.pause(backoff.next()).await;
                    continue;
                }
            }
            while self.may_read(lease, session, (&mut progress, &mut asked)).await {
                match self.round(&sink, lease, session, &mut progress).await {
                    Round::Shipped(more) => {
                        backoff.reset();
                        self.note_success(&fencings, turn, lease);
                        if !more {
                            self.rest(&mut progress).await;
                        }
                    }
                    Round::Idle => {
                        self.note_success(&fencings, turn, lease);
                        self.rest(&mut progress).await;
                    }
                    Round::NewProducer(pause) => {
                        if pause {
                            self.pause(backoff.next()).await;
                        }
                        break;
                    }
                    Round::Fenced => {
                        fencings.add(Instant::now());
                        if fencings.persist(Instant::now()) {
                            id_shared(turn, lease);
                        }
                        self.pause(backoff.next()).await;
                        break;
                    }
                    Round::DatabaseOut(error) => {
                        if Rule::FailedLookIsTold.on() {
                            lease.report_outage(error.clone());
                        }
                        self.database_out(error);
                        self.pause(backoff.next()).await;
                    }
                    Round::TurnLost => return TurnEnd::Lost,
                    Round::WentBack => return TurnEnd::WentBack,
                    Round::Fatal(why) => return TurnEnd::Ended(PumpEnd::KafkaFatal(why)),
                }
            }
        }
        TurnEnd::Ended(PumpEnd::Shutdown)
    }

    /// A round went well.
    fn note_success(&self, fencings: &Fencings, turn: Turn, lease: &Lease) {
        self.troubles().database_works();
        if fencings.persist(Instant::now()) {
            id_shared(turn, lease);
        } else if lease.report_progress() {
            Signal::Moving.emit();
        }
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

/// Another producer comes again and again, under the same id, though the turn is ours.
fn id_shared(turn: Turn, lease: &Lease) {
    let id = turn.outbox_id;
    let why = format!(
        "id_shared: another relay uses this outbox's id {id} at the broker, and each breaks the other's \
         batches off: one of a copy of this database, or one that still works on the database before a \
         failover. End it, or give the copy an id of its own: UPDATE outbox_relays SET outbox_id = \
         gen_random_uuid() (SQLite: lower(hex(randomblob(16))))"
    );
    if lease.report_standstill(&why) {
        Signal::IdShared { reason: why }.emit();
    }
}
