//! What the commands of the consumer and of the relay have in common: the command line, the streams, the
//! signals, the exit.

mod check_report;
mod example;
mod exit;
#[cfg_attr(not(feature = "opentelemetry"), path = "no_export.rs")]
mod export;
mod json;
mod line;
mod signals;
mod subscriber;
mod terminal;
mod tools;
mod who;

pub use check_report::{CheckDocument, CheckReport};
pub use exit::Exit;
pub use export::{Export, FLUSH_MAX};
pub use line::{Args, Load, Mode, Program, say_grants};
pub use signals::{Signals, end_now};
pub use terminal::{Terminal, columns};
pub use tools::{ConfigCommand, Tool};
pub use who::who;
