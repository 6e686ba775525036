//! What a handler has been given.

use inbox_consumer::{Event, Handler, HandlerResult, Tx};
use outbox_core::{CodecError, Decode, Payload};
use sqlx::Postgres;

use crate::Schema;

pub(super) const TABLE: &str = "CREATE TABLE seen (seq bigserial, id text, event_type text, aggregate_type text, \
    aggregate_id text, payload bytea)";

/// The payload's bytes, or none.
pub(super) struct Verbatim;

impl Decode<Option<Vec<u8>>> for Verbatim {
    fn decode(&self, payload: &Payload<'_>) -> Result<Option<Vec<u8>>, CodecError> {
        Ok(payload.content().map(<[u8]>::to_vec))
    }
}

/// Writes down what it is given.
pub(super) struct See;

impl Handler<Postgres> for See {
    type Event = Option<Vec<u8>>;

    async fn handle(
        &self,
        event: &Event<Option<Vec<u8>>>,
        tx: &mut Tx<'_, Postgres>,
    ) -> HandlerResult {
        let id = event.source_id().map_or_else(|| event.id().to_string(), str::to_owned);
        sqlx::query(
            "INSERT INTO seen (id, event_type, aggregate_type, aggregate_id, payload) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(id)
        .bind(event.event_type())
        .bind(event.aggregate().aggregate_type())
        .bind(event.aggregate().aggregate_id())
        .bind(event.payload.as_deref())
        .execute(&mut *tx)
        .await?;
        Ok(())
    }
}

/// An event as it was given.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) event_type: String,
    pub(super) aggregate_type: String,
    pub(super) aggregate_id: String,
    pub(super) payload: Option<Vec<u8>>,
}

impl Seen {
    pub(super) async fn all(schema: &Schema) -> Vec<Self> {
        let all =
            "SELECT id, event_type, aggregate_type, aggregate_id, payload FROM seen ORDER BY seq";
        sqlx::query_as(all).fetch_all(schema.pool()).await.expect("reading what was seen")
    }
}
