//! Being told: LISTEN on a connection of its own.

use std::time::Duration;

use sqlx::{
    Postgres,
    postgres::{PgListener, PgPoolOptions},
};

use super::session::PgSettings;
use crate::port::{Bells, Wakes};

/// The table's own number: notifications carry it, so that relays of other schemas sleep on.
const TABLE: &str = "SELECT 'outbox_events'::regclass::oid::text";
/// Where relays tell each other that a turn was given up.
const TURNS: &str = "outbox_relays";
/// A listener that cannot listen tries again after this; the poll goes on meanwhile.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

impl Wakes for Postgres {
    async fn listen(
        settings: PgSettings,
        bells: Bells,
        trouble: impl Fn(String) + Send + Sync + 'static,
    ) {
        loop {
            if let Err(error) = listen(&settings, &bells).await {
                trouble(format!(
                    "the connection that listens for new rows is broken ({error}); it is opened anew, \
                     and until then the poll finds them"
                ));
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

/// Listens until the connection breaks.
async fn listen(settings: &PgSettings, bells: &Bells) -> Result<(), sqlx::Error> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(settings.options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen_all([outbox_core::NOTIFY_CHANNEL, TURNS]).await?;
    let table: String = sqlx::query_scalar(TABLE).fetch_one(&mut listener).await?;
    // What was told before, nobody heard.
    bells.rows.notify_one();
    while let Some(told) = listener.try_recv().await? {
        if told.payload() != table {
            continue;
        }
        match told.channel() {
            TURNS => bells.turns.notify_one(),
            _ => bells.rows.notify_one(),
        }
    }
    Ok(())
}
