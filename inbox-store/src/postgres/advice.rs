//! What `check` finds doubtful beyond what keeps a consumer from starting.

use sqlx::{PgConnection, Postgres, Row, postgres::PgRow};

use super::sent::on;
use crate::{
    inspect,
    port::{Advices, Finding, Inspections as _, Needs},
};

/// What is missing here (of a later version) is null. A limit of -1 is none.
const SETTINGS: &str = "SELECT current_user::text AS role, current_database()::text AS database,
    current_setting('default_transaction_isolation') AS isolation,
    current_setting('autovacuum') AS autovacuum,
    current_setting('max_connections')::bigint AS connections_max,
    current_setting('superuser_reserved_connections')::bigint AS reserved,
    (SELECT rolconnlimit::bigint FROM pg_roles WHERE rolname = current_user) AS role_limit,
    (SELECT datconnlimit::bigint FROM pg_database WHERE datname = current_database()) AS database_limit,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
    (SELECT setting::bigint FROM pg_settings WHERE name = 'transaction_timeout') AS transaction_timeout,
    extract(epoch FROM clock_timestamp())::double precision AS now";
const BACKEND: &str = "SELECT pg_backend_pid()";

/// A table whose numbers come from a sequence: whether both may be read, and how far they are.
struct Numbered {
    table: &'static str,
    column: &'static str,
    readable: &'static str,
    compare: &'static str,
}

macro_rules! numbered {
    ($table:literal, $column:literal) => {
        Numbered {
            table: $table,
            column: $column,
            readable: concat!(
                "SELECT coalesce(has_table_privilege(to_regclass('",
                $table,
                "'), 'SELECT')
                AND has_sequence_privilege(to_regclass('",
                $table,
                "_",
                $column,
                "_seq'), 'SELECT'), false)"
            ),
            compare: concat!(
                "SELECT s.last_value + s.is_called::integer AS next, (SELECT max(t.",
                $column,
                ") FROM ",
                $table,
                " t) AS most
                FROM ",
                $table,
                "_",
                $column,
                "_seq s"
            ),
        }
    };
}

const NUMBERED: [Numbered; 4] = [
    numbered!("inbox_audit", "audit_seq"),
    numbered!("inbox_consumers", "consumer_ref"),
    numbered!("inbox_parked", "parked_seq"),
    numbered!("inbox_partitions", "partition_ref"),
];

/// What the server says of itself.
#[derive(Clone, PartialEq, Debug)]
struct Server {
    role: String,
    database: String,
    isolation: String,
    autovacuum: bool,
    connections_max: i64,
    reserved: i64,
    role_limit: Option<i64>,
    database_limit: Option<i64>,
    connections: i64,
    transaction_timeout: Option<i64>,
    now: f64,
}

impl Advices for Postgres {
    async fn advice(conn: &mut PgConnection, needs: &Needs) -> Result<Vec<Finding>, sqlx::Error> {
        let server = server(&sqlx::query(SETTINGS).fetch_one(on(conn)).await?)?;
        let mut found = connections(&server, needs);
        found.extend(transactions(&server, needs));
        found.extend(inspect::clock(server.now, needs.now));
        let snapshot = Self::oldest_snapshot(conn).await?.and_then(|open| open.warning());
        found.extend(snapshot.map(inspect::doubtful));
        for numbered in &NUMBERED {
            found.extend(behind(conn, numbered).await?);
        }
        Ok(found)
    }

    async fn backend(conn: &mut PgConnection) -> Result<Option<i64>, sqlx::Error> {
        let pid: i32 = sqlx::query_scalar(BACKEND).fetch_one(on(conn)).await?;
        Ok(Some(pid.into()))
    }
}

/// A sequence behind its table: each new row gets a number that is taken.
async fn behind(
    conn: &mut PgConnection,
    numbered: &Numbered,
) -> Result<Option<Finding>, sqlx::Error> {
    let Numbered { table, column, .. } = *numbered;
    let readable: bool = sqlx::query_scalar(numbered.readable).fetch_one(on(conn)).await?;
    if !readable {
        return Ok(None);
    }
    let row = sqlx::query(numbered.compare).fetch_one(on(conn)).await?;
    let (next, most): (i64, Option<i64>) = (row.try_get("next")?, row.try_get("most")?);
    let most = most.filter(|most| *most >= next);
    Ok(most.map(|most| {
        inspect::fatal(format!(
            "the sequence of {table}.{column} is behind its table (next is {next}, {most} is \
             used), as after a logical copy of the database, which does not include sequences: \
             run, as the tables' owner, SELECT setval('{table}_{column}_seq', {most})"
        ))
    }))
}

fn server(row: &PgRow) -> Result<Server, sqlx::Error> {
    Ok(Server {
        role: row.try_get("role")?,
        database: row.try_get("database")?,
        isolation: row.try_get("isolation")?,
        autovacuum: row.try_get::<String, _>("autovacuum")? == "on",
        connections_max: row.try_get("connections_max")?,
        reserved: row.try_get("reserved")?,
        role_limit: row.try_get("role_limit")?,
        database_limit: row.try_get("database_limit")?,
        connections: row.try_get("connections")?,
        transaction_timeout: row.try_get("transaction_timeout")?,
        now: row.try_get("now")?,
    })
}

/// The consumer's connections against the server's.
fn connections(server: &Server, needs: &Needs) -> Vec<Finding> {
    let wanted = i64::try_from(needs.connections).unwrap_or(i64::MAX);
    let limited = |limit: Option<i64>| limit.filter(|limit| *limit >= 0);
    let (role, database) = (&server.role, &server.database);
    let most = server.connections_max - server.reserved;
    let limits = [
        (Some(most), "max_connections".to_owned(), "raise max_connections".to_owned()),
        (
            limited(server.role_limit),
            format!("the limit of the role {role}"),
            format!("run ALTER ROLE {role} CONNECTION LIMIT -1"),
        ),
        (
            limited(server.database_limit),
            format!("the limit of the database {database}"),
            format!("run ALTER DATABASE {database} CONNECTION LIMIT -1"),
        ),
    ];
    let mut found = Vec::new();
    for (limit, whose, raise) in limits {
        if let Some(limit) = limit.filter(|limit| *limit < wanted) {
            found.push(inspect::fatal(format!(
                "the consumer needs up to {wanted} connections (`database.connections` and {} \
                 more), but {whose} is {limit}; lower `database.connections`, or {raise}",
                needs.connections_beside
            )));
        }
    }
    let free = (most - server.connections).max(0);
    if found.is_empty() && free < wanted {
        found.push(inspect::doubtful(format!(
            "the consumer needs up to {wanted} connections, and {free} of the server's {most} are \
             free now (a running consumer already holds some of the others); lower \
             `database.connections`, or raise max_connections"
        )));
    }
    found
}

/// What the server's defaults mean for transactions of handlers.
fn transactions(server: &Server, needs: &Needs) -> Vec<Finding> {
    let mut found = Vec::new();
    if server.isolation != "read committed" {
        found.push(inspect::doubtful(format!(
            "default_transaction_isolation is {:?} here, but the runtime's transactions are READ \
             COMMITTED: a handler written for more must lock the rows that it decides by (SELECT \
             … FOR UPDATE), or write in one statement",
            server.isolation
        )));
    }
    if !server.autovacuum {
        found.push(inspect::doubtful(
            "autovacuum is off: inbox_lanes is updated by every transaction and grows without \
             limit; switch it on",
        ));
    }
    // It is not among the limits that a transaction sets for itself.
    let limit = server.transaction_timeout.filter(|millis| *millis > 0);
    let longest = i64::try_from(needs.attempt_deadline.as_millis()).unwrap_or(i64::MAX);
    if let Some(limit) = limit.filter(|limit| *limit <= longest) {
        found.push(inspect::doubtful(format!(
            "transaction_timeout is {limit} ms here, shorter than `retry.attempt_deadline` \
             ({longest} ms): the server ends transactions of slow handlers, which counts as an \
             outage; run ALTER ROLE {} SET transaction_timeout = 0",
            server.role
        )));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sound() -> Server {
        Server {
            role: "billing".into(),
            database: "shop".into(),
            isolation: "read committed".into(),
            autovacuum: true,
            connections_max: 100,
            reserved: 3,
            role_limit: Some(-1),
            database_limit: None,
            connections: 10,
            transaction_timeout: Some(0),
            now: 1_000.0,
        }
    }

    fn needs() -> Needs {
        Needs {
            connections: 12,
            connections_beside: 4,
            attempt_deadline: Duration::from_secs(30),
            now: 1_000.5,
        }
    }

    /// What is found after a change.
    fn found(change: impl FnOnce(&mut Server)) -> Vec<(bool, String)> {
        let mut server = sound();
        change(&mut server);
        let mut found = connections(&server, &needs());
        found.extend(transactions(&server, &needs()));
        found.extend(inspect::clock(server.now, needs().now));
        found.into_iter().map(|finding| (finding.fatal, finding.text)).collect()
    }

    #[track_caller]
    fn one(change: impl FnOnce(&mut Server), fatal: bool, start: &str, advice: &str) {
        let found = found(change);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, fatal, "{found:?}");
        assert!(found[0].1.starts_with(start) && found[0].1.contains(advice), "{found:?}");
    }

    #[test]
    fn a_sound_server_is_not_complained_about() {
        assert_eq!(found(|_| ()), []);
    }

    #[test]
    fn connections_that_cannot_be_had_are_told_with_what_to_raise() {
        let wants = "the consumer needs up to 12 connections";
        one(|s| s.connections_max = 14, true, wants, "or raise max_connections");
        one(|s| s.role_limit = Some(5), true, wants, "ALTER ROLE billing CONNECTION LIMIT -1");
        one(
            |s| s.database_limit = Some(11),
            true,
            wants,
            "ALTER DATABASE shop CONNECTION LIMIT -1",
        );
        one(|s| s.connections = 90, false, wants, "7 of the server's 97 are free");
    }

    #[test]
    fn defaults_that_change_what_handlers_may_rely_on_are_told() {
        let isolation = "default_transaction_isolation is \"serializable\"";
        one(|s| s.isolation = "serializable".into(), false, isolation, "FOR UPDATE");
        one(|s| s.autovacuum = false, false, "autovacuum is off", "switch it on");
        let timeout = "transaction_timeout is 5000 ms here, shorter than `retry.attempt_deadline`";
        one(|s| s.transaction_timeout = Some(5_000), false, timeout, "SET transaction_timeout = 0");
        assert_eq!(found(|s| s.transaction_timeout = Some(60_000)), []);
    }

    #[test]
    fn a_clock_that_is_off_is_told() {
        one(|s| s.now = 900.0, false, "the clock of the database is 100 s behind", "NTP");
        one(|s| s.now = 1_100.0, false, "the clock of the database is 100 s ahead of", "NTP");
    }
}
