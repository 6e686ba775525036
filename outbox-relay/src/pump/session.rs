//! A session that is opened when it is needed and given up when a call on it fails.

use std::time::Duration;

use crate::port::{FeedError, Sessions};

/// No call takes longer: behind a dead network the driver would wait for ever.
const CALL_MAX: Duration = Duration::from_secs(30);

/// A session, or the means to open one.
pub(super) struct Held<F: Sessions> {
    settings: F::Settings,
    session: Option<F::Session>,
}

impl<F: Sessions> Held<F> {
    pub(super) fn new(settings: F::Settings) -> Self {
        Self { settings, session: None }
    }

    /// Makes one call. A call that fails, or that is given up half-way, costs the session.
    pub(super) async fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut F::Session) -> Result<T, FeedError>,
    ) -> Result<T, String> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => F::open(&self.settings).await.map_err(|error| error.to_string())?,
        };
        match tokio::time::timeout(CALL_MAX, call(&mut session)).await {
            Ok(Ok(answer)) => {
                self.session = Some(session);
                Ok(answer)
            }
            Ok(Err(error)) => {
                F::close_hard(session).await;
                Err(format!("the database failed: {error}"))
            }
            Err(_) => {
                F::close_hard(session).await;
                Err(format!("the database did not answer within {CALL_MAX:?}"))
            }
        }
    }
}
