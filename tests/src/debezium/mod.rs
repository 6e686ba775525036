//! The relay beside a real Debezium: `cargo xtask debezium`.

pub mod changes;
mod compare;
mod connector;
mod moving;
mod reading;
mod scene;

pub use compare::{CASES, compare};
pub use moving::there_and_back;
pub use reading::read_all;
pub use scene::Scene;
