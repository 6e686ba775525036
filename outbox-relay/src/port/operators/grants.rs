//! Rights of roles.

use crate::port::Sessions;

/// What a role of the database is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum RoleKind {
    /// Ships the outbox
    Relay,
    /// Appends events, and nothing else
    Appender,
    /// Looks, and changes nothing
    Reader,
}

/// Rights of roles.
pub(crate) trait Grants: Sessions {
    /// The statements that give a role what it needs; `None` where there are no roles.
    fn grants(schema: Option<&str>, role: &str, kind: RoleKind) -> Option<String>;
}
