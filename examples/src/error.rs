//! Why a lesson ends early.

use std::fmt;

/// Any error, as a sentence: `main` prints it behind `Error:`.
pub struct Error(String);

impl Error {
    /// An error that this sentence explains.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

/// What `main` prints of an error that it returns.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
