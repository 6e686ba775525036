//! What reads strangers' bytes inside, for the targets in `fuzz/`: no part of what is promised to users.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use inbox_engine::internal::Offset;
use inbox_handler::{internal, internal::Delivery};
use inbox_store::internal::{
    port::{Declarations as _, DeclaredSql, Queues as _, Relation, Shape, TextCheck},
    sql::{Dialect, Lexer},
};
use outbox_core::{Aggregate, Envelope, EventId, Record, TopicPartition};
#[cfg(feature = "postgres")]
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

/// Whose SQL a text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sql {
    /// PostgreSQL's.
    #[cfg(feature = "postgres")]
    Postgres,
    /// SQLite's.
    #[cfg(feature = "sqlite")]
    Sqlite,
}

/// The tokens of a text as `Debug` shows them, each with the bytes that it takes.
pub fn tokens(text: &str, sql: Sql) -> Vec<(String, Range<usize>)> {
    let dialect = match sql {
        #[cfg(feature = "postgres")]
        Sql::Postgres => Dialect::Postgres,
        #[cfg(feature = "sqlite")]
        Sql::Sqlite => Dialect::Sqlite,
    };
    let mut lexer = Lexer::new(text, dialect);
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next() {
        tokens.push((format!("{token:?}"), lexer.place()));
    }
    tokens
}

/// What a look at a text of a handler finds before it is sent.
pub fn look(text: &str, sql: Sql) -> TextCheck {
    match sql {
        #[cfg(feature = "postgres")]
        Sql::Postgres => sqlx::Postgres::check_text(text),
        #[cfg(feature = "sqlite")]
        Sql::Sqlite => sqlx::Sqlite::check_text(text),
    }
}

/// The statement of a declared handler without columns of its own, ready to be sent.
///
/// # Errors
/// Why it is none.
pub fn declare(text: &str, sql: Sql) -> Result<DeclaredSql, String> {
    let shape = Shape { sql: text, columns: Vec::new() };
    match sql {
        #[cfg(feature = "postgres")]
        Sql::Postgres => sqlx::Postgres::declare(&shape),
        #[cfg(feature = "sqlite")]
        Sql::Sqlite => sqlx::Sqlite::declare(&shape),
    }
}

/// Whether a queued statement with values of these types can be a step of the session's function.
#[cfg(feature = "postgres")]
pub fn is_step(text: &str, types: &[u32]) -> bool {
    let sql = AssertSqlSafe(text.to_owned()).into_sql_str();
    inbox_store::internal::inside::fits(&inbox_store::internal::port::StatementText {
        sql,
        types: types.to_vec(),
    })
}

/// Shows what the columns of a declared handler make of one record, and what is wrong with it.
///
/// # Errors
/// What is wrong with the columns.
pub fn gathered(
    columns: &BTreeMap<String, String>,
    record: Record,
    see: impl FnOnce(&Relation<'_>, Option<&str>),
) -> Result<(), Vec<String>> {
    let aggregate = Aggregate::new("t", "a").map_err(|error| vec![error.to_string()])?;
    let event = Envelope {
        event_id: EventId::new(),
        source_id: None,
        event_type: "t".into(),
        aggregate,
        aggregate_version: None,
        occurred_at_ms: record.timestamp_ms,
        schema_version: None,
        payload: record.payload.clone(),
    };
    let delivery = Arc::new(Delivery {
        read_as: outbox_core::internal::ReadAs::default(),
        partition: TopicPartition { topic: "t".into(), partition: 0 },
        offset: Offset(0),
        record,
        excerpt: None,
        event: Ok(event),
    });
    let (relation, wrong) = internal::gather_columns(columns, &delivery)?;
    see(&relation, wrong.as_deref());
    Ok(())
}
