//! Keeping the turn: the lease is renewed in the database, on a session of its own, three times within
//! its time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use inbox_engine::internal::Rule;
use tokio::sync::Notify;

use super::{LazySession, Pump};
use crate::{
    deadline::{Deadline, Moment},
    port::{Rounds, Seat, Shards, Turn, report},
    telemetry::{Meters, Signal},
};

/// What the keeper and the shipping task tell each other.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) turn: Turn,
    /// Until when the turn is ours for certain, by a clock that counts while this process is frozen or its machine suspended.
    pub(super) until: Deadline,
    /// Why nothing is shipped, for `status`.
    standstill: Mutex<Option<Standstill>>,
    share: Mutex<Share>,
    /// The share has changed.
    pub(super) changed: Notify,
    meters: Arc<Meters>,
}

/// What belongs to the seat, and what of it others should have.
#[derive(Clone, Debug)]
struct Share {
    shards: Shards,
    surplus: Vec<(Seat, Shards)>,
    /// Another one whenever shards are given away: what was asked before then tells of shards that are another's.
    version: u64,
}

/// Why nothing is shipped.
#[derive(Debug)]
struct Standstill {
    why: String,
    /// Whether it was told as an outage, and its end likewise.
    outage: bool,
}

impl Lease {
    /// A turn that was asked for at `asked` and given for `lease`.
    pub(super) fn new(
        (turn, shards): (Turn, Shards),
        asked: Moment,
        lease: Duration,
        meters: Arc<Meters>,
    ) -> Self {
        let share = Mutex::new(Share { shards, surplus: Vec::new(), version: 0 });
        let until = Deadline::new(asked + lease);
        Self { turn, until, standstill: Mutex::default(), share, changed: Notify::new(), meters }
    }

    /// What belongs to the seat.
    pub(super) fn shards(&self) -> Shards {
        self.share.lock().unwrap_or_else(PoisonError::into_inner).shards
    }

    /// What to tell [`Lease::learn_shards`] of a question that is asked now.
    pub(super) fn share_version(&self) -> u64 {
        self.share.lock().unwrap_or_else(PoisonError::into_inner).version
    }

    /// What the database says belongs to the seat, asked at this version.
    pub(super) fn learn_shards(&self, shards: Shards, version: u64) {
        self.change_share(|share| {
            if share.version == version || !Rule::GivenIsGiven.on() {
                share.shards = shards;
            }
        });
    }

    /// These are about to be another's: from now on they are not this relay's, even if an older answer says so.
    pub(super) fn part_with(&self, shards: Shards) {
        self.change_share(|share| {
            share.shards = share.shards.without(shards);
            share.version += 1;
        });
    }

    /// They were given, or perhaps not: the next question shows what is left.
    pub(super) fn end_giving(&self) {
        self.change_share(|share| {
            share.surplus.clear();
            share.version += 1;
        });
    }

    /// What others should have, and which seats.
    pub(super) fn surplus(&self) -> Vec<(Seat, Shards)> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner).surplus.clone()
    }

    /// What others should have, by what was asked at this version.
    pub(super) fn set_surplus(&self, surplus: Vec<(Seat, Shards)>, version: u64) {
        self.change_share(|share| {
            if share.version == version {
                share.surplus = surplus;
            }
        });
    }

    fn change_share(&self, change: impl FnOnce(&mut Share)) {
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        let before = share.clone();
        change(&mut share);
        if share.shards != before.shards || share.surplus != before.surplus {
            self.changed.notify_one();
        }
    }

    /// Says why nothing is shipped until a person acts; `false` when that was said before.
    pub(super) fn report_standstill(&self, why: &str) -> bool {
        self.replace_standstill(Some(Standstill { why: why.to_owned(), outage: false }))
            .is_none_or(|said| said.why != why)
    }

    /// Says that nothing is shipped while something is out.
    pub(super) fn report_outage(&self, why: String) {
        self.replace_standstill(Some(Standstill { why, outage: true }));
    }

    /// Says that something is shipped; `true` when a person was needed for that.
    pub(super) fn report_progress(&self) -> bool {
        self.replace_standstill(None).is_some_and(|said| !said.outage)
    }

    /// Another producer comes again and again, under the same id, though the turn is ours.
    pub(super) fn report_shared_id(&self) {
        let id = self.turn.outbox_id;
        let why = format!(
            "id_shared: two relays use transactional id {id} and keep fencing each other: the other \
             one works on a copy of this database, or still on the database from before a failover. \
             Stop it, or give the copy a new id: UPDATE outbox_relays SET outbox_id = \
             gen_random_uuid() (SQLite: lower(hex(randomblob(16))))"
        );
        if self.report_standstill(&why) && Rule::SharedIdIsTold.on() {
            Signal::IdShared { reason: why }.emit();
        }
    }

    /// Answers what was said before.
    fn replace_standstill(&self, standstill: Option<Standstill>) -> Option<Standstill> {
        self.meters.stands_still(standstill.as_ref().map(|it| (it.why.as_str(), it.outage)));
        let mut own = self.standstill.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *own, standstill)
    }

    /// What `status` reads: why nothing is shipped, and which destinations are down.
    fn report(&self) -> Option<String> {
        let own = self.standstill.lock().unwrap_or_else(PoisonError::into_inner);
        let why = own.as_ref().map(|standstill| standstill.why.clone());
        report(why, self.meters.destination_outages())
    }
}

impl<F: Rounds> Pump<F> {
    /// Renews the lease until the turn is lost. While the database is out nobody else can take it, either.
    pub(super) async fn keep(&self, lease: &Lease) {
        let mut session = LazySession::<F>::new(self.settings.clone());
        let every = self.options.lease / 3;
        loop {
            tokio::time::sleep(every).await;
            loop {
                match self.renew(&mut session, lease).await {
                    Ok(true) => break,
                    Ok(false) => return,
                    Err(error) => self.database_out(error),
                }
                tokio::time::sleep((every / 4).min(Duration::from_millis(500))).await;
            }
        }
    }

    /// The database failed while a turn lasts, for `status`, too.
    pub(super) fn database_failed(&self, lease: &Lease, error: String) {
        if Rule::FailedLookIsTold.on() {
            lease.report_outage(error.clone());
        }
        self.database_out(error);
    }

    /// Renews the lease once; `false`: another has the turn, or the outbox another id.
    pub(super) async fn renew(
        &self,
        session: &mut LazySession<F>,
        lease: &Lease,
    ) -> Result<bool, String> {
        let (asked, version) = (Moment::now(), lease.share_version());
        let (time, why) = (self.options.lease, lease.report());
        let kept =
            session.call(async |s| F::keep_turn(s, lease.turn, time, why.as_deref()).await).await?;
        self.troubles().database_works();
        let ours = kept.filter(|kept| kept.outbox_id == lease.turn.outbox_id);
        if let Some(kept) = ours {
            lease.until.extend(asked + time);
            lease.learn_shards(kept.shards, version);
        } else {
            lease.until.end();
        }
        if kept.is_some() && ours.is_none() {
            // A person gave the outbox another id: the next turn begins under it, and need not wait.
            session.call(async |s| F::give_turn_up(s, lease.turn).await).await?;
        }
        Ok(ours.is_some())
    }
}
