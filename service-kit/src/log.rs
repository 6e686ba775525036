//! `[log]`: lines for people on a terminal, JSON otherwise, on standard error.

use crate::{choice, section};

section! {
    /// `[log]`: what is logged, and how.
    pub struct Log as "log" {
        /// Lines for people or one JSON object per line; `auto` is `human` on a terminal and `json` otherwise.
        format: LogFormat;
        /// `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,{target}=debug`. The environment
        /// variable `RUST_LOG` goes before it.
        level: String = "info";
        /// Whether what the database says of an error is shown as it is, with values of events and rows in it.
        /// Without it the log and the errors of parked events (of the relay: of rows that were set aside) have the
        /// code, the names of constraint, table and column, the hint and the place in a function, and `…` for
        /// values. For the time that a fault is looked for; it holds for the whole process.
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
