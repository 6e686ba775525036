//! What a flow needs of a database beside its texts: to send a statement, and to read a row.

use std::future::Future;

use sqlx::{Database, Error, Row, SqlStr};
use uuid::Uuid;

use crate::port::Sessions;

/// How statements are sent, whatever the database: as the driver sends them, each prepared and kept as
/// `sqlx::query` does it.
pub(crate) trait SqlClient: Sessions + Database<Row: Columns> {
    /// Sends a statement; answers how many rows it changed.
    fn execute(
        conn: &mut Self::Connection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, Error>> + Send;
    /// Every row.
    fn fetch_all(
        conn: &mut Self::Connection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Vec<Self::Row>, Error>> + Send;
    /// The first row, if there is one.
    fn fetch_optional(
        conn: &mut Self::Connection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Option<Self::Row>, Error>> + Send;
    /// The first row.
    fn fetch_one(
        conn: &mut Self::Connection,
        text: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Self::Row, Error>> + Send;
    /// Sends a text without parameters, and without preparing it.
    fn run(
        conn: &mut Self::Connection,
        text: SqlStr,
    ) -> impl Future<Output = Result<(), Error>> + Send;
    /// BEGIN of a call's own transaction.
    fn begin_own(conn: &mut Self::Connection) -> impl Future<Output = Result<(), Error>> + Send;
    /// COMMIT when the work succeeded, else ROLLBACK; the work's own error comes first.
    fn end_own<T: Send, E: From<Error> + Send>(
        conn: &mut Self::Connection,
        work: Result<T, E>,
    ) -> impl Future<Output = Result<T, E>> + Send;
}

/// A parameter of a statement. An enum, so that no flow has to say of each type that a database takes it.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    /// True or false.
    Bool(bool),
    /// Bytes, where they are no UUID.
    Bytes(&'a [u8]),
    /// A whole number of 32 bits.
    Int(Option<i32>),
    /// A whole number of 64 bits.
    Long(Option<i64>),
    /// Whole numbers, as one parameter.
    Longs(&'a [i64]),
    /// Text.
    Text(Option<&'a str>),
    /// A UUID.
    Uuid(Uuid),
}

macro_rules! from {
    ($($of:ty: $value:ident => $made:expr;)*) => {
        $(impl<'a> From<$of> for Value<'a> {
            fn from($value: $of) -> Self {
                $made
            }
        })*
    };
}
from! {
    bool: value => Self::Bool(value);
    &'a [u8; 16]: value => Self::Bytes(value);
    i32: value => Self::Int(Some(value));
    Option<i32>: value => Self::Int(value);
    i64: value => Self::Long(Some(value));
    Option<i64>: value => Self::Long(value);
    &'a [i64]: value => Self::Longs(value);
    &'a Vec<i64>: value => Self::Longs(value);
    &'a str: value => Self::Text(Some(value));
    &'a String: value => Self::Text(Some(value));
    Option<&'a str>: value => Self::Text(value);
    &'a Option<String>: value => Self::Text(value.as_deref());
    Uuid: value => Self::Uuid(value);
}

/// Implements [`SqlClient`]: `$on` makes a driver's executor of a connection, `$longs` its parameter of whole numbers.
macro_rules! sql_client {
    ($db:ident, $on:ident, $longs:ident) => {
        impl $crate::flow::SqlClient for $db {
            async fn execute(
                conn: &mut <$db as sqlx::Database>::Connection,
                text: &'static str,
                values: &[$crate::flow::Value<'_>],
            ) -> Result<u64, sqlx::Error> {
                query(text, values).execute($on(conn)).await.map(|done| done.rows_affected())
            }

            async fn fetch_all(
                conn: &mut <$db as sqlx::Database>::Connection,
                text: &'static str,
                values: &[$crate::flow::Value<'_>],
            ) -> Result<Vec<<$db as sqlx::Database>::Row>, sqlx::Error> {
                query(text, values).fetch_all($on(conn)).await
            }

            async fn fetch_optional(
                conn: &mut <$db as sqlx::Database>::Connection,
                text: &'static str,
                values: &[$crate::flow::Value<'_>],
            ) -> Result<Option<<$db as sqlx::Database>::Row>, sqlx::Error> {
                query(text, values).fetch_optional($on(conn)).await
            }

            async fn fetch_one(
                conn: &mut <$db as sqlx::Database>::Connection,
                text: &'static str,
                values: &[$crate::flow::Value<'_>],
            ) -> Result<<$db as sqlx::Database>::Row, sqlx::Error> {
                query(text, values).fetch_one($on(conn)).await
            }

            async fn run(
                conn: &mut <$db as sqlx::Database>::Connection,
                text: sqlx::SqlStr,
            ) -> Result<(), sqlx::Error> {
                sqlx::raw_sql(text).execute($on(conn)).await.map(drop)
            }

            async fn begin_own(
                conn: &mut <$db as sqlx::Database>::Connection,
            ) -> Result<(), sqlx::Error> {
                session::begin_own(conn).await
            }

            async fn end_own<T: Send, E: From<sqlx::Error> + Send>(
                conn: &mut <$db as sqlx::Database>::Connection,
                work: Result<T, E>,
            ) -> Result<T, E> {
                session::end_own(conn, work).await
            }
        }

        fn query(
            text: &'static str,
            values: &[$crate::flow::Value<'_>],
        ) -> sqlx::query::Query<'static, $db, <$db as sqlx::Database>::Arguments> {
            use $crate::flow::Value;
            values.iter().fold(sqlx::query(text), |query, value| match *value {
                Value::Bool(value) => query.bind(value),
                Value::Bytes(value) => query.bind(value),
                Value::Int(value) => query.bind(value),
                Value::Long(value) => query.bind(value),
                Value::Longs(value) => query.bind($longs(value)),
                Value::Text(value) => query.bind(value),
                Value::Uuid(value) => query.bind(value),
            })
        }
    };
}
pub(crate) use sql_client;

/// Parameters, in their order.
macro_rules! values {
    ($($value:expr),+ $(,)?) => {
        &[$($crate::flow::Value::from($value)),+]
    };
}
pub(crate) use values;

/// Reads a column as a type.
pub(crate) trait Read<T> {
    /// By its name.
    fn read(&self, name: &str) -> Result<T, Error>;
    /// By its place, from 0.
    fn at(&self, place: usize) -> Result<T, Error>;
}

/// A row, with the types that its columns are read as. A key is 16 bytes, an id a UUID.
pub(crate) trait Columns:
    Row
    + Read<bool>
    + Read<Option<bool>>
    + Read<i32>
    + Read<Option<i32>>
    + Read<i64>
    + Read<Option<i64>>
    + Read<Option<f64>>
    + Read<String>
    + Read<Option<String>>
    + Read<[u8; 16]>
    + Read<Uuid>
    + Read<Option<Uuid>>
{
}

/// Has the driver read these types of its row. With `by`, a function makes them of what the driver reads.
macro_rules! reads {
    ($row:ty: $($type:ty $(= $read:ty, $by:expr)?;)+) => {
        $($crate::flow::reads!(@one $row, $type $(, $read, $by)?);)+
        impl $crate::flow::Columns for $row {}
    };
    (@one $row:ty, $type:ty) => {
        impl $crate::flow::Read<$type> for $row {
            fn read(&self, name: &str) -> Result<$type, sqlx::Error> {
                self.try_get(name)
            }
            fn at(&self, place: usize) -> Result<$type, sqlx::Error> {
                self.try_get(place)
            }
        }
    };
    (@one $row:ty, $type:ty, $read:ty, $by:expr) => {
        impl $crate::flow::Read<$type> for $row {
            fn read(&self, name: &str) -> Result<$type, sqlx::Error> {
                self.try_get::<$read, _>(name).and_then($by)
            }
            fn at(&self, place: usize) -> Result<$type, sqlx::Error> {
                self.try_get::<$read, _>(place).and_then($by)
            }
        }
    };
}
pub(crate) use reads;
