//! What a database says of an error, for people.

#[cfg(feature = "postgres")]
use std::fmt::Write as _;

use sqlx::Error;

/// Stands in advice for the role, which an error does not name.
const ROLE: &str = "YOUR_ROLE";

/// An error for people: the message with its code, and of PostgreSQL what helps besides: detail, hint, the place
/// in a function, and for a missing right the GRANT. Whole rows and parameters are left out: they hold what
/// nobody may read in a log.
pub fn said(error: &Error) -> String {
    let Error::Database(said) = error else { return error.to_string() };
    #[cfg(feature = "postgres")]
    if let Some(said) = said.try_downcast_ref() {
        return postgres(said);
    }
    let code = said.code().map_or_else(String::new, |code| format!(" (code {code})"));
    format!("{error}{code}")
}

/// Advice for a role: its name where it is missing.
pub fn for_role(text: &str, role: Option<&str>) -> String {
    role.map_or_else(|| text.to_owned(), |role| text.replace(ROLE, &quoted(role)))
}

/// A name as statements have it.
pub(super) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let plain = name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit());
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// sqlx's own text ends with a line of the server's source.
#[cfg(feature = "postgres")]
fn postgres(said: &sqlx::postgres::PgDatabaseError) -> String {
    // Their detail is the row.
    let row = matches!(said.code(), "23502" | "23514");
    let context = said.r#where().unwrap_or_default().lines();
    // Others may have parameters. The runtime's own functions are temporary.
    let context = context.filter(|line| line.starts_with("PL/") && !line.contains("pg_temp"));
    let parts = [
        ("detail", said.detail().filter(|_| !row).unwrap_or_default().to_owned()),
        ("hint", said.hint().unwrap_or_default().to_owned()),
        ("in", context.collect::<Vec<_>>().join(", called by ")),
        ("run as its owner", grant(said.code(), said.message()).unwrap_or_default()),
    ];
    let mut text = format!("{} (code {})", said.message(), said.code());
    for (name, part) in parts.iter().filter(|(_, part)| !part.is_empty()) {
        let _ = write!(text, "; {name}: {}", part.trim_end_matches('.'));
    }
    text
}

/// What gives the right that is missing. The server says which thing it is, not which right.
#[cfg(feature = "postgres")]
fn grant(code: &str, message: &str) -> Option<String> {
    let (kind, name) = message.strip_prefix("permission denied for ")?.split_once(' ')?;
    let what = match kind {
        "table" | "view" | "relation" => format!("SELECT, INSERT, UPDATE, DELETE ON {name}"),
        "sequence" => format!("USAGE, SELECT ON SEQUENCE {name}"),
        "schema" => format!("USAGE ON SCHEMA {name}"),
        "function" | "procedure" => format!("EXECUTE ON ROUTINE {name}"),
        _ => return None,
    };
    (code == "42501").then(|| format!("GRANT {what} TO {ROLE}"))
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::grant;

    #[test]
    fn a_missing_right_is_told_with_its_grant() {
        let told = |message| grant("42501", message).unwrap_or_default();
        let table = "GRANT SELECT, INSERT, UPDATE, DELETE ON accounts TO YOUR_ROLE";
        assert_eq!(told("permission denied for table accounts"), table);
        assert_eq!(
            told("permission denied for schema shop"),
            "GRANT USAGE ON SCHEMA shop TO YOUR_ROLE"
        );
        assert_eq!(
            told("permission denied for sequence accounts_id_seq"),
            "GRANT USAGE, SELECT ON SEQUENCE accounts_id_seq TO YOUR_ROLE"
        );
        assert_eq!(told("permission denied to create role"), "");
        assert_eq!(grant("P0001", "permission denied for table accounts"), None);
    }
}
