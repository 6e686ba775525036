//! Sessions: opened read-only, refused on a replica, closed hard.

use std::time::Duration;

use inbox_engine::internal::Rule;
use service_kit::{login_advice, tls_trouble};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, PgConnection, Postgres, Row as _, SqlSafeStr, SqlStr,
};

use super::{PgSettings, sent, sent::on};
use crate::{
    end,
    port::{Address, OpenError, Sessions, StoreFault, TxLimits, deadline},
    shared::OWN_LIMITS,
};

const IN_RECOVERY: &str = "SELECT pg_is_in_recovery()";
const SEARCH_PATH: &str = "SHOW search_path";
/// The longest that closing a session may take.
const CLOSE_MAX: Duration = Duration::from_secs(1);
const ROLLBACK: &str = "ROLLBACK";
const REPLAN: &str = "DISCARD PLANS";
/// Takes back what is left on a session: as DISCARD ALL does, but what the driver and the runtime have prepared
/// stays, and their functions. RESET ROLE brings back what the role's own settings say.
const RESET: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; RESET ALL; UNLISTEN *; \
    SELECT pg_advisory_unlock_all(); DISCARD SEQUENCES; DO $reset$ DECLARE text text; BEGIN \
    FOR text IN SELECT format('DEALLOCATE %I', name) FROM pg_prepared_statements WHERE from_sql LOOP \
        EXECUTE text; \
    END LOOP; \
    IF pg_my_temp_schema() <> 0 THEN \
        FOR text IN SELECT format('DROP %s IF EXISTS pg_temp.%I CASCADE', CASE relkind WHEN 'v' THEN 'VIEW' \
            WHEN 'S' THEN 'SEQUENCE' WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END, relname) FROM pg_class \
            WHERE relnamespace = pg_my_temp_schema() AND relkind IN ('r', 'p', 'v', 'f', 'S') \
            ORDER BY relkind = 'S' LOOP \
            EXECUTE text; \
        END LOOP; \
    END IF; END $reset$";
/// What the start of the session set beside its settings; a system that refuses it is no failure.
const RESTORE_CHECK: &str = "DO $check$ BEGIN \
    PERFORM set_config('client_connection_check_interval', '2s', false); \
    EXCEPTION WHEN OTHERS THEN NULL; END $check$";
/// Behind a pooler RESET ALL brings back what the server's connection began with, and the pooler tells that to its
/// client: what the driver says at its start is said again.
const RESTORE_START: &str = "SET client_encoding = 'UTF8'; SET DateStyle = 'ISO, MDY'; SET TimeZone = 'UTC'; \
     SET LOCAL synchronous_commit = on";
/// A transaction that writes something: its number.
const WRITE: &str = "SELECT pg_current_xact_id()";
/// PostgreSQL 14 and later, and only where the system can tell: an error is no loss.
const CHECK_CLIENT: &str = "SELECT set_config('client_connection_check_interval', '2s', false)";
const CHECK_CLIENT_SINCE: u32 = 140_000;

impl Sessions for Postgres {
    type Settings = PgSettings;
    const WRITERS_MAX: usize = 64;
    const SERVER: bool = true;

    fn settings(address: &Address<'_>) -> Result<PgSettings, OpenError> {
        let refused = |error: crate::SettingsError| OpenError::Refused(error.0);
        let settings = PgSettings::read(address.url, address.tls).map_err(refused)?;
        let settings = settings.application_name(address.application);
        let settings = match address.statement_cache {
            0 => settings.through_pooler(),
            capacity => settings.statement_cache(capacity),
        };
        match address.schema {
            Some(schema) => settings.schema(schema).map_err(refused),
            None => Ok(settings),
        }
    }

    async fn open(settings: &PgSettings) -> Result<PgConnection, OpenError> {
        let longest = settings.connect_timeout;
        match tokio::time::timeout(longest, open(settings)).await {
            Ok(opened) => opened,
            Err(_) => Err(OpenError::Outage(format!(
                "database {} did not answer within {longest:?}",
                settings.address()
            ))),
        }
    }

    async fn reset(
        conn: &mut PgConnection,
        settings: &PgSettings,
        inside: bool,
    ) -> Result<bool, sqlx::Error> {
        let text = if inside {
            let name = settings.options.get_application_name().unwrap_or_default();
            let name = name.replace('\'', "''");
            format!("{RESET}; {RESTORE_START}; SET application_name = '{name}'")
        } else {
            // What the driver believes prepared may have gone with DEALLOCATE ALL.
            let kept = conn.cached_statements_size();
            let kept = format!(
                "DO $kept$ BEGIN ASSERT (SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql) \
                 >= {kept}; END $kept$"
            );
            format!("BEGIN READ WRITE; {RESET}; {kept}; {RESTORE_CHECK}; COMMIT")
        };
        let reset = sqlx::raw_sql(AssertSqlSafe(text)).execute(on(conn));
        deadline::within(reset).await.map(|_| true)
    }

    async fn work(conn: &mut PgConnection, limits: &TxLimits) -> Result<(), sqlx::Error> {
        begin(conn, limits).await?;
        sqlx::raw_sql(WRITE).execute(on(conn)).await?;
        deadline::within(end::commit::<Self>(conn)).await
    }

    async fn close_hard(conn: PgConnection) {
        // The session is given up: what the socket says to that changes nothing. TLS has a last word, and
        // a socket that is full would keep it for ever.
        let _ = tokio::time::timeout(CLOSE_MAX, conn.close_hard()).await;
    }

    async fn replan(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(REPLAN).execute(on(conn)).await.map(drop)
    }

    fn in_transaction(conn: &PgConnection) -> bool {
        conn.is_in_transaction()
    }

    fn refused(error: &sqlx::Error) -> bool {
        super::fault::refused(error)
    }

    fn explain(error: &sqlx::Error) -> String {
        super::fault::explain(error)
    }

    fn role(settings: &PgSettings) -> Option<&str> {
        Some(settings.options.get_username())
    }

    fn fault(error: &sqlx::Error) -> StoreFault {
        super::fault::classify(error)
    }

    fn names_statements(conn: &PgConnection) -> bool {
        sent::named(outbox_core::internal::keeps_statements(conn))
    }

    fn prepares(settings: &PgSettings) -> bool {
        !settings.pooler
    }

    fn refuses(_verb: &str) -> bool {
        false
    }
}

async fn open(settings: &PgSettings) -> Result<PgConnection, OpenError> {
    let explain = |error| explain(settings, &error);
    let mut conn = settings.session_options().connect().await.map_err(explain)?;
    let replica = in_recovery(&mut conn, settings).await.map_err(explain)?;
    if replica && Rule::ReplicaRefused.on() {
        return Err(OpenError::Refused(format!(
            "{} is a replica (it is in recovery); set the URL to the primary",
            settings.address()
        )));
    }
    if settings.pooler {
        check_search_path(&mut conn, settings).await?;
    }
    let checks_client = conn.server_version_num().is_some_and(|v| v >= CHECK_CLIENT_SINCE);
    if checks_client && !settings.pooler {
        // Refused on systems that cannot see a closed socket: keepalives find the client then.
        let _ = sqlx::raw_sql(CHECK_CLIENT).execute(&mut conn).await;
    }
    if let Some(functions) = &settings.functions {
        super::declared::make_functions(&mut conn, functions).await.map_err(explain)?;
    }
    Ok(conn)
}

/// Asks by a statement that is kept, where statements are: from then on the session is known as one that
/// keeps them (see `sent.rs`).
async fn in_recovery(conn: &mut PgConnection, settings: &PgSettings) -> Result<bool, sqlx::Error> {
    if settings.pooler {
        return sqlx::raw_sql(IN_RECOVERY).fetch_one(conn).await?.try_get(0);
    }
    sqlx::query_scalar(IN_RECOVERY).fetch_one(conn).await
}

/// Behind a pooler the role has to bring the search path along: nothing of the session may be set.
async fn check_search_path(
    conn: &mut PgConnection,
    settings: &PgSettings,
) -> Result<(), OpenError> {
    let Some(schema) = &settings.schema else { return Ok(()) };
    let path: String = sqlx::query_scalar(SEARCH_PATH)
        .fetch_one(on(conn))
        .await
        .map_err(|error| explain(settings, &error))?;
    let first = path.split(',').next().unwrap_or_default().trim().trim_matches('"');
    if first == schema {
        return Ok(());
    }
    let user = settings.options.get_username();
    Err(OpenError::Refused(format!(
        "behind a pooler the schema must come from the role, but its search path is {path:?}; \
         run: ALTER ROLE {user} SET search_path = {schema}, public"
    )))
}

/// An error of opening as a sentence, and whether a person has to act.
fn explain(settings: &PgSettings, error: &sqlx::Error) -> OpenError {
    let address = settings.address();
    let user = settings.options.get_username();
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
    match said.code().as_deref() {
        Some("28P01" | "28000") => OpenError::Refused(format!(
            "database {address} refused the login of user {user}; {} ({})",
            login_advice(said.message()),
            said.message()
        )),
        Some("3D000") => OpenError::Refused(format!(
            "database {address} does not exist; correct the URL or create it ({})",
            said.message()
        )),
        _ if super::fault::away(error) => OpenError::Outage(format!(
            "database {address} refused the connection: {}",
            said.message()
        )),
        _ => OpenError::Refused(format!(
            "database {address} refused the session of {user}: {}; correct the URL, the role or, \
             behind a pooler, use its mode without start-up options",
            said.message()
        )),
    }
}

/// The one message that opens a transaction.
fn begin_text(limits: &TxLimits) -> SqlStr {
    AssertSqlSafe(format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL statement_timeout = {}; \
         SET LOCAL lock_timeout = {}; SET LOCAL idle_in_transaction_session_timeout = {}; \
         SET LOCAL synchronous_commit = on",
        milliseconds(limits.statement_timeout),
        milliseconds(limits.lock_timeout),
        milliseconds(limits.idle_timeout),
    ))
    .into_sql_str()
}

/// As the server takes it: 0 would switch the limit off.
fn milliseconds(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1)
}

/// BEGIN. On an error the server may be inside a failed transaction that the driver does not know of.
pub(super) async fn begin(conn: &mut PgConnection, limits: &TxLimits) -> Result<(), sqlx::Error> {
    deadline::soon(end::begin::<Postgres>(conn, begin_text(limits))).await
}

/// BEGIN of a call's own transaction.
pub(super) async fn begin_own(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    let begun = begin(conn, &OWN_LIMITS).await;
    if begun.is_err() && !conn.is_in_transaction() {
        // A SET may have failed after BEGIN: unknown to the driver, so it is said aloud.
        let _ = deadline::soon(sqlx::raw_sql(ROLLBACK).execute(conn)).await;
    }
    begun
}

/// COMMIT when the work succeeded, else ROLLBACK; the work's own error comes first.
pub(super) async fn end_own<T, E: From<sqlx::Error>>(
    conn: &mut PgConnection,
    work: Result<T, E>,
) -> Result<T, E> {
    match work {
        Ok(done) => {
            if let Err(error) = deadline::within(end::commit::<Postgres>(conn)).await {
                let _ = undo(conn).await; // the driver still counts it as open
                return Err(error.into());
            }
            Ok(done)
        }
        Err(error) => {
            // A connection that cannot roll back is still in its transaction: the caller sees it there.
            let _ = undo(conn).await;
            Err(error)
        }
    }
}

async fn undo(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    deadline::soon(end::rollback::<Postgres>(conn)).await
}
