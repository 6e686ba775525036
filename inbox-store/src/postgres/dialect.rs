//! How the flows send their statements here, and read rows.

use sqlx::{
    Error, PgConnection, Postgres, Row as _,
    postgres::{PgArguments, PgRow},
    query::Query,
};
use uuid::Uuid;

use super::{sent::on, session};
use crate::{
    flow::{Dialect, Value, reads},
    shared::sixteen,
};

impl Dialect for Postgres {
    async fn execute(
        conn: &mut PgConnection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<u64, Error> {
        query(text, values).execute(on(conn)).await.map(|done| done.rows_affected())
    }

    async fn fetch_all(
        conn: &mut PgConnection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<PgRow>, Error> {
        query(text, values).fetch_all(on(conn)).await
    }

    async fn fetch_optional(
        conn: &mut PgConnection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<Option<PgRow>, Error> {
        query(text, values).fetch_optional(on(conn)).await
    }

    async fn fetch_one(
        conn: &mut PgConnection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> Result<PgRow, Error> {
        query(text, values).fetch_one(on(conn)).await
    }

    async fn begin_own(conn: &mut PgConnection) -> Result<(), Error> {
        session::begin_own(conn).await
    }

    async fn end_own<T: Send, E: From<Error> + Send>(
        conn: &mut PgConnection,
        work: Result<T, E>,
    ) -> Result<T, E> {
        session::end_own(conn, work).await
    }
}

fn query(text: &'static str, values: &[Value<'_>]) -> Query<'static, Postgres, PgArguments> {
    values.iter().fold(sqlx::query(text), |query, value| match *value {
        Value::Bool(value) => query.bind(value),
        Value::Bytes(value) => query.bind(value),
        Value::Int(value) => query.bind(value),
        Value::Long(value) => query.bind(value),
        Value::Longs(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
        Value::Uuid(value) => query.bind(value),
    })
}

reads! { PgRow:
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
    Uuid;
    Option<Uuid>;
}
