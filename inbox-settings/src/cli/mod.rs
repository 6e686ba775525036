//! What the commands of the consumer and of the relay have in common: the command line, the streams, the
//! signals, the exit.

mod exit;
mod line;
mod signals;
mod terminal;

pub use exit::Exit;
pub use line::{read, shown, source};
pub use signals::Signals;
pub use terminal::{Terminal, columns};
