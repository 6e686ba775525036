//! Being told: LISTEN on a connection of its own.

use std::{io, time::Duration};

use sqlx::{
    Postgres, Row as _,
    postgres::{PgListener, PgPoolOptions},
};

use super::session::{OPEN_MAX, PgSettings};
use crate::port::{WakeSignals, Wakes};

/// The table's own number: notifications carry it, so that relays of other schemas sleep on.
const TABLE: &str = "SELECT 'outbox_events'::regclass::oid::text";
/// Where relays tell each other that a turn was given up.
const TURNS: &str = "outbox_relays";
/// Nobody writes on this connection, so that nothing would say that it is dead: it is asked.
const ASKED_EVERY: Duration = Duration::from_secs(10);
const QUESTION: &str = "SELECT 1";
/// The longest that an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// A listener that cannot listen tries again after this; the poll goes on meanwhile.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

impl Wakes for Postgres {
    async fn listen(
        settings: PgSettings,
        signals: WakeSignals,
        told: impl Fn(Result<(), String>) + Send + Sync + 'static,
    ) {
        loop {
            if let Err(error) = listen(&settings, &signals, &told).await {
                told(Err(format!(
                    "the connection that listens for new rows is broken ({error}); reconnecting, \
                     until then the poll finds them"
                )));
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

/// Listens until the connection breaks, or falls silent.
async fn listen(
    settings: &PgSettings,
    signals: &WakeSignals,
    told: &impl Fn(Result<(), String>),
) -> Result<(), sqlx::Error> {
    let (mut listener, table) = within(OPEN_MAX, listener(settings)).await?;
    told(Ok(()));
    // What was told before, nobody heard.
    signals.rows.notify_one();
    loop {
        let told = tokio::select! {
            told = listener.try_recv() => told?,
            () = tokio::time::sleep(ASKED_EVERY) => {
                within(ANSWER_MAX, sqlx::raw_sql(QUESTION).execute(&mut listener)).await?;
                continue;
            }
        };
        let Some(told) = told else { return Ok(()) };
        if told.payload() != table {
            continue;
        }
        match told.channel() {
            TURNS => signals.turns.notify_one(),
            _ => signals.rows.notify_one(),
        }
    }
}

/// A connection that listens, and the table's number.
async fn listener(settings: &PgSettings) -> Result<(PgListener, String), sqlx::Error> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(settings.options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen_all([outbox_core::internal::NOTIFY_CHANNEL, TURNS]).await?;
    let table = sqlx::raw_sql(TABLE).fetch_one(&mut listener).await?.try_get(0)?;
    Ok((listener, table))
}

async fn within<T>(
    longest: Duration,
    call: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(longest, call).await.unwrap_or_else(|_| {
        let text = format!("the database did not answer within {longest:?}");
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)))
    })
}
