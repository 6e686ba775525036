//! Rights of roles: a file has none.

use sqlx::Sqlite;

use crate::port::{Grants, RoleKind};

impl Grants for Sqlite {
    fn grants(_schema: Option<&str>, _role: &str, _kind: RoleKind) -> Option<String> {
        None
    }
}
