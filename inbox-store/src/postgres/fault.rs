//! What errors mean, by SQLSTATE.

use inbox_engine::internal::Rule;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::port::StoreFault::{
    self, Broken, Conflict, Locked, Outage, Saturated, Stale, Statement, TransactionEnded,
};

/// The key of the inbox's rows. Only the claim writes them.
const INBOX_KEY: &str = "inbox_events_pkey";

/// What raises an error that PL/pgSQL was told to raise.
const RAISED: &str = "exec_stmt_raise";

/// Keys whose numbers come from a sequence.
const NUMBERED: [(&str, &str, &str); 4] = [
    ("inbox_audit_pkey", "inbox_audit", "audit_seq"),
    ("inbox_consumers_pkey", "inbox_consumers", "consumer_ref"),
    ("inbox_parked_pkey", "inbox_parked", "parked_seq"),
    ("inbox_partitions_number", "inbox_partitions", "partition_ref"),
];

/// The table and column whose sequence gives out numbers that are taken.
fn behind(error: &sqlx::Error) -> Option<(&'static str, &'static str)> {
    let constraint = error.as_database_error()?.constraint()?;
    let of = NUMBERED.iter().find(|(key, ..)| *key == constraint)?;
    Some((of.1, of.2))
}

/// An error for people.
pub(super) fn explain(error: &sqlx::Error) -> String {
    let said = outbox_core::internal::said(error);
    let Some((table, column)) = behind(error) else { return said };
    format!(
        "{said}: the sequence of {table}.{column} is behind its table, as after a logical copy of \
         the database, which does not include sequences; `check` lists all of them, and this one \
         is fixed by SELECT setval('{table}_{column}_seq', (SELECT max({column}) FROM {table}))"
    )
}

/// The class of an error. The primary was proved when the session was opened, so 25006 can only come
/// from work outside the runtime's own transaction.
pub(super) fn classify(error: &sqlx::Error) -> StoreFault {
    match error {
        // Another transaction claimed one of the ids, and committed while this claim waited for it.
        sqlx::Error::Database(said) if said.constraint() == Some(INBOX_KEY) => Conflict,
        // Nobody's fault but that of who copied the database.
        sqlx::Error::Database(_) if behind(error).is_some() => Outage,
        sqlx::Error::Database(said) => {
            let routine =
                said.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::routine);
            let (code, routine) = (said.code(), routine.unwrap_or_default());
            let fault = by_code(code.as_deref().unwrap_or_default(), said.message(), routine);
            // In a function's own words: perhaps about an outage, but the session has met none.
            let raised = routine == RAISED && Rule::RaisedIsNoOutage.on();
            if raised && matches!(fault, Outage | Broken | Locked) { Conflict } else { fault }
        }
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => Broken,
        sqlx::Error::RowNotFound
        | sqlx::Error::TypeNotFound { .. }
        | sqlx::Error::ColumnIndexOutOfBounds { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::Encode(_)
        | sqlx::Error::Decode(_)
        | sqlx::Error::InvalidArgument(_)
        | sqlx::Error::InvalidSavePointStatement => Statement,
        _ => Outage,
    }
}

/// Whether the database was not there.
pub(super) fn away(error: &sqlx::Error) -> bool {
    matches!(classify(error), Outage | Broken)
}

/// Whether the server refused a COMMIT for certain: it said so, and its session goes on. After FATAL and PANIC
/// nobody knows, and two codes say that nobody does.
pub(super) fn refused(error: &sqlx::Error) -> bool {
    let said = error.as_database_error().and_then(|said| said.try_downcast_ref());
    let said: Option<&PgDatabaseError> = said;
    said.is_some_and(|said| {
        matches!(said.severity(), PgSeverity::Error) && !matches!(said.code(), "08007" | "40003")
    })
}

/// What a server says in its own language (`lc_messages`) is known by the function that says it.
fn by_code(code: &str, message: &str, routine: &str) -> StoreFault {
    match code {
        // The statement was good, its plan is not any more, and its session would keep it.
        "0A000" if routine == "RevalidateCachedQuery" || message.contains("cached plan") => {
            if Rule::StaleSessionClosed.on() {
                Stale
            } else {
                Conflict
            }
        }
        // At COMMIT, of whoever notifies: another session has not read for long.
        "54000" if routine == "PreCommit_Notify" || message.contains("NOTIFY queue") => Saturated,
        "25006" | "25P01" | "3B001" => TransactionEnded,
        // Somebody ended the session, or a time-out that may be the handler's own; or took from it what the
        // driver had prepared.
        "25P03" | "25P04" | "26000" | "57P01" => Broken,
        // It is not known whether the statement was done; prepared statements of other clients, behind a
        // pooler.
        "40003" | "42P05" => Outage,
        "40002" => Statement,
        "55P03" => Locked,
        "57014" | "72000" => Conflict,
        _ => match code.get(..2).unwrap_or_default() {
            "08" => Broken,
            "28" | "3D" | "53" | "57" | "58" | "F0" | "XX" => Outage,
            "40" => Conflict,
            _ => Statement,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A10, G10: the taxonomy, entry by entry.
    #[test]
    fn each_sqlstate_has_its_class() {
        let table = [
            ("08000", Broken),
            ("08006", Broken),
            ("0A000", Statement),
            ("22003", Statement),
            ("22P02", Statement),
            ("23502", Statement),
            ("23503", Statement),
            ("23505", Statement),
            ("23514", Statement),
            ("25006", TransactionEnded),
            ("25P01", TransactionEnded),
            ("25P02", Statement),
            ("25P03", Broken),
            ("26000", Broken),
            ("28P01", Outage),
            ("3B001", TransactionEnded),
            ("3D000", Outage),
            ("40001", Conflict),
            ("40002", Statement),
            ("40003", Outage),
            ("40P01", Conflict),
            ("42501", Statement),
            ("42601", Statement),
            ("42P01", Statement),
            ("42P05", Outage),
            ("53100", Outage),
            ("53200", Outage),
            ("53300", Outage),
            ("54000", Statement),
            ("54001", Statement),
            ("55P03", Locked),
            ("57014", Conflict),
            ("57P01", Broken),
            ("57P02", Outage),
            ("57P03", Outage),
            ("58030", Outage),
            ("P0001", Statement),
            ("XX000", Outage),
            ("", Statement),
        ];
        for (code, class) in table {
            assert_eq!(by_code(code, "said", "there"), class, "{code}");
        }
        let plan = "cached plan must not change result type";
        assert_eq!(by_code("0A000", plan, "elsewhere"), Stale);
        assert_eq!(by_code("0A000", "zwischengespeicherter Plan", "RevalidateCachedQuery"), Stale);
        let full = "too many notifications in the NOTIFY queue";
        assert_eq!(by_code("54000", full, "exec_stmt_raise"), Saturated);
        assert_eq!(by_code("54000", "zu viele Benachrichtigungen", "PreCommit_Notify"), Saturated);
    }

    /// A10: what the driver says itself.
    #[test]
    fn a_lost_connection_is_an_outage_or_a_broken_session() {
        let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        assert_eq!(classify(&sqlx::Error::Io(lost)), Broken);
        assert_eq!(classify(&sqlx::Error::PoolTimedOut), Outage);
        assert_eq!(classify(&sqlx::Error::Tls("x".into())), Outage);
        assert_eq!(classify(&sqlx::Error::Protocol("x".into())), Broken);
        assert_eq!(classify(&sqlx::Error::RowNotFound), Statement);
    }
}
