//! Having the turn.

use std::time::Duration;

use super::{LazySession, Pump, PumpEnd, TurnEnd, driver::Driver, keeper::Lease};
use crate::{port::Owners, telemetry::Signal};

impl<F: Owners> Pump<F> {
    /// Ships until the turn is lost (`None`) or the relay ends.
    pub(super) async fn have_turn(
        &self,
        lease: &Lease,
        session: &mut LazySession<F>,
    ) -> Option<PumpEnd> {
        let too_late = async {
            self.wait_for_shutdown().await;
            tokio::time::sleep(self.options.shutdown_deadline).await;
        };
        let mut driver = Driver::new(self, lease);
        let over = tokio::select! {
            over = driver.run() => over,
            () = self.keep(lease) => TurnEnd::Lost,
            () = self.prune_for_ever(lease) => TurnEnd::Lost,
            () = self.share_for_ever(lease) => TurnEnd::Lost,
            () = too_late => TurnEnd::Ended(PumpEnd::CutShort),
        };
        // What is still on its way is given up; at the broker it is fenced in any case.
        lease.until.end();
        drop(driver);
        let turn = lease.turn;
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
}
