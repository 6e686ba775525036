//! Sessions.

use std::{fmt, time::Duration};

use inbox_engine::internal::Rule;
use outbox_core::internal::keeps_statements;
use service_kit::{DatabaseTls, PostgresAddress, login_advice, tls_trouble};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, PgConnection, Postgres, Row as _,
    postgres::PgConnectOptions,
};

use crate::port::{Address, FeedError, OpenError, Sessions};

const IN_RECOVERY: &str = "SELECT pg_is_in_recovery()";
/// Of a session that keeps no statements, and so is one behind a pooler. Said aloud, since a role's default may
/// be another.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// The first schema of the search path that is there.
const SCHEMA: &str = "SELECT current_schema()::text";
const COMMIT: &str = "COMMIT";
/// What keeps plans to indexes in their order.
const ORDERED: [&str; 3] = ["enable_bitmapscan", "enable_seqscan", "enable_sort"];
const ORDERED_BY_TRANSACTION: &str = "; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = off; \
    SET LOCAL enable_sort = off";
/// The longest that a transaction stays open between two statements, in milliseconds. A relay that is frozen within one
/// would keep the row of its turn locked, and nobody could take that over.
const IDLE_MAX: &str = "2000";
/// The longest that opening a session may take.
pub(super) const OPEN_MAX: Duration = Duration::from_secs(10);
/// The longest that closing one may take.
const CLOSE_MAX: Duration = Duration::from_secs(1);
/// By the client's clock a call may take a little longer than by the server's, whose answer says more.
const MARGIN: Duration = Duration::from_secs(3);

/// What a session needs. `Debug` shows no password.
#[derive(Clone)]
pub(crate) struct PgSettings {
    pub(super) options: PgConnectOptions,
    /// Behind a pooler in transaction mode nothing of the session may be set.
    pooler: bool,
    /// The schema that is meant, if the configuration names one.
    schema: Option<String>,
    statement_timeout: Duration,
    ordered: bool,
}

impl fmt::Debug for PgSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgSettings")
            .field("address", &self.address())
            .field("pooler", &self.pooler)
            .finish_non_exhaustive()
    }
}

impl PgSettings {
    /// `host:port/database`, for sentences.
    pub(super) fn address(&self) -> String {
        let database = self.options.get_database().unwrap_or(self.options.get_username());
        match self.options.get_socket() {
            Some(path) => format!("{}/{database}", path.display()),
            None => format!("{}:{}/{database}", self.options.get_host(), self.options.get_port()),
        }
    }
}

impl PgSettings {
    /// BEGIN behind a pooler, with what a session has by itself elsewhere.
    fn begin_text(&self) -> String {
        let millis = self.statement_timeout.as_millis();
        let path = self.schema.as_deref().map_or_else(String::new, |schema| {
            format!("; SET LOCAL search_path TO {}", search_path(schema))
        });
        let ordered = if self.ordered { ORDERED_BY_TRANSACTION } else { "" };
        format!(
            "{BEGIN}; SET LOCAL statement_timeout = {millis}; SET LOCAL lock_timeout = {millis}; \
             SET LOCAL idle_in_transaction_session_timeout = {IDLE_MAX}; SET LOCAL jit = off{path}{ordered}"
        )
    }
}

impl Sessions for Postgres {
    type Options = PgConnectOptions;
    type Settings = PgSettings;
    type Session = PgConnection;

    fn options(url: &str, tls: Option<DatabaseTls>) -> Result<PgConnectOptions, OpenError> {
        let read = PostgresAddress::read(url, tls);
        read.map(|read| read.options).map_err(|problem| OpenError::Refused(problem.text))
    }

    fn settings(options: PgConnectOptions, address: &Address<'_>) -> PgSettings {
        let pooler = address.statement_cache == 0;
        let mut options = options
            .application_name(address.application)
            .statement_cache_capacity(address.statement_cache)
            .disable_statement_logging();
        if pooler {
            // The driver's one start-up parameter that a pooler does not know; values travel in binary form.
            options = options.extra_float_digits(None);
        } else {
            let timeout = address.statement_timeout.as_millis().to_string();
            options = options.options([
                ("statement_timeout", timeout.as_str()),
                ("lock_timeout", timeout.as_str()),
                ("idle_in_transaction_session_timeout", IDLE_MAX),
                // A statement of its own is a transaction, whose failures of serialization would be outages.
                ("default_transaction_isolation", "read committed"),
                // For 500 of ten million held rows, code is compiled for 200 ms and runs for 2.
                ("jit", "off"),
                ("tcp_keepalives_idle", "10"),
                ("tcp_keepalives_interval", "10"),
                ("tcp_keepalives_count", "2"),
            ]);
            if let Some(schema) = address.schema {
                options = options.options([("search_path", search_path(schema))]);
            }
        }
        let schema = address.schema.map(str::to_owned);
        let statement_timeout = address.statement_timeout;
        PgSettings { options, pooler, schema, statement_timeout, ordered: false }
    }

    fn for_looks(settings: &PgSettings, longest: Duration) -> PgSettings {
        let mut settings = settings.clone();
        settings.statement_timeout = settings.statement_timeout.min(longest);
        settings.ordered = true;
        if !settings.pooler {
            let timeout = settings.statement_timeout.as_millis().to_string();
            settings.options = settings
                .options
                .options([("statement_timeout", &timeout), ("lock_timeout", &timeout)])
                .options(ORDERED.map(|plan| (plan, "off")));
        }
        settings
    }

    fn outbox(settings: &PgSettings) -> String {
        let database = settings.options.get_database().unwrap_or(settings.options.get_username());
        let schema = settings.schema.iter().map(|schema| format!(".{schema}"));
        schema.fold(database.to_owned(), |name, schema| name + &schema)
    }

    fn file(_: &PgSettings) -> Option<u128> {
        None
    }

    async fn open(settings: &PgSettings) -> Result<PgConnection, OpenError> {
        match tokio::time::timeout(OPEN_MAX, open(settings)).await {
            Ok(opened) => opened,
            Err(_) => Err(OpenError::Outage(format!(
                "database {} did not answer within {OPEN_MAX:?}",
                settings.address()
            ))),
        }
    }

    async fn schema_is_there(
        settings: &PgSettings,
        session: &mut PgConnection,
    ) -> Result<(), OpenError> {
        let Some(meant) = &settings.schema else { return Ok(()) };
        let found = schema(settings, session).await.map_err(|error| explain(settings, &error))?;
        if found.as_ref() == Some(meant) {
            return Ok(());
        }
        Err(OpenError::Refused(format!(
            "`database.schema` is {meant}, but no such schema exists that the role {role} may \
             use; correct the name, or run: CREATE SCHEMA {meant}; GRANT USAGE ON SCHEMA {meant} \
             TO {role};",
            role = settings.options.get_username()
        )))
    }

    fn call_max(settings: &PgSettings) -> Duration {
        settings.statement_timeout + MARGIN
    }

    async fn begin(settings: &PgSettings, session: &mut PgConnection) -> Result<(), FeedError> {
        if keeps_statements(session) {
            return Ok(());
        }
        // One exchange. The texts are made of numbers and of a name that is quoted.
        sqlx::raw_sql(AssertSqlSafe(settings.begin_text())).execute(session).await?;
        Ok(())
    }

    async fn commit(session: &mut PgConnection) -> Result<(), FeedError> {
        if keeps_statements(session) {
            return Ok(());
        }
        sqlx::raw_sql(COMMIT).execute(session).await?;
        Ok(())
    }

    async fn close_hard(session: PgConnection) {
        // The session is given up: what the socket says to that changes nothing.
        let _ = tokio::time::timeout(CLOSE_MAX, session.close_hard()).await;
    }
}

async fn open(settings: &PgSettings) -> Result<PgConnection, OpenError> {
    let explain = |error| explain(settings, &error);
    let mut session = settings.options.connect().await.map_err(explain)?;
    let replica = in_recovery(&mut session, settings).await.map_err(explain)?;
    if replica {
        return Err(OpenError::Refused(format!(
            "{} is a replica (it is in recovery); set the URL to the primary",
            settings.address()
        )));
    }
    Ok(session)
}

/// The schema that names without one mean. One exchange, behind a pooler, too.
async fn schema(
    settings: &PgSettings,
    session: &mut PgConnection,
) -> Result<Option<String>, sqlx::Error> {
    let row = if settings.pooler {
        let text = format!("{}; {SCHEMA}; {COMMIT}", settings.begin_text());
        sqlx::raw_sql(AssertSqlSafe(text)).fetch_one(session).await?
    } else {
        sqlx::raw_sql(SCHEMA).fetch_one(session).await?
    };
    row.try_get(0)
}

/// The schema alone, quoted. With another behind it, that one's outbox would be found, and shipped, as soon as
/// this one's tables are not there.
fn search_path(schema: &str) -> String {
    let behind = if Rule::OutboxOfItsSchema.on() { "" } else { ",public" };
    format!("\"{}\"{behind}", schema.replace('"', "\"\""))
}

/// Asks by a statement that is kept, where statements are: from then on the session is known as one that
/// keeps them.
async fn in_recovery(
    session: &mut PgConnection,
    settings: &PgSettings,
) -> Result<bool, sqlx::Error> {
    if settings.pooler {
        return sqlx::raw_sql(IN_RECOVERY).fetch_one(session).await?.try_get(0);
    }
    sqlx::query_scalar(IN_RECOVERY).fetch_one(session).await
}

/// An error of opening as a sentence, and whether a person has to act.
pub(super) fn explain(settings: &PgSettings, error: &sqlx::Error) -> OpenError {
    let (address, user) = (settings.address(), settings.options.get_username());
    if let Some(trouble) = tls_trouble(error) {
        return OpenError::Refused(format!(
            "the TLS connection to database {address} failed: \
                                           {trouble}"
        ));
    }
    let sqlx::Error::Database(said) = error else {
        return OpenError::Outage(format!(
            "database {address} is unreachable: {error}; check its URL, and that the server is \
             running"
        ));
    };
    let said_text = said.message();
    match said.code().as_deref().unwrap_or_default() {
        "28P01" | "28000" => OpenError::Refused(format!(
            "database {address} refused the login of user {user}; {} ({said_text})",
            login_advice(said_text)
        )),
        "3D000" => OpenError::Refused(format!(
            "database {address} does not exist; correct the URL or create it ({said_text})"
        )),
        // Starting up, shutting down, out of connections, in trouble.
        code if ["53", "57", "58", "08", "XX"].iter().any(|class| code.starts_with(class)) => {
            OpenError::Outage(format!("database {address} refused the connection: {said_text}"))
        }
        _ => OpenError::Refused(format!(
            "database {address} refused the session of {user}: {said_text}; correct the URL, the \
             role or, behind a pooler, set `database.statement_cache` to 0"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let address = Address {
            schema: Some("shop"),
            application: "outbox",
            statement_cache: 100,
            statement_timeout: Duration::from_secs(1),
        };
        let options = Postgres::options("postgres://u:s3cret@db.example:5433/x", None).unwrap();
        let settings = Postgres::settings(options, &address);
        assert_eq!(Postgres::outbox(&settings), "x.shop");
        let shown = format!("{settings:?}");
        assert!(shown.contains("db.example:5433/x") && !shown.contains("s3cret"), "{shown}");
        let wrong = Postgres::options("postgres://u:s3c#r/et@@:x/y", None).unwrap_err();
        assert!(!wrong.to_string().contains("s3c"), "{wrong}");
    }
}
