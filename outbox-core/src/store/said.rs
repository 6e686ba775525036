//! What a database says of an error, for people.

#[cfg(feature = "postgres")]
use std::fmt::Write as _;

use sqlx::Error;

use super::values;

/// Stands in advice for the role, which an error does not name.
const ROLE: &str = "YOUR_ROLE";

/// An error for people: the message with its code, and of PostgreSQL what helps besides: constraint, table and
/// column, hint, the place in a function, and for a missing right the GRANT. Values are left out, which nobody may
/// read in a log, unless `log.database_text` asks for the whole text; whole rows and parameters always are.
pub fn said(error: &Error) -> String {
    let Error::Database(said) = error else { return of_the_driver(error) };
    #[cfg(feature = "postgres")]
    if let Some(said) = said.try_downcast_ref() {
        return postgres(said);
    }
    let code = said.code().map_or_else(String::new, |code| format!(" (code {code})"));
    let message = said.message();
    let without = if values::shown() { message.to_owned() } else { plain(said.as_ref()) };
    let more = if without == message { "" } else { MORE };
    format!("{}{code}{more}", error.to_string().replace(message, &without))
}

/// The message of a database that has nothing but a message, without values.
fn plain(said: &dyn sqlx::error::DatabaseError) -> String {
    if said.code().as_deref() == Some(RAISED_BY_TRIGGER) {
        values::raised_without_values(said.message())
    } else {
        values::without_values(said.message())
    }
}

/// What the driver says of a value that it cannot read quotes it.
fn of_the_driver(error: &Error) -> String {
    let text = error.to_string();
    let (Error::ColumnDecode { source, .. } | Error::Decode(source) | Error::Encode(source)) =
        error
    else {
        return text;
    };
    let quoted = source.to_string();
    let without = values::raised_without_values(&quoted);
    if values::shown() || without == quoted {
        return text;
    }
    format!("{}{MORE}", text.replace(&quoted, &without))
}

/// The words of an error that hold values, each with what is shown in their place: others quote them.
pub fn quotable(error: &Error) -> Vec<(String, String)> {
    if values::shown() {
        return Vec::new();
    }
    let mut found = Vec::new();
    match error {
        Error::Database(said) => {
            #[cfg(feature = "postgres")]
            if let Some(said) = said.try_downcast_ref() {
                return shown_apart(of_postgres(said));
            }
            found.push((said.message().to_owned(), plain(said.as_ref())));
        }
        Error::ColumnDecode { source, .. } | Error::Decode(source) | Error::Encode(source) => {
            let quoted = source.to_string();
            let without = values::raised_without_values(&quoted);
            found.push((quoted, without));
        }
        _ => {}
    }
    shown_apart(found)
}

#[cfg(feature = "postgres")]
fn of_postgres(said: &sqlx::postgres::PgDatabaseError) -> Vec<(String, String)> {
    let message = said.message();
    let without = if is_raised(said) {
        values::raised_without_values(message)
    } else {
        values::without_values(message)
    };
    let detail = said.detail().unwrap_or_default();
    vec![(detail.to_owned(), "…".to_owned()), (message.to_owned(), without)]
}

/// Those that differ, as they are and as `Debug` writes them, which is how a panic quotes them.
fn shown_apart(found: Vec<(String, String)>) -> Vec<(String, String)> {
    let bare = |text: &str| {
        let quoted = format!("{text:?}");
        quoted[1..quoted.len() - 1].to_owned()
    };
    let found = found.into_iter().filter(|(text, without)| !text.is_empty() && text != without);
    found.flat_map(|(text, without)| [(bare(&text), without.clone()), (text, without)]).collect()
}

/// A text that may quote an error, without its values.
pub fn unquoted(text: String, quoted: &[(String, String)]) -> String {
    let found = quoted.iter().any(|(words, _)| text.contains(words));
    if !found {
        return text;
    }
    let text = quoted.iter().fold(text, |text, (words, without)| text.replace(words, without));
    if text.contains(values::KEY) { text } else { format!("{text}{MORE}") }
}

/// Of SQLite: a trigger's RAISE.
const RAISED_BY_TRIGGER: &str = "1811";
/// Said behind a text in which values were left out.
const MORE: &str = "; values are redacted, `log.database_text = true` shows them";

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
    let (message, detail) = (said.message(), said.detail().filter(|_| !row).unwrap_or_default());
    let hint = said.hint().unwrap_or_default();
    let shown = if values::shown() {
        [message.to_owned(), detail.to_owned(), hint.to_owned()]
    } else if is_raised(said) {
        let raised = values::raised_without_values;
        [raised(message), String::new(), raised(hint)]
    } else {
        [
            values::without_values(message),
            detail_without_values(said.code(), detail),
            hint.to_owned(),
        ]
    };
    let more = if shown == [message, detail, hint] { "" } else { MORE };
    let [message, detail, hint] = shown;
    // The message names them in most cases, in others only this does.
    let beside = |name: Option<&str>| {
        name.filter(|name| !message.contains(name)).unwrap_or_default().to_owned()
    };
    let parts = [
        ("constraint", beside(said.constraint())),
        ("table", beside(said.table())),
        ("column", beside(said.column())),
        ("detail", detail),
        ("hint", hint),
        ("in", context.collect::<Vec<_>>().join(", called by ")),
        ("run as its owner", grant(said.code(), said.message()).unwrap_or_default()),
    ];
    let mut text = format!("{message} (code {})", said.code());
    for (name, part) in parts.iter().filter(|(_, part)| !part.is_empty()) {
        let _ = write!(text, "; {name}: {}", part.trim_end_matches('.'));
    }
    text + more
}

/// Whether the text is a function's own: of the application, which says what it likes. The function that sends
/// queued statements says again what others said.
#[cfg(feature = "postgres")]
fn is_raised(said: &sqlx::postgres::PgDatabaseError) -> bool {
    said.routine() == Some("exec_stmt_raise") || said.code() == "P0001"
}

/// The columns of a key, and what is said of locks, resources and the schema, which holds no values.
#[cfg(feature = "postgres")]
fn detail_without_values(code: &str, detail: &str) -> String {
    match code.get(..2).unwrap_or_default() {
        "08" | "0A" | "40" | "42" | "53" | "55" | "57" | "58" => detail.to_owned(),
        "23" => values::key_of(detail).map_or_else(String::new, |key| format!("key ({key})")),
        _ => String::new(),
    }
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
