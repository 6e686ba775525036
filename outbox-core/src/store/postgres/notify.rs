//! A trigger that wakes relays for those who insert by plain SQL.

use sqlx::{Connection, PgConnection};

use super::schema::LOCK;

/// The channel and the payload of an append: PostgreSQL drops the second of two equal notifications of a
/// transaction, whoever sent them. A statement's trigger: a row's would be called for each of them. Only where the
/// trigger is missing does anybody have to wait for the table.
const ON: &str =
    "CREATE OR REPLACE FUNCTION outbox_events_notify() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_catalog.pg_notify('outbox_events', TG_RELID::pg_catalog.text);
    RETURN NULL;
END $$;
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger
        WHERE tgrelid = 'outbox_events'::regclass AND tgname = 'outbox_events_notify') THEN
        CREATE TRIGGER outbox_events_notify AFTER INSERT ON outbox_events
            FOR EACH STATEMENT EXECUTE FUNCTION outbox_events_notify();
    END IF;
END $$;
";

const OFF: &str = "DROP TRIGGER IF EXISTS outbox_events_notify ON outbox_events;
DROP FUNCTION IF EXISTS outbox_events_notify();
";

/// Makes it or removes it.
pub(super) async fn set(conn: &mut PgConnection, is_there: bool) -> Result<(), sqlx::Error> {
    let mut tx = conn.begin().await?;
    sqlx::raw_sql(LOCK).execute(&mut *tx).await?;
    sqlx::raw_sql(if is_there { ON } else { OFF }).execute(&mut *tx).await?;
    tx.commit().await
}

/// The statements that do it.
#[expect(clippy::unnecessary_wraps, reason = "as its twin's, where there is nobody to notify")]
pub(super) fn print(is_there: bool) -> Option<&'static str> {
    Some(if is_there { ON } else { OFF })
}
