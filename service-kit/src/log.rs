//! `[log]`: lines for people on a terminal, JSON otherwise, on standard error.

use crate::{choice, section};

section! {
    /// `[log]`: what is logged, and how.
    pub struct Log as "log" {
        /// Human-readable lines or one JSON object per line; `auto` is `human` on a terminal and `json` otherwise.
        format: LogFormat;
        /// `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,{target}=debug`.
        /// The environment variable `RUST_LOG` overrides it.
        level: String = "info";
        /// Whether error messages of the database are shown unredacted, including values of events
        /// and rows. By default the log and the errors of parked events (relay: parked rows)
        /// contain the code, the names of constraint, table and column, the hint and the place in a
        /// function, and `…` for values. Set it only while debugging; it applies to the whole
        /// process.
        database_text: bool;
    }
}

choice! {
    /// Who the log is written for.
    pub enum LogFormat {
        /// People on a terminal, machines otherwise.
        Auto = "auto",
        /// Lines for people.
        Human = "human",
        /// One JSON object per line.
        Json = "json",
    }
}

/// A panic, as the log has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PanicReport {
    /// The thread's name.
    pub thread: String,
    /// File, line and column.
    pub place: String,
    /// Where the environment asks for it (`RUST_BACKTRACE`).
    pub backtrace: Option<String>,
    /// What the panic said.
    pub error: String,
}
