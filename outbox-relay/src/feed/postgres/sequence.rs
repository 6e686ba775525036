//! The sequence that numbers the rows: a copy of the database may have come without it.

use inbox_engine::internal::Rule;
use outbox_core::internal::keeps_statements;
use sqlx::{AssertSqlSafe, PgConnection, Postgres};

use crate::{
    feed::flow::{Read as _, SqlClient as _},
    port::{FeedError, Finding, Numbers},
};

/// Its name, quoted where it has to be, and whether it may be read. No row where the table has none.
const SEQUENCE: &str =
    "SELECT name, has_sequence_privilege(name, 'SELECT'), quote_ident(current_user)
FROM pg_get_serial_sequence('outbox_events', 'seq') s(name) WHERE name IS NOT NULL";

/// What it gave last, if anything, and the largest number of a row. A row that can be seen has got its number
/// before, so that a sound sequence is never found behind.
fn compare(sequence: &str) -> String {
    format!("SELECT last_value, is_called, (SELECT max(seq) FROM outbox_events) FROM {sequence}")
}

impl Numbers for Postgres {
    async fn numbering(session: &mut PgConnection) -> Result<Option<Finding>, FeedError> {
        if !Rule::SequenceIsAhead.on() {
            return Ok(None);
        }
        let sequence = Self::fetch_optional(session, SEQUENCE, &[]).await?;
        let Some(sequence) = sequence else { return Ok(None) };
        let (name, role): (String, String) = (sequence.at(0)?, sequence.at(2)?);
        let readable: bool = sequence.at(1)?;
        if !readable {
            return Ok(Some(unseen(&name, &role)));
        }
        // The name is the database's own, as it is written in a statement.
        let (last, given, most): (i64, bool, Option<i64>) =
            sqlx::query_as(AssertSqlSafe(compare(&name)))
                .persistent(keeps_statements(session))
                .fetch_one(session)
                .await?;
        let next = last.saturating_add(i64::from(given));
        Ok(most.filter(|most| next <= *most).map(|most| behind(next, most)))
    }
}

fn behind(next: i64, most: i64) -> Finding {
    Finding {
        fatal: true,
        text: format!(
            "sequence_behind: {next} is the number that the next row of outbox_events gets, and {most} is \
             the largest that a row has, as after a logical copy of the database, which carries no \
             sequences: new rows would be sent before older ones, or could not be appended. Nothing is \
             sent until it is mended. If no row was appended since, run, as the table's owner: SELECT \
             setval(pg_get_serial_sequence('outbox_events', 'seq'), (SELECT max(seq) FROM \
             outbox_events)); if rows were, run the block under `sequence_behind` in docs/operations.md \
             instead, which gives these rows new numbers, too"
        ),
    }
}

fn unseen(name: &str, role: &str) -> Finding {
    Finding {
        fatal: false,
        text: format!(
            "the database's user may not read the sequence {name}: after a logical copy of the database \
             nobody would notice that new rows have numbers below older ones; run, as its owner: GRANT \
             SELECT ON SEQUENCE {name} TO {role}"
        ),
    }
}
