//! Deadlines by the client's clock around what is asked of a server.
//!
//! A connection can fall silent without an error; nobody hears of the server's own limits then.

use std::{io, time::Duration};

use inbox_engine::internal::Rule;

use super::{Sessions, TxLimits};

/// A little after the server's own limit, whose answer says more.
const MARGIN: Duration = Duration::from_secs(3);
/// For what is asked outside of a transaction with limits of its own: twice what the server gives to the
/// runtime's own transactions.
const ASKED_MAX: Duration = Duration::from_secs(20);

/// For what may rightly take long: changing tables, looking through large ones.
const PATIENCE: Duration = Duration::from_mins(10);

tokio::task_local! {
    static LIMIT: Duration;
}

/// The longest that one answer of the server may take; `None`: it is not limited.
pub fn limit() -> Option<Duration> {
    Rule::ClientDeadline.on().then(|| LIMIT.try_with(|limit| *limit).unwrap_or(ASKED_MAX))
}

/// Whether a statement that has run for so long in [`with`] is not the server's doing any more.
pub fn passed(ran: Duration) -> bool {
    Rule::ClientDeadline.on() && LIMIT.try_with(|limit| ran > *limit).unwrap_or(false)
}

/// Whether a statement that has run for so long in [`with`] has met the server's own limit, and which that is.
pub fn server_limit_met(ran: Duration) -> Option<Duration> {
    let limit = LIMIT.try_with(|limit| limit.saturating_sub(MARGIN)).ok()?;
    (Rule::StatementTimeoutCounts.on() && ran >= limit).then_some(limit)
}

/// Does work whose statements have these limits at the server. What is no server does not fall silent.
pub async fn with<DB: Sessions, T>(limits: &TxLimits, work: impl Future<Output = T>) -> T {
    let limit = if DB::SERVER { limits.statement_timeout + MARGIN } else { Duration::MAX };
    LIMIT.scope(limit, work).await
}

/// Does work that a person waits for, and may break off.
pub async fn patiently<T>(work: impl Future<Output = T>) -> T {
    LIMIT.scope(PATIENCE, work).await
}

/// One exchange with the server, or the error of a connection that fell silent. It has to be closed then.
pub async fn within<T>(
    exchange: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    match limit() {
        Some(limit) => until(limit, exchange).await,
        None => exchange.await,
    }
}

/// The same for an exchange that the server answers at once.
pub async fn soon<T>(
    exchange: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    match limit() {
        Some(limit) => until(limit.min(ASKED_MAX / 2), exchange).await,
        None => exchange.await,
    }
}

async fn until<T>(
    limit: Duration,
    exchange: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| Err(silent()))
}

/// What is said of a connection that fell silent.
pub fn silent() -> sqlx::Error {
    let text = "the connection is dead: the server has not answered for longer than its own limit \
                allows; reconnecting";
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text))
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use std::future::pending;

    use super::*;

    /// A little longer than the server would take to say so itself.
    #[tokio::test]
    async fn the_clients_limit_is_a_little_above_the_servers() {
        let seconds = Duration::from_secs;
        let limits = TxLimits {
            statement_timeout: seconds(30),
            lock_timeout: seconds(1),
            idle_timeout: seconds(60),
        };
        assert_eq!(limit(), Some(ASKED_MAX));
        assert!(!passed(Duration::MAX), "nothing is known of the server's limit");
        with::<sqlx::Postgres, _>(&limits, async {
            assert_eq!(limit(), Some(seconds(33)));
            assert!(!passed(seconds(33)) && passed(seconds(34)));
            assert_eq!(server_limit_met(seconds(29)), None);
            assert_eq!(server_limit_met(seconds(30)), Some(seconds(30)));
        })
        .await;
    }

    #[tokio::test]
    async fn an_answer_that_does_not_come_is_an_error() {
        let error = until(Duration::from_millis(1), pending::<Result<(), _>>()).await.unwrap_err();
        assert!(error.to_string().contains("the connection is dead"), "{error}");
    }
}
