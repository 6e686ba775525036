//! The checker: reads the business table alone, knows nothing of the runtime, and names what is wrong.
//!
//! The table has no unique key on the event, or a violation could not be seen (B17).

use sqlx::{PgPool, Row};

/// The business table of the soak and of the service tests.
pub const EFFECTS: &str = "CREATE TABLE effects (effect bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
     aggregate text NOT NULL, n bigint NOT NULL, event_id text NOT NULL, pid bigint NOT NULL)";

/// What can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Anomaly {
    /// An event of the plan has no effect.
    Lost,
    /// An event has more than one effect.
    Duplicate,
    /// Effects of an aggregate are not in sequence.
    Reordered,
    /// An effect that no event of the plan explains.
    Unknown,
}

/// One violation, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// What it is.
    pub anomaly: Anomaly,
    /// Where.
    pub text: String,
}

/// What an aggregate must have: the events `1..=per_aggregate`, once each, in sequence.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Aggregates, named `0` to `aggregates - 1`.
    pub aggregates: u64,
    /// Events of each.
    pub per_aggregate: u64,
}

/// At most so many violations are listed.
const LISTED_MAX: i64 = 20;

/// Reads the table and answers the violations, none for a correct one.
pub async fn check(pool: &PgPool, expected: Expected) -> Result<Vec<Violation>, sqlx::Error> {
    let mut found = Vec::new();
    let (aggregates, per) = (signed(expected.aggregates), signed(expected.per_aggregate));
    let lost =
        "SELECT a::text || ' n ' || n FROM generate_series(0, $1 - 1) a, generate_series(1, $2) n
        EXCEPT SELECT aggregate || ' n ' || n FROM effects LIMIT $3";
    let doubled = "SELECT event_id || ' x ' || count(*) FROM effects WHERE $1 >= 0 AND $2 >= 0
        GROUP BY event_id HAVING count(*) > 1 LIMIT $3";
    let twice =
        "SELECT aggregate || ' n ' || n || ' x ' || count(*) FROM effects WHERE $1 >= 0 AND $2 >= 0
        GROUP BY aggregate, n HAVING count(*) > 1 LIMIT $3";
    let reordered = "SELECT aggregate || ' n ' || n || ' after ' || before FROM
        (SELECT aggregate, n, lag(n, 1, 0::bigint) OVER (PARTITION BY aggregate ORDER BY effect) AS before
         FROM effects) e WHERE n <> before + 1 AND $1 >= 0 AND $2 >= 0 LIMIT $3";
    let unknown = "SELECT aggregate || ' n ' || n FROM effects WHERE n < 1 OR n > $2
        OR CASE WHEN aggregate ~ '^[0-9]+$' THEN aggregate::bigint >= $1 ELSE true END LIMIT $3";
    for (anomaly, statement) in [
        (Anomaly::Lost, lost),
        (Anomaly::Duplicate, doubled),
        (Anomaly::Duplicate, twice),
        (Anomaly::Reordered, reordered),
        (Anomaly::Unknown, unknown),
    ] {
        let rows = sqlx::query(statement).bind(aggregates).bind(per).bind(LISTED_MAX);
        for row in rows.fetch_all(pool).await? {
            found.push(Violation { anomaly, text: row.try_get(0)? });
        }
    }
    Ok(found)
}

/// A quick look while the soak runs: doubled or reordered effects among the newest, and how many there are.
pub async fn glance(pool: &PgPool) -> Result<(u64, Vec<Violation>), sqlx::Error> {
    let effects: i64 = sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(pool).await?;
    let doubled: Vec<String> = sqlx::query_scalar(
        "SELECT aggregate || ' n ' || n FROM (SELECT aggregate, n FROM effects ORDER BY effect DESC
         LIMIT 100000) e GROUP BY aggregate, n HAVING count(*) > 1 LIMIT 20",
    )
    .fetch_all(pool)
    .await?;
    let violation = |text| Violation { anomaly: Anomaly::Duplicate, text };
    Ok((u64::try_from(effects).unwrap_or(0), doubled.into_iter().map(violation).collect()))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
