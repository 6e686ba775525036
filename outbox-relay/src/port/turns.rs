//! The turn, without which nothing is changed, and the shards that belong to it.

use std::time::Duration;

use super::{FeedError, Sessions};

/// A turn at a seat of the outbox: who has it may ship what its shards have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    /// Its number: what was begun under an older one changes nothing.
    pub fence: i64,
    /// Made by chance: after a failover, a restore or in a clone a number is given twice.
    pub token: uuid::Uuid,
    /// The outbox's own id, made with its tables.
    pub outbox_id: uuid::Uuid,
    /// Which seat.
    pub seat: Seat,
}

/// The number of a seat, from 1.
pub(crate) type Seat = i16;

/// Shards of an outbox, a bit each: an aggregate is in the one that its hash names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shards(pub u16);

impl Shards {
    pub(crate) const ALL: Self = Self(u16::MAX);

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the first one is among them: its relay does what one relay does for all.
    pub(crate) fn has_first(self) -> bool {
        self.0 & 1 == 1
    }

    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// These and those.
    #[cfg(test)]
    pub(crate) fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These but for those.
    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// The first ones, this many.
    pub(crate) fn first(self, count: u32) -> Self {
        let bits = (0..16).filter(|bit| self.0 >> bit & 1 == 1).take(count as usize);
        Self(bits.fold(0, |shards, bit| shards | 1 << bit))
    }
}

/// A turn that was kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeptTurn {
    /// The outbox's id, which a person may have changed.
    pub outbox_id: uuid::Uuid,
    /// What belongs to the seat: others may have given it more.
    pub shards: Shards,
}

/// A seat that somebody has, or that shards belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UsedSeat {
    pub seat: Seat,
    pub shards: Shards,
    /// Its turn lasts.
    pub is_live: bool,
}

/// Which turn is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SeatChoice {
    /// At a seat with shards.
    WithShards,
    /// At a seat with shards if one is free, at another one otherwise.
    Any,
    /// At a seat with shards that is not this one.
    Other(Seat),
}

/// What came of asking for the turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TurnAnswer {
    /// It is ours, with what belongs to its seat.
    Taken(Turn, Shards),
    /// Others have all that is asked for; this one ends first.
    Held(HeldTurn),
    /// No other seat has shards.
    Alone,
}

/// A turn that another has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HeldTurn {
    /// Who, for people.
    pub holder: String,
    /// It was a process of this machine that has ended.
    pub has_died: bool,
    /// What is left of its lease, by the database's clock.
    pub left: Duration,
    /// How long it was taken or prolonged for, if whoever did knows to say.
    pub lease: Option<Duration>,
    /// Which lease it is: another one after each sign of life.
    pub mark: LeaseMark,
}

/// A lease as it stood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LeaseMark {
    /// The number of the turn.
    pub fence: i64,
    /// When it ends, in the database's words.
    pub until: String,
}

/// Asking for the turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnRequest<'a> {
    /// Who asks, as it is written.
    pub holder: &'a str,
    /// For how long.
    pub lease: Duration,
    /// At which seats.
    pub seats: SeatChoice,
    /// What the turn is known by.
    pub token: uuid::Uuid,
    /// A lease that was without a sign of life for longer than it can last, whatever the database's clock
    /// says.
    pub silent: Option<&'a LeaseMark>,
}

/// The turn: a lease by the database's clock, and its number.
pub(crate) trait Turns: Sessions {
    /// Takes one if nobody has it.
    fn take_turn(
        session: &mut Self::Session,
        request: TurnRequest<'_>,
    ) -> impl Future<Output = Result<TurnAnswer, FeedError>> + Send;
    /// Prolongs it; `None` when another has the turn.
    fn keep_turn(
        session: &mut Self::Session,
        turn: Turn,
        lease: Duration,
        report: Option<&str>,
    ) -> impl Future<Output = Result<Option<KeptTurn>, FeedError>> + Send;
    /// The seats that are used, by their numbers.
    fn used_seats(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Vec<UsedSeat>, FeedError>> + Send;
    /// Gives shards to another seat, and rings for it: unless the other one's turn does not last, or ours.
    fn give_shards(
        session: &mut Self::Session,
        turn: Turn,
        to: Seat,
        shards: Shards,
    ) -> impl Future<Output = Result<(), FeedError>> + Send;
    /// Takes the shards of another turn that is ours, too, and gives that one up. Answers what there is now; `None`: one
    /// of them is not ours any more.
    fn merge_turns(
        session: &mut Self::Session,
        of: Turn,
        into: Turn,
    ) -> impl Future<Output = Result<Option<Shards>, FeedError>> + Send;
    /// Gives it up, and rings for whoever stands by.
    fn give_turn_up(
        session: &mut Self::Session,
        turn: Turn,
    ) -> impl Future<Output = Result<(), FeedError>> + Send;
}
