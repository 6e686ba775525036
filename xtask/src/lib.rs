//! What the project's commands and its tests share: running programs, and starting real servers.

pub mod command;
pub mod failure;
pub mod server;
