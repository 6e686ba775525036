//! Queued statements: SQLite is in this process, so one by one costs no round trip.

use sqlx::{Arguments as _, Encode, Sqlite, SqliteConnection, Type, error::BoxDynError};

use crate::{
    port::{
        QueuedStatement, QueuedValues, Queues, RegistrySnapshot, SendContext, SendError, Sessions,
        TextCheck,
    },
    sql::{Dialect, verbs},
};

impl Queues for Sqlite {
    fn values() -> QueuedValues<Self> {
        QueuedValues::Bound(sqlx::sqlite::SqliteArguments::default())
    }

    fn bind<'t, T: Encode<'t, Self> + Type<Self>>(
        values: &mut QueuedValues<Self>,
        value: T,
    ) -> Result<usize, BoxDynError> {
        let bytes = value.size_hint();
        if let QueuedValues::Bound(arguments) = values {
            arguments.add(value)?;
        }
        Ok(bytes)
    }

    fn check_text(sql: &str) -> TextCheck {
        verbs::check(sql, Dialect::Sqlite, Self::refuses)
    }

    async fn prepare_session(
        _conn: &mut SqliteConnection,
        _edition: &RegistrySnapshot,
    ) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn send(
        conn: &mut SqliteConnection,
        _means: SendContext<'_>,
        waiting: Vec<QueuedStatement<Self>>,
    ) -> Result<(), SendError> {
        for (at, statement) in waiting.into_iter().enumerate() {
            let sent = match statement.values {
                QueuedValues::Bound(arguments) => {
                    sqlx::query_with(statement.sql, arguments).execute(&mut *conn).await
                }
                // Never: `values` above begins with the other kind.
                QueuedValues::Encoded(_) => {
                    Err(sqlx::Error::InvalidArgument("values of another database".into()))
                }
            };
            sent.map_err(|error| SendError { at: Some(at), error })?;
        }
        Ok(())
    }
}
