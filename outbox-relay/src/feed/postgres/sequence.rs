//! The sequence that numbers the rows: a copy of the database may have come without it.

use inbox_engine::internal::Rule;
use outbox_core::internal::keeps_statements;
use service_kit::docs_url;
use sqlx::{AssertSqlSafe, PgConnection, Postgres};

use crate::{
    feed::flow::{Read as _, SqlClient as _},
    port::{FeedError, Finding, Numbers},
};

/// Its name, quoted where it has to be, whether it may be read, and how it hands numbers out. No row where the table has
/// none.
const SEQUENCE: &str =
    "SELECT name, has_sequence_privilege(name, 'SELECT'), quote_ident(current_user), q.seqincrement, q.seqcache, q.seqcycle
FROM pg_get_serial_sequence('outbox_events', 'seq') s(name) JOIN pg_sequence q ON q.seqrelid = name::regclass";

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
        let Some(sequence) = sequence else { return Ok(Some(without())) };
        let (name, role): (String, String) = (sequence.at(0)?, sequence.at(2)?);
        let readable: bool = sequence.at(1)?;
        let (increment, cache, cycle): (i64, i64, bool) =
            (sequence.at(3)?, sequence.at(4)?, sequence.at(5)?);
        if (increment < 1 || cache != 1 || cycle) && Rule::SequenceInOrder.on() {
            return Ok(Some(out_of_order(&name, increment, cache, cycle)));
        }
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

fn without() -> Finding {
    Finding {
        fatal: false,
        text: "outbox_events.seq owns no sequence, as after the table was partitioned or copied \
               by hand: rows are sent in the order of these numbers, and new numbers may not be \
               above all others; run, as the table's owner, ALTER SEQUENCE … OWNED BY \
               outbox_events.seq for the sequence that numbers them"
            .into(),
    }
}

/// With a cache each session has numbers in stock: of two transactions one behind the other the second one's rows may
/// have the lower ones.
fn out_of_order(name: &str, increment: i64, cache: i64, cycle: bool) -> Finding {
    let cycles = if cycle { ", and restarts at its end" } else { "" };
    Finding {
        fatal: true,
        text: format!(
            "sequence_behind: the sequence {name} of outbox_events.seq has INCREMENT {increment} \
             and CACHE {cache}{cycles}: rows appended later can have lower numbers, and would be \
             sent first. Nothing is sent until it is fixed; run, as the table's owner: ALTER \
             SEQUENCE {name} INCREMENT 1 CACHE 1 NO CYCLE. Sessions keep the numbers that they \
             have cached: close the connections of the writers"
        ),
    }
}

fn behind(next: i64, most: i64) -> Finding {
    Finding {
        fatal: true,
        text: format!(
            "sequence_behind: {next} is the number that the next row of outbox_events gets, but \
             {most} is already the largest, as after a logical copy of the database, which does \
             not include sequences: new rows would be sent before older ones, or could not be \
             appended. Nothing is sent until it is fixed. If no row was appended since, run, as \
             the table's owner: SELECT setval(pg_get_serial_sequence('outbox_events', 'seq'), \
             (SELECT max(seq) FROM outbox_events)); otherwise run the block of {} instead, which \
             also gives these rows new numbers",
            docs_url("operations#sequence_behind")
        ),
    }
}

fn unseen(name: &str, role: &str) -> Finding {
    Finding {
        fatal: false,
        text: format!(
            "the database user may not read the sequence {name}, so the relay cannot detect new \
             rows with numbers below older ones, as after a logical copy of the database; run, as \
             its owner: GRANT SELECT ON SEQUENCE {name} TO {role}"
        ),
    }
}
