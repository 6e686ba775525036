//! How the flows send their statements here, and read rows.

use sqlx::{
    Error, Row as _, Sqlite, SqliteConnection,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};
use uuid::Uuid;

use super::{numbers, session};
use crate::{
    flow::{Dialect, Value, reads},
    shared::sixteen,
};

impl Dialect for Sqlite {
    async fn execute(
        conn: &mut SqliteConnection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<u64, Error> {
        query(text, values).execute(conn).await.map(|done| done.rows_affected())
    }

    async fn fetch_all(
        conn: &mut SqliteConnection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<SqliteRow>, Error> {
        query(text, values).fetch_all(conn).await
    }

    async fn fetch_optional(
        conn: &mut SqliteConnection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<Option<SqliteRow>, Error> {
        query(text, values).fetch_optional(conn).await
    }

    async fn fetch_one(
        conn: &mut SqliteConnection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<SqliteRow, Error> {
        query(text, values).fetch_one(conn).await
    }

    async fn begin_own(conn: &mut SqliteConnection) -> Result<(), Error> {
        session::begin_own(conn).await
    }

    async fn end_own<T: Send, E: From<Error> + Send>(
        conn: &mut SqliteConnection,
        work: Result<T, E>,
    ) -> Result<T, E> {
        session::end_own(conn, work).await
    }
}

fn query(text: &'static str, values: &[Value<'_>]) -> Query<'static, Sqlite, SqliteArguments> {
    values.iter().fold(sqlx::query(text), |query, value| match *value {
        Value::Bool(value) => query.bind(value),
        Value::Bytes(value) => query.bind(value),
        Value::Int(value) => query.bind(value),
        Value::Long(value) => query.bind(value),
        Value::Longs(value) => query.bind(numbers(value.iter().copied())),
        Value::Text(value) => query.bind(value),
        Value::Uuid(value) => query.bind(value),
    })
}

reads! { SqliteRow:
    bool;
    Option<bool>;
    i32;
    Option<i32>;
    i64;
    Option<i64>;
    Option<f64>;
    String;
    Option<String>;
    [u8; 16] = &[u8], sixteen;
    Uuid = &[u8], id;
    Option<Uuid> = Option<&[u8]>, |bytes| bytes.map(id).transpose();
}

fn id(bytes: &[u8]) -> Result<Uuid, Error> {
    sixteen(bytes).map(Uuid::from_bytes)
}
