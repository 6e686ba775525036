//! Standing by until the turn is free.

use std::time::{Duration, Instant};

use super::{Held, Pump, keeper::Lease};
use crate::{
    port::{Feed, Turn, TurnAnswer},
    telemetry::Signal,
};

/// Between two looks at a turn that another has.
const LOOK_MIN: Duration = Duration::from_millis(50);

impl<F: Feed> Pump<F> {
    /// Waits for the turn; `None` when the relay is asked to end.
    pub(super) async fn stand_by(&self, session: &mut Held<F>) -> Option<(Turn, Lease)> {
        let mut backoff = self.backoff();
        let mut told = String::new();
        loop {
            if self.ending() {
                return None;
            }
            let (holder, lease) = (self.plan.holder.as_str(), self.plan.lease);
            let asked = Instant::now();
            let taken = session.call(async |s| F::take_turn(s, holder, lease).await).await;
            let wait = match taken {
                Ok(TurnAnswer::Taken(turn)) => {
                    return Some((turn, Lease::new(turn.fence, asked, lease)));
                }
                Ok(TurnAnswer::Held { holder, left }) => {
                    backoff.reset();
                    if told != holder {
                        Signal::Standby { holder: holder.clone() }.emit();
                        told = holder;
                    }
                    // A little later than it ends, and often enough to hear of its end without a bell.
                    (left + LOOK_MIN).min(self.plan.lease / 3).max(LOOK_MIN)
                }
                Err(error) => {
                    self.database_out(error);
                    backoff.next()
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.bells.turns.notified() => {}
                () = self.asked_to_end() => {}
            }
        }
    }
}
