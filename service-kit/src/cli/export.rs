//! The export of spans while a command runs.

use std::time::Duration;

use super::{json::Identity, subscriber};
use crate::{
    Log, Traces, TracesNotice,
    otlp::{self, Exporting},
};

/// The longest that a process waits at its end for spans that are left.
pub const FLUSH_MAX: Duration = otlp::FLUSH_MAX;

/// The export of spans while a command runs.
#[derive(Debug, Default)]
pub struct Export {
    exporting: Option<Exporting>,
}

impl Export {
    /// Starts the log, and with it the export of spans as `traces` says, under the name of the service where nothing
    /// else sets one. What keeps spans from being exported keeps the program from nothing.
    pub(super) fn start(
        log: &Log,
        identity: &Identity,
        traces: Option<(&Traces, &str)>,
        env: &[(String, String)],
        tell: fn(TracesNotice),
    ) -> Result<Self, String> {
        let begun = match traces {
            Some((traces, service)) => otlp::start(traces, service, env, tell),
            None => Ok(None),
        };
        let (exporting, doubt) = match begun {
            Ok(exporting) => (exporting, None),
            Err(doubt) => (None, Some(doubt)),
        };
        let layer = exporting.as_ref().map(Exporting::layer);
        let set = subscriber::start(log, env, identity, layer)?;
        let doubt = doubt.or_else(|| {
            (exporting.is_some() && !set).then(|| {
                "spans are not exported: the program has its own tracing subscriber; add a \
                 tracing-opentelemetry layer to it, or set `traces.endpoint` to off"
                    .to_owned()
            })
        });
        if let Some(doubt) = doubt {
            tell(TracesNotice::Doubtful(doubt));
        }
        Ok(Self { exporting })
    }

    /// Sends what is left, for [`FLUSH_MAX`] at most. Nothing else may wait for this thread.
    pub fn flush(self) {
        if let Some(exporting) = &self.exporting {
            exporting.flush();
        }
    }
}
