//! What the suite needs of a database beside the ports.

use std::future::Future;

use inbox_store::internal::port::Store;

/// A store that the suite can look into and disturb.
pub trait Probe: Store {
    /// Whether a failed statement makes the rest of its transaction fail.
    #[doc(hidden)]
    const POISONS: bool;
    /// Whether deferred constraints can be checked before COMMIT.
    #[doc(hidden)]
    const CHECKS_CONSTRAINTS: bool;
    /// The script that removes the tables.
    #[doc(hidden)]
    const DOWN: &'static str;
    /// A time 30 days ago, as `processed_at` has it.
    #[doc(hidden)]
    const LONG_AGO: &'static str;
    /// What stands before and after the 32 hex digits of an id.
    #[doc(hidden)]
    const UUID_HEX: (&'static str, &'static str);
    /// What stands before and after the hex digits of bytes.
    #[doc(hidden)]
    const BYTES_HEX: (&'static str, &'static str);
    /// What holds the pruner's lock until the session is closed; empty when there is none.
    #[doc(hidden)]
    const HOLD_PRUNER: &'static str;

    /// A time that many milliseconds before `time`.
    #[doc(hidden)]
    fn older(time: &str, milliseconds: u32) -> String;

    /// A session that writes what it likes.
    #[doc(hidden)]
    fn administer(
        settings: &Self::Settings,
    ) -> impl Future<Output = Result<Self::Connection, sqlx::Error>> + Send;

    /// Runs statements; answers how many rows the last one changed.
    #[doc(hidden)]
    fn run(
        conn: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Reads one text; `None` when there is no row, or NULL in it.
    #[doc(hidden)]
    fn text(
        conn: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = Result<Option<String>, sqlx::Error>> + Send;

    /// Reads one number.
    #[doc(hidden)]
    fn number(
        conn: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = Result<i64, sqlx::Error>> + Send;
}
