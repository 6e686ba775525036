//! What is wrong with a configuration, in sentences.

use std::fmt;

/// One thing that is wrong or doubtful about the values together.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Problem {
    /// Whether the program refuses to start with it.
    pub fatal: bool,
    /// The keys it is about.
    pub keys: Vec<&'static str>,
    /// What is wrong and what to change: one sentence, without secrets.
    pub text: String,
}

impl Problem {
    /// One that refuses.
    pub fn fatal(keys: &[&'static str], text: impl Into<String>) -> Self {
        Self { fatal: true, keys: keys.to_vec(), text: text.into() }
    }

    /// One to think about.
    pub fn doubt(keys: &[&'static str], text: impl Into<String>) -> Self {
        Self { fatal: false, keys: keys.to_vec(), text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why there is no configuration. Displays one sentence per line.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file, or a file that a `…_file` key names, cannot be read.
    Unreadable(String),
    /// The file is not TOML.
    Syntax(String),
    /// Unknown keys, values of the wrong form or out of bounds: all that were found.
    Keys(Vec<String>),
    /// The values do not go together, or something is missing: all that was found.
    Unsafe(Vec<Problem>),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(text) | Self::Syntax(text) => f.write_str(text),
            Self::Keys(all) => f.write_str(&all.join("\n")),
            Self::Unsafe(all) => {
                let lines: Vec<&str> = all.iter().map(|problem| problem.text.as_str()).collect();
                f.write_str(&lines.join("\n"))
            }
        }
    }
}

impl std::error::Error for ConfigError {}
