//! What the commands of the consumer and of the relay have in common: the command line, the streams, the
//! signals, the exit.

mod exit;
#[cfg_attr(not(feature = "opentelemetry"), path = "no_export.rs")]
mod export;
mod line;
mod signals;
mod subscriber;
mod terminal;
mod who;

pub use exit::Exit;
pub use export::{Export, FLUSH_MAX};
pub use line::{Args, Load, Program, say_grants};
pub use signals::{Signals, end_now};
pub use terminal::{Terminal, columns};
pub use who::who;
