//! The event envelope, its ids and codecs.
#![forbid(unsafe_code)]

mod record;
mod text;

pub use record::{Header, Record};
pub use text::Text;
