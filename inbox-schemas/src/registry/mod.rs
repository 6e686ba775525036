//! The registry: what it is asked, and what of its answers is kept.

mod bounded;
mod cache;
mod client;
mod settings;

#[cfg(test)]
mod tests;

pub(crate) use cache::Schemas;
pub use settings::{RegistrySettings, SettingsError};
