//! The migrations, as every database has them: a number, a name, a text.

/// One migration: up only. Its `.down.sql` beside it is for people.
pub(super) struct Migration {
    /// Its number, the same for all databases; ascending, without gaps.
    pub(super) version: i64,
    /// The statements.
    pub(super) text: &'static str,
}

/// The newest of them.
pub(super) fn newest(all: &[Migration]) -> i64 {
    all.iter().map(|m| m.version).max().unwrap_or_default()
}

/// All of them as one script that also writes down what it did.
pub(super) fn print(all: &[Migration]) -> String {
    use std::fmt::Write as _;
    all.iter().fold(String::new(), |mut script, Migration { version, text }| {
        let _ = write!(
            script,
            "{text}\nINSERT INTO inbox_schema_versions (version) VALUES ({version});\n"
        );
        script
    })
}
