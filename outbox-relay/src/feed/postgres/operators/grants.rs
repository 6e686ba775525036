//! Rights of roles.

use outbox_core::internal::rights;
use sqlx::Postgres;

use crate::port::{Grants, RoleKind};

impl Grants for Postgres {
    fn grants(schema: Option<&str>, role: &str, kind: RoleKind) -> Option<String> {
        let rights: &[&[rights::Right]] = match kind {
            RoleKind::Relay => &[rights::RELAY, rights::ACTS, rights::NUMBERS],
            RoleKind::Appender => &[rights::APPENDER, rights::KEYS],
            RoleKind::Reader => &[rights::READER],
        };
        Some(rights::grants(schema, role, rights))
    }
}
