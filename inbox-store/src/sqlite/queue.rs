//! Queued statements: SQLite is in this process, so one by one costs no round trip.

use sqlx::{Arguments as _, Encode, Sqlite, SqliteConnection, Type, error::BoxDynError};

use crate::{
    port::{Edition, Look, Means, NotSent, QueuedValues, Queues, Sessions, Waiting},
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

    fn look(sql: &str) -> Look {
        verbs::look(sql, Dialect::Sqlite, Self::refuses)
    }

    async fn learn(_conn: &mut SqliteConnection, _edition: &Edition) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn send(
        conn: &mut SqliteConnection,
        _means: Means<'_>,
        waiting: Vec<Waiting<Self>>,
    ) -> Result<(), NotSent> {
        for (at, statement) in waiting.into_iter().enumerate() {
            let sent = match statement.values {
                QueuedValues::Bound(arguments) => {
                    sqlx::query_with(statement.sql, arguments).execute(&mut *conn).await
                }
                // Never: `values` above begins with the other kind.
                QueuedValues::Apart(_) => {
                    Err(sqlx::Error::InvalidArgument("values of another database".into()))
                }
            };
            sent.map_err(|error| NotSent { at: Some(at), error })?;
        }
        Ok(())
    }
}
