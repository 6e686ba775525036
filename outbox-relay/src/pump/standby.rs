//! Standing by until the turn is free.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;
use uuid::Uuid;

use super::{LazySession, Pump, keeper::Lease};
use crate::{
    deadline::Moment,
    port::{HeldTurn, LeaseMark, Rounds, Turn, TurnAnswer, TurnRequest},
    telemetry::Signal,
};

/// Between two looks at a turn that another has.
const LOOK_MIN: Duration = Duration::from_millis(50);
/// The longest lease that a configuration can ask for.
const LEASE_MAX: Duration = Duration::from_mins(10);

/// The lease of another, and since when it has stood so.
struct ObservedLease {
    mark: LeaseMark,
    since: Instant,
    /// How long it can last.
    lease: Duration,
    /// Its holder has ended, and can neither begin nor finish anything.
    has_died: bool,
    /// Told that it ends later than it can.
    told: bool,
}

impl<F: Rounds> Pump<F> {
    /// Waits for the turn; `None` when the relay is asked to end.
    pub(super) async fn stand_by(&self, session: &mut LazySession<F>) -> Option<(Turn, Lease)> {
        let mut backoff = self.backoff();
        let mut told = String::new();
        let mut observed: Option<ObservedLease> = None;
        loop {
            if self.is_ending() {
                return None;
            }
            let asked = Moment::now();
            let silent = observed.as_ref().filter(|it| {
                let silent = it.since.elapsed() > it.lease + LOOK_MIN;
                it.has_died || (silent && Rule::SilentLeaseIsOver.on())
            });
            let asked_for_dead = silent.is_some_and(|it| it.has_died);
            let request = TurnRequest {
                holder: self.options.holder.as_str(),
                lease: self.options.lease,
                token: Uuid::new_v4(),
                silent: silent.map(|it| &it.mark),
            };
            let taken = session.call(async |s| F::take_turn(s, request).await).await;
            if taken.is_ok() {
                self.troubles().database_works();
            }
            let wait = match taken {
                Ok(TurnAnswer::Taken(turn)) => {
                    let (lease, meters) = (self.options.lease, Arc::clone(&self.meters));
                    return Some((turn, Lease::new(turn, asked, lease, meters)));
                }
                Ok(TurnAnswer::Held(held)) => {
                    backoff.reset();
                    if held.has_died && self.is_fenced() && !asked_for_dead {
                        observe(&mut observed, held, Instant::now(), true);
                        continue;
                    }
                    let left = held.left;
                    self.meters.stands_by(&held.holder, left);
                    if told != held.holder {
                        Signal::Standby { holder: held.holder.clone() }.emit();
                        told.clone_from(&held.holder);
                    }
                    observe(&mut observed, held, Instant::now(), false);
                    // A little later than it ends, and often enough to hear of its end without a bell.
                    (left + LOOK_MIN).min(self.options.lease / 3).max(LOOK_MIN)
                }
                Err(error) => {
                    self.database_out(error);
                    backoff.next()
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.signals.turns.notified() => {}
                () = self.wait_for_shutdown() => {}
            }
        }
    }
}

impl<F: Rounds> Pump<F> {
    /// Whether the database and the brokers reject all that a dead holder still has under way. No fence stops a receiver
    /// that still works on a call.
    fn is_fenced(&self) -> bool {
        self.options.fencing.is_some() && self.options.destinations.is_empty()
    }
}

/// Remembers since when a lease has stood as it does, by this process's clock. Whoever has the turn prolongs
/// it three times within; so one that stays as it is for longer than it can last is over, and if the database
/// says otherwise, its clock was set back.
fn observe(observed: &mut Option<ObservedLease>, held: HeldTurn, now: Instant, has_died: bool) {
    let lease = held.lease.unwrap_or(LEASE_MAX);
    let same = |it: &&mut ObservedLease| it.mark == held.mark;
    let it = match observed.as_mut().filter(same) {
        Some(it) => it,
        None => observed.insert(ObservedLease {
            mark: held.mark,
            since: now,
            lease,
            has_died,
            told: false,
        }),
    };
    it.has_died = has_died;
    if held.left > lease && !it.told {
        it.told = true;
        let (holder, seconds) = (held.holder, held.left.as_secs());
        Signal::LeaseImpossible { holder, seconds, wait: lease.as_secs() }.emit();
    }
}
