//! What the project's commands and its tests share: running programs, what is published, and starting real servers.

pub mod command;
pub mod failure;
pub mod folders;
pub mod published;
pub mod server;
pub mod usage;
