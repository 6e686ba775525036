//! What the loop asks of the outbox's database. One small trait for each file of a feed's folder; both
//! databases keep them with the same files and functions.
//!
//! One story: its files know each other.
//!
//! Every call is a statement or two, each in a transaction of its own: nothing is open while the broker is waited for,
//! and a call that is given up half-way costs its connection and nothing else.

mod holding;
mod numbers;
mod rows;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use inbox_settings::DatabaseTls;
use tokio::sync::Notify;

pub(crate) use holding::{Appenders, Holding, Released};
pub(crate) use numbers::Numbers;
pub(crate) use rows::{Failure, Look, Marked, Pruned, Retention, Row, RowId, Rows, View};

/// As whom to come, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address<'a> {
    /// The schema of its tables (PostgreSQL).
    pub schema: Option<&'a str>,
    /// The name of the sessions.
    pub application: &'a str,
    /// Prepared statements kept by each.
    pub statement_cache: usize,
    /// Longest statement.
    pub statement_timeout: Duration,
}

/// Why there is no session.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It may pass by itself.
    #[error("{0}")]
    Outage(String),
    /// A person has to act.
    #[error("{0}")]
    Refused(String),
}

/// A call to the database failed: what it said. The connection has to be closed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct FeedError(pub String);

/// What a role of the database is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub(crate) enum RoleKind {
    /// Ships the outbox
    Relay,
    /// Appends events, and nothing else
    Appender,
    /// Looks, and changes nothing
    Reader,
}

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
    /// Who.
    pub holder: String,
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
    /// Who asks.
    pub holder: &'a str,
    /// For how long.
    pub lease: Duration,
    /// What the turn is known by.
    pub token: uuid::Uuid,
    /// A lease that was without a sign of life for longer than it can last, whatever the database's clock
    /// says.
    pub silent: Option<&'a LeaseMark>,
}

/// How the outbox stands.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub(crate) struct Overview {
    /// Rows that wait to be sent, those behind a failed one included.
    pub waiting: i64,
    /// Of those, the ones that wait behind a failed row of their aggregate.
    pub held: i64,
    /// How long the oldest that is not held back has waited.
    pub oldest_seconds: Option<i64>,
    /// Rows that were set aside until a person decides.
    pub failed: i64,
    /// Rows that go by themselves when their topic is there.
    pub waiting_for_topic: i64,
    /// The topics that are missing, the first ten.
    pub missing_topics: Vec<String>,
    /// Rows that are sent or discarded and not yet removed.
    pub sent: i64,
    /// Who has the turn.
    pub holder: Option<String>,
    /// How long ago it took it.
    pub taken_seconds: Option<i64>,
    /// What is left of its lease, not below zero.
    pub lease_left_seconds: Option<i64>,
    /// The number of the turn.
    pub fence: i64,
    /// Why it ships nothing; empty when it does.
    pub standstill: Option<String>,
}

/// A row that was set aside, for people.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub(crate) struct FailedRow {
    /// Its number.
    pub seq: i64,
    /// The event's id.
    pub event_id: String,
    /// The event's type.
    pub event_type: String,
    /// Its aggregate, `type/id`.
    pub aggregate: String,
    /// The row's own topic.
    pub topic: Option<String>,
    /// How long ago it was set aside.
    pub failed_seconds: i64,
    /// Why.
    pub error: String,
    /// Rows that are held behind it, counted up to 10,001.
    pub behind: i64,
}

/// Which failed rows a command means. Empty means all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Choice {
    /// By number.
    pub seq: Option<i64>,
    /// By aggregate: type and id.
    pub aggregate: Option<(String, String)>,
    /// By a part of the error.
    pub error: Option<String>,
}

/// A step of what a person decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// Rows that were changed.
    pub rows: u64,
    /// The last of them; `None` when there are no more.
    pub last: Option<i64>,
}

/// Something that `check` found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Whether the relay cannot do its work with it.
    pub fatal: bool,
    /// What is wrong, and what to do.
    pub text: String,
}

/// Who is woken by what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bells {
    /// Rung when rows were appended.
    pub rows: Arc<Notify>,
    /// Rung when a relay has given its turn up.
    pub turns: Arc<Notify>,
}

/// Sessions.
pub(crate) trait Sessions: Sized + Send + Sync + 'static {
    /// How to connect, in the driver's words.
    type Options: Clone + Send + Sync + 'static;
    /// What a session needs; cheap to clone. `Debug` shows no secret.
    type Settings: Clone + fmt::Debug + Send + Sync + 'static;
    /// A session.
    type Session: Send + 'static;

    /// Reads an address, with the word for how the way to another machine is protected.
    ///
    /// # Errors
    /// When it is none of this database, or the way would not be protected.
    fn options(url: &str, tls: Option<DatabaseTls>) -> Result<Self::Options, OpenError>;
    /// The same with what every session of a relay has.
    fn settings(options: Self::Options, address: &Address<'_>) -> Self::Settings;
    /// Opens a session.
    fn open(
        settings: &Self::Settings,
    ) -> impl Future<Output = Result<Self::Session, OpenError>> + Send;
    /// Whether the schema that is meant is there, and open to the user.
    ///
    /// # Errors
    /// When it is not.
    fn schema_is_there(
        settings: &Self::Settings,
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<(), OpenError>> + Send;
    /// The longest that one call may take: a little longer than the database lets it.
    fn call_max(settings: &Self::Settings) -> Duration;
    /// Opens a transaction for a call, where one statement may not stand alone: behind a pooler that hands
    /// out connections by transactions. What a session has by itself elsewhere, it has for this transaction.
    fn begin(
        settings: &Self::Settings,
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<(), FeedError>> + Send;
    /// Commits what [`Sessions::begin`] has opened.
    fn commit(session: &mut Self::Session) -> impl Future<Output = Result<(), FeedError>> + Send;
    /// Closes it without waiting for what runs on it.
    fn close_hard(session: Self::Session) -> impl Future<Output = ()> + Send;
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
        standstill: Option<&str>,
    ) -> impl Future<Output = Result<Option<uuid::Uuid>, FeedError>> + Send;
    /// Gives it up, and rings for whoever stands by.
    fn give_turn_up(
        session: &mut Self::Session,
        turn: Turn,
    ) -> impl Future<Output = Result<(), FeedError>> + Send;
}

/// For people.
pub(crate) trait Inspection: Sessions {
    /// How the outbox stands.
    fn overview(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Overview, FeedError>> + Send;
    /// What keeps a relay from its work, or may.
    fn findings(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Vec<Finding>, FeedError>> + Send;
    /// What the session's role may not do, all of it, with the statements that give it.
    fn rights(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<Finding>, FeedError>> + Send;
    /// The statements that give a role what it needs; `None` where there are no roles.
    fn grants(schema: Option<&str>, role: &str, kind: RoleKind) -> Option<String>;
    /// The failed rows, the oldest first.
    fn failed(
        session: &mut Self::Session,
        choice: &Choice,
        rows_max: u32,
    ) -> impl Future<Output = Result<Vec<FailedRow>, FeedError>> + Send;
    /// Lets failed rows be sent once more, at most a thousand, the first behind the number `after`.
    fn retry(
        session: &mut Self::Session,
        choice: &Choice,
        after: i64,
    ) -> impl Future<Output = Result<Step, FeedError>> + Send;
    /// Gives failed rows up for good, which lets what waits behind them go; at most a thousand, the first behind the
    /// number `after`.
    fn discard(
        session: &mut Self::Session,
        choice: &Choice,
        after: i64,
        who: &str,
    ) -> impl Future<Output = Result<Step, FeedError>> + Send;
}

/// The outbox's tables.
pub(crate) trait Schema: Sessions {
    /// Brings them up to date; answers the versions applied.
    fn migrate(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Vec<i64>, FeedError>> + Send;
    /// Their version, `None` without them.
    fn version(
        session: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<i64>, FeedError>> + Send;
    /// The newest that this build knows.
    fn newest() -> i64;
    /// All statements as one script.
    fn print() -> String;
}

/// Being told.
pub(crate) trait Wakes: Sessions {
    /// Rings the bells until it is dropped. It mends its own connection, rings after each repair, and tells
    /// whether it listens.
    fn listen(
        settings: Self::Settings,
        bells: Bells,
        told: impl Fn(Result<(), String>) + Send + Sync + 'static,
    ) -> impl Future<Output = ()> + Send;
}

/// One call, in a transaction where it needs one. After an error the session is to be closed.
pub(crate) async fn whole<F: Sessions, T>(
    settings: &F::Settings,
    session: &mut F::Session,
    call: impl AsyncFnOnce(&mut F::Session) -> Result<T, FeedError>,
) -> Result<T, FeedError> {
    F::begin(settings, session).await?;
    let answer = call(session).await?;
    F::commit(session).await?;
    Ok(answer)
}

/// A database that can hold an outbox.
pub(crate) trait Feed:
    Sessions + Turns + Numbers + Rows + Holding + Retention + Inspection + Schema + Wakes
{
}
