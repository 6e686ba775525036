//! Migrations, as every database has them: a number and a text. The outbox's and the inbox's alike.

use std::fmt::Write as _;

/// One migration: up only. Its `.down.sql` beside it is for people.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number, the same for all databases; ascending, without gaps.
    pub version: i64,
    /// The statements.
    pub text: &'static str,
}

/// The newest of them.
pub fn newest(all: &[Migration]) -> i64 {
    all.iter().map(|m| m.version).max().unwrap_or_default()
}

/// All of them as one script that also writes down what it did, in the table of versions.
pub fn print(all: &[Migration], versions: &str) -> String {
    all.iter().fold(String::new(), |mut script, Migration { version, text }| {
        let _ = write!(script, "{text}\nINSERT INTO {versions} (version) VALUES ({version});\n");
        script
    })
}
