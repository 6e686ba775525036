//! The faults, one after the other. Some of them hit the relay and the database at once.

use std::time::{Duration, Instant};

use serde::Serialize;
use sqlx::PgConnection;

use super::{LEASE, MARGIN, Run, database, now_ms};
use crate::StopMode;

/// What kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The active relay is killed.
    Kill,
    /// The active relay is frozen past its lease.
    Freeze,
    /// The primary dies, and a replica that lags is promoted.
    Failover,
    /// The database is put back to an older copy.
    Restore,
    /// The database's clock jumps.
    ClockStep,
    /// Rows name topics that are created later.
    MissingTopics,
}

impl Kind {
    /// Whether the database is in an older state afterwards.
    pub(super) fn goes_back(self) -> bool {
        matches!(self, Self::Failover | Self::Restore)
    }
}

/// One fault, and when it was, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultTime {
    pub(crate) kind: Kind,
    /// From when on the database may have lost what was committed; just before where it loses nothing.
    pub(crate) since_ms: i64,
    /// Just before.
    pub(crate) began_ms: i64,
    /// When the outbox moved again.
    pub(crate) moved_ms: i64,
}

/// A relay that woke without a turn: another had it all the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    /// Its number.
    pub(super) relay: usize,
    pub(super) resumed_ms: i64,
    pub(super) over_ms: i64,
}

/// A fault that has begun.
pub(super) struct Begun {
    time: FaultTime,
    at: Instant,
}

impl Begun {
    pub(super) fn now(kind: Kind) -> Self {
        let now = now_ms();
        let time = FaultTime { kind, since_ms: now, began_ms: now, moved_ms: now };
        Self { time, at: Instant::now() }
    }

    pub(super) fn ended(self) -> FaultTime {
        FaultTime { moved_ms: now_ms(), ..self.time }
    }

    /// What was committed from then on may be lost.
    fn going_back_to(self, since_ms: i64) -> Self {
        Self { time: FaultTime { since_ms, ..self.time }, ..self }
    }
}

/// What happens to the active relay at the moment of another fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Besides {
    Nothing,
    Kill,
    Freeze,
    /// A freeze that may be shorter than the lease: it goes on with what it has in hand.
    Nap,
}

impl Run {
    pub(super) async fn kill(&mut self) {
        let active = self.fleet.active(&self.outbox).await;
        let begun = Begun::now(Kind::Kill);
        self.fleet.kill(active);
        let before = database::last_sent(&self.outbox).await;
        self.fleet.start_another(active, &self.outbox);
        self.moved(before).await;
        self.over(begun);
    }

    /// Freezes the active relay until its lease is over and another has shipped; then wakes it.
    pub(super) async fn freeze(&mut self) {
        let active = self.fleet.active(&self.outbox).await;
        let begun = Begun::now(Kind::Freeze);
        self.fleet.pause(active);
        let before = database::last_sent(&self.outbox).await;
        tokio::time::sleep(LEASE + Duration::from_millis(500)).await;
        self.moved(before).await;
        self.wake(active).await;
        self.over(begun);
    }

    /// The primary dies. Its replica was cut off a little before.
    pub(super) async fn fail_over(&mut self) {
        let replica = self.database.replica().await;
        let since_ms = now_ms();
        let lagging = self.database.cut_off(replica).await;
        tokio::time::sleep(self.dice.time(50, 1_500)).await;
        let (besides, active) = self.besides().await;
        let early = self.dice.below(2) == 0;
        let _held = self.hold_marks().await;
        let begun = Begun::now(Kind::Failover).going_back_to(since_ms);
        self.hit(besides, active);
        self.database.fail_over(lagging, early).await;
        let begun = self.back(begun);
        self.mended(begun, besides, active).await;
    }

    /// The database goes back to what it was some moments before.
    pub(super) async fn restore(&mut self) {
        let since_ms = now_ms();
        let begun = Begun::now(Kind::Restore);
        let copy = self.database.back_up();
        let begun = self.back(begun);
        let before = database::last_sent(&self.outbox).await;
        self.moved(before).await;
        self.measured(&begun);
        tokio::time::sleep(self.dice.time(50, 2_500)).await;
        let (besides, active) = self.besides().await;
        let _held = self.hold_marks().await;
        let mode = if self.dice.below(2) == 0 { StopMode::Fast } else { StopMode::Immediate };
        // The copies that the first stop may have caused are this fault's, too.
        let time = FaultTime { since_ms, ..begun.time };
        let begun = Begun { time, at: Instant::now() };
        self.hit(besides, active);
        self.database.restore(&copy, mode);
        let begun = self.back(begun);
        self.mended(begun, besides, active).await;
    }

    /// What a clock that jumps looks like from the lease: the server's `now()` cannot be set, so its end is.
    /// The relay that has it is dead, frozen or well.
    pub(super) async fn step_clock(&mut self) {
        let active = self.fleet.active(&self.outbox).await;
        let minutes = 1 + self.dice.below(6 * 60);
        let sign = if self.dice.below(2) == 0 { "+" } else { "-" };
        let besides = match self.dice.below(3) {
            0 => Besides::Kill,
            1 => Besides::Freeze,
            _ => Besides::Nothing,
        };
        let begun = Begun::now(Kind::ClockStep);
        self.hit(besides, active);
        let step = format!(
            "UPDATE outbox_relays SET lease_until = lease_until {sign} interval '{minutes} minutes',
                taken_at = taken_at {sign} interval '{minutes} minutes'"
        );
        self.outbox.schema.run(&step).await;
        self.mended(begun, besides, active).await;
    }

    /// In some of the faults the active relay has one of its own.
    async fn besides(&mut self) -> (Besides, usize) {
        let besides = match self.dice.below(4) {
            0 if self.take(Kind::Kill) => Besides::Kill,
            1 if self.take(Kind::Freeze) => Besides::Freeze,
            2 => Besides::Nap,
            _ => Besides::Nothing,
        };
        (besides, self.fleet.active(&self.outbox).await)
    }

    fn hit(&mut self, besides: Besides, active: usize) {
        match besides {
            Besides::Nothing => {}
            Besides::Kill => self.fleet.kill(active),
            Besides::Freeze | Besides::Nap => self.fleet.pause(active),
        }
    }

    /// In some of the faults rows are sent, and not marked, when it comes.
    async fn hold_marks(&mut self) -> Option<PgConnection> {
        if self.dice.below(2) == 0 {
            return None;
        }
        let holder = database::hold_marks(&self.outbox).await;
        // Less than what the lease has left after a sign of life was due.
        tokio::time::sleep(self.dice.time(100, 1_000)).await;
        Some(holder)
    }

    /// Waits until the outbox moves; wakes who was frozen, and waits once more.
    async fn mended(&mut self, begun: Begun, besides: Besides, active: usize) {
        if besides == Besides::Nap {
            // Time for new rows under the numbers of lost ones.
            tokio::time::sleep(self.dice.time(1, 1_200)).await;
            self.fleet.resume(active);
        }
        let before = database::last_sent(&self.outbox).await;
        if besides == Besides::Kill {
            self.fleet.start_another(active, &self.outbox);
        }
        self.moved(before).await;
        if besides == Besides::Freeze {
            self.measured(&begun);
            self.wake(active).await;
        }
        self.over(begun);
    }

    async fn wake(&mut self, relay: usize) {
        let (turn, holder) = (self.turn().await, self.fleet.active(&self.outbox).await);
        let resumed_ms = now_ms();
        self.fleet.resume(relay);
        let before = database::last_sent(&self.outbox).await;
        self.moved(before).await;
        let over_ms = now_ms();
        if holder != relay && self.turn().await == turn {
            self.wakes.push(Wake { relay: self.fleet.number(relay), resumed_ms, over_ms });
        }
    }

    /// The number of the turn.
    pub(super) async fn turn(&self) -> i64 {
        database::number(&self.outbox, "SELECT sum(epoch / 16)::bigint FROM outbox_relays").await
    }

    /// One of these that is still to come comes now, beside another.
    pub(super) fn take(&mut self, kind: Kind) -> bool {
        let at = self.left.iter().position(|left| *left == kind);
        at.map(|at| self.left.swap_remove(at)).is_some()
    }

    /// The database takes writes again: what comes from now on is the relay's.
    fn back(&mut self, begun: Begun) -> Begun {
        self.away = self.away.max(begun.at.elapsed());
        Begun { at: Instant::now(), ..begun }
    }

    /// The outbox has moved.
    fn measured(&mut self, begun: &Begun) {
        let (kind, pause) = (begun.time.kind, begun.at.elapsed());
        let longest = self.longest.entry(kind).or_default();
        *longest = pause.max(*longest);
        if pause > LEASE + MARGIN {
            self.violations.push(format!("a pause of {pause:.1?} at {:?}", begun.time));
        }
    }

    /// The outbox has moved, and that was all.
    fn over(&mut self, begun: Begun) {
        self.measured(&begun);
        self.faults.push(begun.ended());
    }
}
