//! What a user sees of the configuration: values, sentences, and no secret.

mod formats;
mod handlers;
mod intake;
mod layers;
mod secrets;
mod table;
mod unsafe_combinations;

use std::path::PathBuf;

use super::{Config, ConfigError, Overrides};

const MINIMAL: &str = r#"
[consumer]
name = "billing"
[kafka]
bootstrap = "localhost:9092"
topics = ["orders"]
[database]
url = "postgres://user@localhost/billing"
"#;

/// Writes `text` as `consumer.toml` in a folder of its own and loads it.
fn load(text: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("consumer.toml");
    std::fs::write(&path, text).unwrap();
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let flags = flags.iter().fold(Overrides::new(), |all, (key, value)| all.with(*key, *value));
    Config::load(Some(&path), env, &flags)
}

/// The sentences of a refusal, with the folder taken out.
fn refusal(text: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    let text = load(text, env, flags).unwrap_err().to_string();
    let words = text.split(' ').map(|word| match (word.find('/'), word.find("consumer.toml")) {
        (Some(from), Some(to)) => [&word[..from], &word[to..]].concat(),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}
