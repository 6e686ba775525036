//! What is asked of a database for declared handlers: statements that read a relation of events.

use std::{borrow::Cow, fmt, future::Future};

use sqlx::SqlStr;
use uuid::Uuid;

use super::Sessions;

/// The types that a column of the relation can have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ColumnType {
    /// True or false.
    Bool,
    /// Bytes.
    Bytea,
    /// A day.
    Date,
    /// A fraction of double precision.
    Float8,
    /// A whole number of 32 bits.
    Int4,
    /// A whole number of 64 bits.
    Int8,
    /// Any JSON.
    Jsonb,
    /// A decimal number of any precision.
    Numeric,
    /// Text.
    Text,
    /// A point in time.
    Timestamptz,
    /// A UUID.
    Uuid,
}

impl ColumnType {
    /// All of them, by name.
    pub const ALL: [Self; 11] = [
        Self::Bool,
        Self::Bytea,
        Self::Date,
        Self::Float8,
        Self::Int4,
        Self::Int8,
        Self::Jsonb,
        Self::Numeric,
        Self::Text,
        Self::Timestamptz,
        Self::Uuid,
    ];

    /// How a configuration writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Bytea => "bytea",
            Self::Date => "date",
            Self::Float8 => "float8",
            Self::Int4 => "int4",
            Self::Int8 => "int8",
            Self::Jsonb => "jsonb",
            Self::Numeric => "numeric",
            Self::Text => "text",
            Self::Timestamptz => "timestamptz",
            Self::Uuid => "uuid",
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A declared statement before the database has taken it apart.
#[derive(Clone, Debug)]
pub struct Shape<'a> {
    /// The user's statement.
    pub sql: &'a str,
    /// The typed columns, by plain names.
    pub columns: Vec<(&'a str, ColumnType)>,
}

/// A declared statement, ready to be sent.
#[derive(Clone, Debug)]
pub struct DeclaredSql {
    /// For any number of events at once.
    pub whole: SqlStr,
    /// For one event, where that costs less than a relation of one row.
    pub one: Option<SqlStr>,
    /// For any number of events one after the other, in one round trip; `None` where the database has
    /// nothing for that.
    pub each: Option<LoopSql>,
    /// The characters of `whole` before the user's own text.
    pub before: usize,
    /// The characters of the user's text that `whole` leaves out at its beginning.
    pub skipped: usize,
}

/// A function that lives as long as its session and runs a statement for one event after the other.
#[derive(Clone, Debug)]
pub struct LoopSql {
    /// Makes it.
    pub create: SqlStr,
    /// Calls it with the columns of a relation.
    pub call: SqlStr,
}

/// Some events as columns, all of one length.
#[derive(Clone, Debug, Default)]
pub struct Relation<'a> {
    /// The ids.
    pub ids: Vec<Uuid>,
    /// The aggregates' ids.
    pub aggregate_ids: Vec<&'a str>,
    /// When they happened, in microseconds since 1970.
    pub occurred_at: Vec<Option<i64>>,
    /// The typed columns, in the order of [`Shape::columns`].
    pub columns: Vec<Values<'a>>,
}

/// One column of a relation.
#[derive(Clone, Debug)]
pub enum Values<'a> {
    /// Of `bool`.
    Bools(Vec<Option<bool>>),
    /// Of `bytea`.
    Bytes(Vec<Option<Vec<u8>>>),
    /// Of `date`: days since 1970.
    Days(Vec<Option<i32>>),
    /// Of `float8`.
    Floats(Vec<Option<f64>>),
    /// Of `int4`.
    Ints(Vec<Option<i32>>),
    /// Of `int8`.
    Longs(Vec<Option<i64>>),
    /// Of `timestamptz`: microseconds since 1970.
    Micros(Vec<Option<i64>>),
    /// Of `text`, and the text of `numeric` and `jsonb`.
    Texts(Vec<Option<Cow<'a, str>>>),
    /// Of `uuid`.
    Uuids(Vec<Option<Uuid>>),
}

/// Why a database does not take a declared statement.
#[derive(Debug)]
pub enum Refused {
    /// The database could not be asked.
    Outage(sqlx::Error),
    /// The statement is wrong.
    Statement {
        /// What the database says.
        error: String,
        /// Where in [`DeclaredSql::whole`], in characters from 1, if it says so.
        position: Option<usize>,
    },
}

/// Declared handlers on a database.
pub trait Declarations: Sessions {
    /// Makes what is sent out of what the user wrote. An error is the rest of a sentence that begins
    /// with the statement.
    fn declare(shape: &Shape<'_>) -> Result<DeclaredSql, String>;

    /// Lets the database look at the statement: tables, columns, types.
    fn look_at(
        conn: &mut Self::Connection,
        sql: &DeclaredSql,
    ) -> impl Future<Output = Result<(), Refused>> + Send;

    /// Makes the settings of sessions that have these functions, after trying them on `conn`; or says
    /// why there can be none.
    fn equip(
        conn: &mut Self::Connection,
        settings: &Self::Settings,
        loops: &[&LoopSql],
    ) -> impl Future<Output = Result<Self::Settings, String>> + Send;

    /// Runs the statement in the open transaction: for all events at once, or for one after the other if it is
    /// `looped`, which sessions have to be equipped for.
    fn apply(
        conn: &mut Self::Connection,
        sql: &DeclaredSql,
        looped: bool,
        relation: &Relation<'_>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}
