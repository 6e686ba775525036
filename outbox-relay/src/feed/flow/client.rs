//! What a flow needs of a database beside its texts: to send a statement, and to read a row.

use std::future::Future;

use sqlx::{ColumnIndex, Database, Decode, Error, Row, Type};
use uuid::Uuid;

use crate::port::Sessions;

/// How statements are sent, whatever the database.
pub(crate) trait SqlClient:
    Sessions<Session = <Self as Database>::Connection> + Database<Row: Columns>
{
    /// Sends a statement; answers how many rows it changed.
    fn execute(
        session: &mut Self::Session,
        text: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, Error>> + Send;
    /// Every row.
    fn fetch_all(
        session: &mut Self::Session,
        text: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Vec<Self::Row>, Error>> + Send;
    /// The first row, if there is one.
    fn fetch_optional(
        session: &mut Self::Session,
        text: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Option<Self::Row>, Error>> + Send;
    /// The first row.
    fn fetch_one(
        session: &mut Self::Session,
        text: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Self::Row, Error>> + Send {
        async move { Self::fetch_optional(session, text, values).await?.ok_or(Error::RowNotFound) }
    }
}

/// Implements [`SqlClient`]; `$kept` says whether a session keeps statements.
macro_rules! sql_client {
    ($db:ident, $session:ident, $row:ident, $kept:expr) => {
        impl $crate::feed::flow::SqlClient for $db {
            async fn execute(
                session: &mut $session,
                text: &'static str,
                values: &[$crate::feed::flow::Value<'_>],
            ) -> Result<u64, sqlx::Error> {
                Ok(query(session, text, values).execute(session).await?.rows_affected())
            }

            async fn fetch_all(
                session: &mut $session,
                text: &'static str,
                values: &[$crate::feed::flow::Value<'_>],
            ) -> Result<Vec<$row>, sqlx::Error> {
                query(session, text, values).fetch_all(session).await
            }

            async fn fetch_optional(
                session: &mut $session,
                text: &'static str,
                values: &[$crate::feed::flow::Value<'_>],
            ) -> Result<Option<$row>, sqlx::Error> {
                query(session, text, values).fetch_optional(session).await
            }
        }

        impl $crate::feed::flow::Columns for $row {}

        fn query(
            session: &$session,
            text: &'static str,
            values: &[$crate::feed::flow::Value<'_>],
        ) -> sqlx::query::Query<'static, $db, <$db as sqlx::Database>::Arguments> {
            use $crate::feed::flow::Value;
            let query = sqlx::query($crate::feed::text_to_send(text)).persistent($kept(session));
            values.iter().fold(query, |query, value| match *value {
                Value::Long(value) => query.bind(value),
                Value::Text(value) => query.bind(value),
                Value::Uuid(value) => query.bind(value),
            })
        }
    };
}
pub(crate) use sql_client;

/// A parameter of a statement. An enum, so that no flow has to say of each type that a database takes it.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    /// A whole number.
    Long(Option<i64>),
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
    i64: value => Self::Long(Some(value));
    Option<i64>: value => Self::Long(value);
    &'a str: value => Self::Text(Some(value));
    Option<&'a str>: value => Self::Text(value);
    Uuid: value => Self::Uuid(value);
}

/// Parameters, in their order.
macro_rules! values {
    ($($value:expr),+ $(,)?) => {
        &[$($crate::feed::flow::Value::from($value)),+]
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

impl<R, T> Read<T> for R
where
    R: Row,
    T: for<'r> Decode<'r, R::Database> + Type<R::Database>,
    usize: ColumnIndex<R>,
    for<'n> &'n str: ColumnIndex<R>,
{
    fn read(&self, name: &str) -> Result<T, Error> {
        self.try_get(name)
    }

    fn at(&self, place: usize) -> Result<T, Error> {
        self.try_get(place)
    }
}

/// A row, with the types that its columns are read as.
pub(crate) trait Columns:
    Row
    + Read<bool>
    + Read<i64>
    + Read<Option<i64>>
    + Read<f64>
    + Read<Option<f64>>
    + Read<Option<i32>>
    + Read<String>
    + Read<Option<String>>
    + Read<Option<Vec<u8>>>
    + Read<Uuid>
{
}
