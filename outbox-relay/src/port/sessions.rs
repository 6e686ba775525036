//! Sessions, and a call on one.

use std::{fmt, time::Duration};

use service_kit::DatabaseTls;

/// As whom to come, and how.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "SQLite has neither schemas, names of sessions nor time limits")
)]
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
    /// The same for sessions that only look, none of whose statements takes longer. Plans read indexes in their order
    /// there: a look that counts to a bound must not begin by sorting everything, as it would where the database has not
    /// learnt yet what is in the table.
    fn for_looks(settings: &Self::Settings, longest: Duration) -> Self::Settings;
    /// Which outbox it is, for people: the database's name, and the schema's where one is configured.
    fn outbox(settings: &Self::Settings) -> String;
    /// Which file its sessions are on, where a database is one: another file may come to its place, and a session would
    /// stay on the one that nobody sees any more. A number that no other file has, 0 if there is none; `None` for a server.
    fn file(settings: &Self::Settings) -> Option<u128>;
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
