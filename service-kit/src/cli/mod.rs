//! What the commands of the consumer and of the relay have in common: the command line, the streams, the
//! signals, the exit.

mod exit;
mod line;
mod signals;
mod terminal;
mod who;

pub use exit::Exit;
pub use line::{Args, Load, Program, say_grants};
pub use signals::{Signals, end_now};
pub use terminal::{Terminal, columns};
pub use who::who;
