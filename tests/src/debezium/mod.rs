//! The relay beside a real Debezium: `cargo xtask debezium`.

mod compare;
mod connector;
mod moving;
mod scene;

pub use compare::{CASES, compare};
pub use moving::there_and_back;
pub use scene::Scene;
