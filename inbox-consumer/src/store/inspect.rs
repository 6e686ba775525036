//! Findings that all databases share.

use crate::pipeline::port::Finding;

/// The consumer refuses to start with it.
pub(super) fn fatal(text: impl Into<String>) -> Finding {
    Finding { fatal: true, text: text.into() }
}

/// The promise is weaker with it.
pub(super) fn doubtful(text: impl Into<String>) -> Finding {
    Finding { fatal: false, text: text.into() }
}

/// What the version of the tables means.
pub(super) fn schema(version: Option<i64>, newest: i64) -> Option<Finding> {
    match version {
        None => Some(fatal("the tables of the inbox are not there; run `migrate`")),
        Some(old) if old < newest => Some(fatal(format!(
            "the tables of the inbox have version {old}, this build needs {newest}; run `migrate`"
        ))),
        Some(new) if new > newest => Some(doubtful(format!(
            "the tables of the inbox have version {new}, this build knows {newest}; bring it up to date"
        ))),
        Some(_) => None,
    }
}
