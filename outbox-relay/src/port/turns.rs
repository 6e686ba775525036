//! The turn, without which nothing is changed.

use std::time::Duration;

use super::{FeedError, Sessions};

/// A turn at the outbox: who has it may ship.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    /// Its number: what was begun under an older one changes nothing.
    pub fence: i64,
    /// Made by chance: after a failover, a restore or in a clone a number is given twice.
    pub token: uuid::Uuid,
    /// The outbox's own id, made with its tables.
    pub outbox_id: uuid::Uuid,
}

/// What came of asking for the turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TurnAnswer {
    /// It is ours.
    Taken(Turn),
    /// Another has it.
    Held(HeldTurn),
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
    /// What the turn is known by.
    pub token: uuid::Uuid,
    /// A lease that was without a sign of life for longer than it can last, whatever the database's clock
    /// says.
    pub silent: Option<&'a LeaseMark>,
}

/// The turn: a lease by the database's clock, and its number.
pub(crate) trait Turns: Sessions {
    /// Takes it if nobody has it.
    fn take_turn(
        session: &mut Self::Session,
        request: TurnRequest<'_>,
    ) -> impl Future<Output = Result<TurnAnswer, FeedError>> + Send;
    /// Prolongs it; answers the outbox's id, or `None` when another has the turn.
    fn keep_turn(
        session: &mut Self::Session,
        turn: Turn,
        lease: Duration,
        report: Option<&str>,
    ) -> impl Future<Output = Result<Option<uuid::Uuid>, FeedError>> + Send;
    /// Gives it up, and rings for whoever stands by.
    fn give_turn_up(
        session: &mut Self::Session,
        turn: Turn,
    ) -> impl Future<Output = Result<(), FeedError>> + Send;
}
