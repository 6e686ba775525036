//! Records to events: where to look, and what to say when it is not there.

mod error;
mod pointer;
mod reader;
mod rules;
mod seen;
mod source;
mod time;

pub use error::{Part, ReadError};
pub use pointer::Pointer;
pub use reader::{IdScope, Reader};
pub use rules::{ReadRules, RulesError};
pub use source::{Source, SourceError, Sources};
