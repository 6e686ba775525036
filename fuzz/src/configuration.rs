//! Any configuration: values that are within their bounds, or sentences; and no secret in either.
//!
//! An input is TOML; then, perhaps, a line `---` and lines `NAME=VALUE`, of the environment where they begin
//! with `INBOX_`, of `--set` otherwise.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::LazyLock,
};

use inbox_consumer::config::{Config, ConfigError, KEYS, Key, Kind, Overrides};
use service_kit::{duration, properties::Program, size};

use super::input::CANARY;

/// Where a file of the configuration is: reading one is what a consumer does.
static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| env::temp_dir().join(format!("inbox-configuration-{}.toml", process::id())));

/// An address with a password.
const ADDRESS: &str = "postgres://user:c4n4ry@localhost/billing";

/// Reads a configuration as it is, and with secrets in the environment and in the file.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // Some files of the system never end.
    if text.contains("/dev") || text.contains("/proc") {
        return;
    }
    let (file, over) = text.split_once("\n---\n").unwrap_or((text, ""));
    file.lines().chain(over.lines()).for_each(come_back);
    let (env, flags) = over_the_file(over);
    if let Ok(config) = load(file, env.clone(), &flags) {
        sound(&config);
    }
    if !text.contains(CANARY) {
        let secrets = KEYS.iter().filter(|key| key.kind == Kind::Secret).map(planted);
        silent(load(file, env.iter().cloned().chain(secrets), &flags));
        let below = format!(
            "{file}\n[kafka]\nsasl_password = \"{CANARY}\"\n[database]\nurl = \"{ADDRESS}\""
        );
        silent(load(&below, env, &flags));
    }
}

/// Durations and sizes are read as they are written.
fn come_back(line: &str) {
    let text = line.split_once('=').map_or(line, |(_, value)| value).trim().trim_matches('"');
    if let Some(read) = duration::parse(text) {
        assert_eq!(duration::parse(&duration::text(read)), Some(read), "{text}");
    }
    if let Some(read) = size::parse(text) {
        assert_eq!(size::parse(&size::text(read)), Some(read), "{text}");
    }
}

fn over_the_file(lines: &str) -> (Vec<(String, String)>, Overrides) {
    let (mut env, mut flags) = (Vec::new(), Overrides::new());
    for (name, value) in lines.lines().filter_map(|line| line.split_once('=')) {
        if name.starts_with("INBOX_") {
            env.push((name.to_owned(), value.to_owned()));
        } else {
            flags = flags.with(name, value);
        }
    }
    (env, flags)
}

/// A secret in the environment.
fn planted(key: &Key) -> (String, String) {
    let value = if key.path == "database.url" { ADDRESS } else { CANARY };
    (format!("INBOX_{}", key.path.replace('.', "__")).to_ascii_uppercase(), value.to_owned())
}

fn load(
    file: &str,
    env: impl IntoIterator<Item = (String, String)>,
    flags: &Overrides,
) -> Result<Config, ConfigError> {
    let path: &Path = &FILE;
    // Some file systems wait for the disk when a file is written over.
    drop(fs::remove_file(path));
    fs::write(path, file).expect("the temporary folder can be written to");
    Config::load(Some(path), env, flags)
}

/// What is read may be used.
fn sound(config: &Config) {
    assert!(config.validate().iter().all(|problem| !problem.fatal));
    assert!(config.reader().is_ok());
    assert!(toml::to_string(config).is_ok());
    let raw = &config.kafka.raw;
    assert_eq!(raw.passed(Program::Consumer).count(), raw.iter().count(), "nothing is left out");
}

fn silent(read: Result<Config, ConfigError>) {
    let told = match read {
        Ok(config) => {
            let shown = toml::to_string(&config).expect("a configuration can be shown");
            format!("{config:?}{shown}{:?}", config.validate())
        }
        Err(error) => {
            let told = error.to_string();
            assert!(!told.trim().is_empty());
            told
        }
    };
    assert!(!told.contains(CANARY), "a secret is told: {told}");
}
