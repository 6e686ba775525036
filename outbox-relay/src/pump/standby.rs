//! Standing by until the turn is free.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;
use uuid::Uuid;

use super::{LazySession, Pump, backoff::Backoff, keeper::Lease};
use crate::{
    deadline::Moment,
    port::{HeldTurn, LeaseMark, Rounds, SeatChoice, TurnAnswer, TurnRequest},
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

/// Looks for a turn, and what it has seen.
#[derive(Default)]
pub(super) struct Standby {
    observed: Option<ObservedLease>,
    told: String,
}

/// What came of a look.
pub(super) enum Look {
    Taken(Box<Lease>),
    /// Others have all that is looked for: look again after this time.
    Wait(Duration),
}

impl Standby {
    /// Looks once.
    pub(super) async fn look<F: Rounds>(
        &mut self,
        pump: &Pump<F>,
        session: &mut LazySession<F>,
        seats: SeatChoice,
    ) -> Result<Look, String> {
        loop {
            let asked = Moment::now();
            let silent = self.observed.as_ref().filter(|it| {
                let silent = it.since.elapsed() > it.lease + LOOK_MIN;
                it.has_died || (silent && Rule::SilentLeaseIsOver.on())
            });
            let asked_for_dead = silent.is_some_and(|it| it.has_died);
            let request = TurnRequest {
                holder: pump.options.holder.as_str(),
                lease: pump.options.lease,
                seats,
                token: Uuid::new_v4(),
                silent: silent.map(|it| &it.mark),
            };
            match session.call(async |s| F::take_turn(s, request).await).await? {
                TurnAnswer::Taken(turn, shards) => {
                    self.observed = None;
                    let (lease, meters) = (pump.options.lease, Arc::clone(&pump.meters));
                    let lease = Lease::new((turn, shards), asked, lease, meters);
                    return Ok(Look::Taken(Box::new(lease)));
                }
                TurnAnswer::Alone => return Ok(Look::Wait(pump.options.lease / 3)),
                TurnAnswer::Held(held) if held.has_died && pump.is_fenced() && !asked_for_dead => {
                    observe(&mut self.observed, held, Instant::now(), true);
                }
                TurnAnswer::Held(held) => {
                    let left = held.left;
                    if !matches!(seats, SeatChoice::Other(_)) {
                        pump.meters.stands_by(&held.holder, left);
                        if self.told != held.holder {
                            Signal::Standby { holder: held.holder.clone() }.emit();
                            self.told.clone_from(&held.holder);
                        }
                    }
                    observe(&mut self.observed, held, Instant::now(), false);
                    // A little later than it ends, and often enough to hear of its end without a bell.
                    let wait = (left + LOOK_MIN).min(pump.options.lease / 3).max(LOOK_MIN);
                    return Ok(Look::Wait(wait));
                }
            }
        }
    }
}

impl<F: Rounds> Pump<F> {
    /// Waits for a turn; `None` when the relay is asked to end.
    pub(super) async fn stand_by(&self, session: &mut LazySession<F>) -> Option<Box<Lease>> {
        let mut backoff = self.backoff();
        let mut standby = Standby::default();
        let seats = if self.options.shared { SeatChoice::Any } else { SeatChoice::WithShards };
        loop {
            if self.is_ending() {
                return None;
            }
            let looked = match standby.look(self, session, seats).await {
                Ok(Look::Taken(lease)) => {
                    self.troubles().database_works();
                    return Some(lease);
                }
                Ok(Look::Wait(wait)) => Ok(wait),
                Err(error) => Err(error),
            };
            let wait = self.wait_after_look(looked, &mut backoff);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.signals.turns.notified() => {}
                () = self.wait_for_shutdown() => {}
            }
        }
    }
}

impl<F: Rounds> Pump<F> {
    /// How long to wait until the next look at the turns of others.
    pub(super) fn wait_after_look(
        &self,
        looked: Result<Duration, String>,
        backoff: &mut Backoff,
    ) -> Duration {
        match looked {
            Ok(wait) => {
                self.troubles().database_works();
                backoff.reset();
                wait
            }
            Err(error) => {
                self.database_out(error);
                backoff.next()
            }
        }
    }

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
