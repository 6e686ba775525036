//! Being told of new rows, and of a turn that is free.

use std::sync::Arc;

use tokio::sync::Notify;

use super::Sessions;

/// Who is woken by what.
#[derive(Clone, Debug, Default)]
pub(crate) struct WakeSignals {
    /// Rung when rows were appended.
    pub rows: Arc<Notify>,
    /// Rung when a relay has given its turn up.
    pub turns: Arc<Notify>,
}

/// Being told.
pub(crate) trait Wakes: Sessions {
    /// Wakes by the signals until it is dropped. It mends its own connection, rings after each repair, and tells
    /// whether it listens.
    fn listen(
        settings: Self::Settings,
        signals: WakeSignals,
        told: impl Fn(Result<(), String>) + Send + Sync + 'static,
    ) -> impl Future<Output = ()> + Send;
}
