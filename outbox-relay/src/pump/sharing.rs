//! Sharing an outbox with other relays: what belongs to whom, and what is left behind by one that has died.

use std::time::Duration;

use super::{
    LazySession, Pump,
    keeper::Lease,
    standby::{Look, Standby},
};
use crate::{
    port::{Owners, Seat, SeatChoice, Shards, UsedSeat},
    sink::{ConnectError, Sink},
};

/// Shards of an outbox.
const SHARDS: u32 = u16::BITS;
/// How often the leases of others are looked at though they last.
const LOOK_TIMES: u32 = 6;

impl<F: Owners> Pump<F> {
    /// Takes what other seats leave behind, and says what others should have of ours; again and again.
    pub(super) async fn share_for_ever(&self, lease: &Lease) {
        let mut session = LazySession::<F>::new(self.settings.clone());
        let (mut standby, mut backoff) = (Standby::default(), self.backoff());
        for round in 0_u32.. {
            // Nobody else has any, and nobody is to get any: there is nothing to ask.
            let wait = if lease.shards() == Shards::ALL && !self.options.shared {
                self.options.lease / 3
            } else {
                let looks = round.is_multiple_of(LOOK_TIMES);
                let shared = self.share(&mut session, (&mut standby, looks), lease).await;
                self.wait_after_look(shared, &mut backoff)
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.signals.turns.notified() => {}
            }
        }
    }

    /// Answers when to come again.
    async fn share(
        &self,
        session: &mut LazySession<F>,
        (standby, looks): (&mut Standby, bool),
        lease: &Lease,
    ) -> Result<Duration, String> {
        let (seat, version) = (lease.turn.seat, lease.share_version());
        let used = session.call(F::used_seats).await?;
        if let Some(own) = used.iter().find(|it| it.seat == seat) {
            lease.learn_shards(own.shards, version);
        }
        let live = used.iter().copied().filter(|it| it.is_live).collect::<Vec<_>>();
        let surplus = if self.options.shared { surplus(&live, seat) } else { Vec::new() };
        lease.set_surplus(surplus, version);
        // A lease may end later than it can: that is seen by looking on.
        let looks_at =
            |it: &UsedSeat| it.seat != seat && !it.shards.is_empty() && (looks || !it.is_live);
        if !used.iter().any(looks_at) {
            return Ok(self.options.lease / 3);
        }
        let dead = match standby.look(self, session, SeatChoice::Other(seat)).await? {
            Look::Wait(wait) => return Ok(wait),
            Look::Taken(dead) => dead,
        };
        if self.fence(&dead).await {
            let (of, into, version) = (dead.turn, lease.turn, lease.share_version());
            let merged = session.call(async |s| F::merge_turns(s, of, into).await).await?;
            if let Some(shards) = merged {
                lease.learn_shards(shards, version);
            }
        }
        Ok(Duration::ZERO)
    }

    /// Fences the producer of a seat's previous relay, which may still write to Kafka. `false`: it may go on writing.
    async fn fence(&self, lease: &Lease) -> bool {
        if self.options.fencing.is_none() || !self.options.routes.reach_kafka() {
            return true;
        }
        let mut backoff = self.backoff();
        while !lease.until.passed() {
            match Sink::connect(self.sink_settings(lease.turn)).await {
                Ok(_) => return !lease.until.passed(),
                Err(ConnectError::Outage(why)) => self.troubles().kafka_out(why),
                // The own producer tells.
                Err(ConnectError::Forbidden(_) | ConnectError::Fatal(_)) => {}
            }
            tokio::time::sleep(backoff.next()).await;
        }
        false
    }
}

/// What others should have of a seat's shards: each has its part of all, and the first ones one more.
fn surplus(live: &[UsedSeat], seat: Seat) -> Vec<(Seat, Shards)> {
    let count = u32::try_from(live.len()).unwrap_or(SHARDS);
    let part = |place: usize| {
        let more = u32::try_from(place).is_ok_and(|place| place < SHARDS % count);
        SHARDS / count + u32::from(more)
    };
    let Some(own) = live.iter().position(|it| it.seat == seat) else { return Vec::new() };
    let mut left = live[own].shards;
    let mut given = Vec::new();
    for (place, other) in live.iter().enumerate() {
        let lacks = part(place).saturating_sub(other.shards.count());
        let most = left.count().saturating_sub(part(own));
        let shards = left.first(lacks.min(most));
        if !shards.is_empty() {
            given.push((other.seat, shards));
            left = left.without(shards);
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Turn;

    fn live(seats: &[(Seat, u16)]) -> Vec<UsedSeat> {
        let seat = |(seat, shards): &(Seat, u16)| UsedSeat {
            seat: *seat,
            shards: Shards(*shards),
            is_live: true,
        };
        seats.iter().map(seat).collect()
    }

    #[test]
    fn who_has_more_than_its_part_gives_to_who_has_less() {
        assert_eq!(surplus(&live(&[(1, 0xFFFF)]), 1), []);
        assert_eq!(surplus(&live(&[(1, 0xFFFF), (3, 0)]), 1), [(3, Shards(0x00FF))]);
        assert_eq!(surplus(&live(&[(1, 0xFF00), (3, 0x00FF)]), 3), []);
        let three = live(&[(1, 0xFF00), (3, 0x00FF), (4, 0)]);
        assert_eq!(surplus(&three, 1), [(4, Shards(0x0300))], "six, five and five");
        assert_eq!(surplus(&three, 3), [(4, Shards(0x0007))]);
        assert_eq!(surplus(&three, 9), [], "its turn is over");
    }

    #[test]
    fn any_shares_come_to_rest() {
        let mut seats = live(&[(1, 0xFFFF), (2, 0), (3, 0), (5, 0), (9, 0)]);
        for _ in 0..10 {
            for at in 0..seats.len() {
                for (to, shards) in surplus(&seats, seats[at].seat) {
                    seats[at].shards = seats[at].shards.without(shards);
                    let to = seats.iter_mut().find(|it| it.seat == to).unwrap();
                    to.shards = to.shards.with(shards);
                }
            }
        }
        let counts: Vec<u32> = seats.iter().map(|it| it.shards.count()).collect();
        assert_eq!(counts, [4, 3, 3, 3, 3]);
        let all = seats.iter().fold(Shards::default(), |all, it| all.with(it.shards));
        assert_eq!(all, Shards::ALL);
    }

    /// An answer that was asked for before shards were given, and comes after.
    #[test]
    fn shards_that_were_given_do_not_come_back_with_an_old_answer() {
        let turn =
            Turn { fence: 16, token: uuid::Uuid::nil(), outbox_id: uuid::Uuid::nil(), seat: 1 };
        let (asked, time) = (crate::deadline::Moment::now(), Duration::from_secs(9));
        let meters = crate::telemetry::Meters::new("shop".into(), []);
        let lease = Lease::new((turn, Shards::ALL), asked, time, meters);
        let (before, given) = (lease.share_version(), Shards(0x00FF));
        lease.part_with(given);
        let during = lease.share_version();
        lease.end_giving();
        for version in [before, during] {
            lease.learn_shards(Shards::ALL, version);
            assert_eq!(lease.shards(), Shards(0xFF00));
        }
        lease.learn_shards(Shards(0xFF01), lease.share_version());
        assert_eq!(lease.shards(), Shards(0xFF01), "one was not taken");
    }
}
