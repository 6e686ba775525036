//! The export of spans while a command runs.

use std::time::Duration;

#[cfg(feature = "otlp")]
use crate::otlp::{self, Exporting};

/// How long a process goes on at its end for spans that are left, at most.
#[cfg(feature = "otlp")]
pub const FLUSH_MAX: Duration = otlp::FLUSH_MAX;
/// How long a process goes on at its end for spans that are left, at most.
#[cfg(not(feature = "otlp"))]
pub const FLUSH_MAX: Duration = Duration::ZERO;

/// The export of spans while a command runs; of a build without the feature `otlp`, none.
#[derive(Debug, Default)]
pub struct Export {
    #[cfg(feature = "otlp")]
    pub(super) exporting: Option<Exporting>,
}

impl Export {
    /// Sends what is left, for [`FLUSH_MAX`] at most. Nothing else may wait for this thread.
    pub fn flush(self) {
        #[cfg(feature = "otlp")]
        if let Some(exporting) = &self.exporting {
            exporting.flush();
        }
    }
}
