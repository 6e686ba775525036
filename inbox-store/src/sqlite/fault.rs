//! What errors mean, by SQLite's result codes.

use crate::port::StoreFault::{self, Conflict, Locked, Outage, Statement, TransactionEnded};

const ERROR: i32 = 1;
const PERM: i32 = 3;
const ABORT: i32 = 4;
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const NOMEM: i32 = 7;
pub(super) const READONLY: i32 = 8;
const INTERRUPT: i32 = 9;
const IOERR: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
pub(super) const CANTOPEN: i32 = 14;
const PROTOCOL: i32 = 15;
const SCHEMA: i32 = 17;
pub(super) const NOTADB: i32 = 26;
/// The session's hook refused a COMMIT that is not the runtime's.
const CONSTRAINT_COMMITHOOK: i32 = 531;
/// What plain errors say when the transaction is not there any more.
const ENDED: [&str; 2] = ["no such savepoint", "no transaction is active"];

/// The class of an error.
pub(super) fn classify(error: &sqlx::Error) -> StoreFault {
    match error {
        sqlx::Error::Database(said) => by_code(code(error).unwrap_or_default(), said.message()),
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

/// The result code without its extension.
pub(super) fn primary_code(error: &sqlx::Error) -> Option<i32> {
    code(error).map(|code| code & 0xff)
}

fn code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

fn by_code(code: i32, message: &str) -> StoreFault {
    if code == CONSTRAINT_COMMITHOOK {
        return TransactionEnded;
    }
    match code & 0xff {
        ERROR if ENDED.iter().any(|ended| message.contains(ended)) => TransactionEnded,
        // A statement that was running when its transaction was rolled back.
        ABORT => TransactionEnded,
        BUSY => Locked,
        LOCKED | INTERRUPT | SCHEMA => Conflict,
        PERM | NOMEM | READONLY | IOERR | CORRUPT | FULL | CANTOPEN | PROTOCOL | NOTADB => Outage,
        _ => Statement,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A10, G10: the taxonomy, entry by entry.
    #[test]
    fn each_result_code_has_its_class() {
        let table = [
            (1, "no such table: accounts", Statement),
            (1, "no such savepoint: x", TransactionEnded),
            (1, "cannot rollback - no transaction is active", TransactionEnded),
            (1, "cannot start a transaction within a transaction", Statement),
            (516, "abort due to ROLLBACK", TransactionEnded),
            (5, "database is locked", Locked),
            (517, "database is locked", Locked),
            (6, "database table is locked", Conflict),
            (9, "interrupted", Conflict),
            (13, "database or disk is full", Outage),
            (8, "attempt to write a readonly database", Outage),
            (266, "disk I/O error", Outage),
            (11, "database disk image is malformed", Outage),
            (17, "database schema has changed", Conflict),
            (19, "constraint failed", Statement),
            (531, "constraint failed", TransactionEnded),
            (787, "FOREIGN KEY constraint failed", Statement),
            (1299, "NOT NULL constraint failed", Statement),
            (2067, "UNIQUE constraint failed", Statement),
            (20, "datatype mismatch", Statement),
        ];
        for (code, message, class) in table {
            assert_eq!(by_code(code, message), class, "{code} {message}");
        }
    }

    /// A10: what the driver says itself.
    #[test]
    fn a_crashed_worker_is_an_outage() {
        assert_eq!(classify(&sqlx::Error::WorkerCrashed), Outage);
        assert_eq!(classify(&sqlx::Error::RowNotFound), Statement);
    }
}
