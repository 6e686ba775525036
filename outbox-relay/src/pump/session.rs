//! A session that is opened when it is needed and given up when a call on it fails.

use inbox_engine::internal::Rule;

use crate::port::{FeedError, Sessions, whole};

/// A session, or the means to open one.
pub(crate) struct LazySession<F: Sessions> {
    settings: F::Settings,
    session: Option<F::Session>,
    /// The file that it is on.
    file: Option<u128>,
    /// How many were opened so far.
    opened: u64,
}

impl<F: Sessions> LazySession<F> {
    pub(crate) fn new(settings: F::Settings) -> Self {
        Self { settings, session: None, file: None, opened: 0 }
    }

    /// Which session the next call is made on, if it is open already.
    pub(super) fn number(&self) -> Option<u64> {
        self.session.as_ref().map(|_| self.opened)
    }

    /// Makes one call. A call that fails, or that is given up half-way, costs the session.
    pub(crate) async fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut F::Session) -> Result<T, FeedError>,
    ) -> Result<T, String> {
        // Behind a dead network the driver would wait for ever.
        let longest = F::call_max(&self.settings);
        let silent = || format!("the database did not answer within {longest:?}");
        let file = F::file(&self.settings);
        let mut session = match self.session.take() {
            Some(session) if file == self.file || !Rule::FileIsTheSame.on() => session,
            Some(session) => {
                F::close_hard(session).await;
                return Err(format!(
                    "the file of {} was replaced or removed while it was open; what was not \
                     delivered is read from the file that is there now",
                    F::outbox(&self.settings)
                ));
            }
            None => {
                self.opened += 1;
                let session = tokio::time::timeout(longest, F::open(&self.settings))
                    .await
                    .map_err(|_| silent())?
                    .map_err(|error| error.to_string())?;
                // The first session makes the file.
                let made = file == Some(0);
                self.file = if made { F::file(&self.settings) } else { file };
                session
            }
        };
        match tokio::time::timeout(longest, whole::<F, T>(&self.settings, &mut session, call)).await
        {
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
                Err(silent())
            }
        }
    }
}
