//! Declared handlers: the relation of events out of arrays, as one statement or as a loop.

use std::fmt::Write as _;

use outbox_core::internal::keeps_statements;
use sqlx::{
    AssertSqlSafe, Executor as _, PgConnection, Postgres, SqlSafeStr,
    postgres::{PgArguments, PgDatabaseError, PgErrorPosition},
    query::Query,
};
use xxhash_rust::xxh3::xxh3_64;

use super::{PgSettings, fault, sent::on, session::begin_own, session::end_own};
use crate::{
    declared::{self, Read},
    port::{
        ColumnType, Declarations, DeclaredSql, LoopSql, Refused, Relation, Sessions as _, Shape,
        StoreFault, Values,
    },
    sql::Dialect,
};

/// The columns that every relation has besides `ord`, and how they are sent.
const OWN: [(&str, ColumnType); 3] = [
    ("event_id", ColumnType::Uuid),
    ("aggregate_id", ColumnType::Text),
    ("occurred_at", ColumnType::Timestamptz),
];

/// Looks at a statement without running it.
const PREPARE: &str = "PREPARE inbox_look AS ";
const DEALLOCATE: &str = "; DEALLOCATE inbox_look";

impl Declarations for Postgres {
    fn declare(shape: &Shape<'_>) -> Result<DeclaredSql, String> {
        let read = declared::read(shape.sql, Dialect::Postgres)?;
        let (whole, before) = read.reading(&unnested(shape));
        let (one, _) = read.reading(&alone(shape));
        Ok(DeclaredSql {
            whole: AssertSqlSafe(whole).into_sql_str(),
            one: Some(AssertSqlSafe(one).into_sql_str()),
            each: Some(looped(shape, &read)),
            before,
            skipped: read.skipped(shape.sql),
        })
    }

    async fn look_at(conn: &mut PgConnection, sql: &DeclaredSql) -> Result<(), Refused> {
        if keeps_statements(conn) {
            let prepared = conn.prepare(sql.whole.clone()).await;
            return prepared.map(drop).map_err(|error| refused(error, 0));
        }
        // In one message, so that the name is gone before a pooler gives the connection to anybody else.
        let text = format!("{PREPARE}{}{DEALLOCATE}", sql.whole.as_str());
        let prepared = sqlx::raw_sql(AssertSqlSafe(text)).execute(on(conn)).await;
        prepared.map(drop).map_err(|error| refused(error, PREPARE.len()))
    }

    async fn equip(
        conn: &mut PgConnection,
        settings: &PgSettings,
        loops: &[&LoopSql],
    ) -> Result<PgSettings, String> {
        if settings.pooler {
            return Err(
                "a temporary function does not outlive its transaction behind a pooler".into()
            );
        }
        let text: String = loops.iter().map(|one| one.create.as_str()).collect();
        let text: std::sync::Arc<str> = text.into();
        make_functions(conn, &text).await.map_err(|error| error.to_string())?;
        Ok(PgSettings { functions: Some(text), ..settings.clone() })
    }

    async fn apply(
        conn: &mut PgConnection,
        sql: &DeclaredSql,
        looped: bool,
        relation: &Relation<'_>,
    ) -> Result<(), sqlx::Error> {
        let alone = relation.ids.len() == 1;
        let text = match (&sql.one, &sql.each) {
            (Some(one), _) if alone => one,
            (_, Some(each)) if looped => &each.call,
            _ => &sql.whole,
        };
        let query = sqlx::query(text.clone()).persistent(Self::names_statements(conn));
        let query = if alone { bound_alone(query, relation) } else { bound(query, relation) };
        query.execute(conn).await.map(drop)
    }
}

/// Makes the functions of a session, in a transaction that may write.
pub(super) async fn make_functions(conn: &mut PgConnection, text: &str) -> Result<(), sqlx::Error> {
    begin_own(conn).await?;
    let made = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(on(conn)).await;
    end_own(conn, made).await.map(drop)
}

/// How a column is sent.
fn sent(column: ColumnType) -> &'static str {
    match column {
        ColumnType::Bool => "boolean",
        ColumnType::Bytea => "bytea",
        ColumnType::Date | ColumnType::Int4 => "integer",
        ColumnType::Float8 => "double precision",
        ColumnType::Int8 | ColumnType::Timestamptz => "bigint",
        ColumnType::Jsonb | ColumnType::Numeric | ColumnType::Text => "text",
        ColumnType::Uuid => "uuid",
    }
}

/// The value of a column out of what was sent.
fn value(column: ColumnType, place: &str) -> String {
    match column {
        ColumnType::Date => format!("date 'epoch' + {place}"),
        ColumnType::Jsonb | ColumnType::Numeric => format!("{place}::{column}"),
        ColumnType::Timestamptz => {
            // An interval is multiplied as a floating-point number, which a count of microseconds near the year 9999
            // is too long for, and its hours and the rest are not.
            format!(
                "timestamptz 'epoch' + interval '1 hour' * ({place} / 3600000000) + interval '1 microsecond' * ({place} % 3600000000)"
            )
        }
        _ => place.to_owned(),
    }
}

/// Every column that is sent, in the order of [`bound`].
fn all<'a>(shape: &'a Shape<'a>) -> impl Iterator<Item = (&'a str, ColumnType)> {
    OWN.into_iter().chain(shape.columns.iter().copied())
}

/// The query of the relation, where `place(n)` is what was sent as number `n`, from 1.
fn columns(shape: &Shape<'_>, ord: &str, place: impl Fn(usize) -> String) -> String {
    let mut text = format!("SELECT {ord} AS ord");
    for ((name, column), at) in all(shape).zip(1..) {
        let _ = write!(text, ", {} AS \"{name}\"", value(column, &place(at)));
    }
    text
}

/// The parameters of a statement: `$1::uuid[], …`.
fn parameters(shape: &Shape<'_>) -> String {
    let parameter =
        |((_, column), at): ((&str, ColumnType), usize)| format!("${at}::{}[]", sent(column));
    all(shape).zip(1..).map(parameter).collect::<Vec<_>>().join(", ")
}

/// All events at once.
fn unnested(shape: &Shape<'_>) -> String {
    let names: Vec<String> = all(shape).zip(1..).map(|(_, at)| format!("c{at}")).collect();
    format!(
        "{} FROM unnest({}) WITH ORDINALITY AS sent({}, ord)",
        columns(shape, "sent.ord", |at| format!("sent.c{at}")),
        parameters(shape),
        names.join(", ")
    )
}

/// One event, without arrays: at a moderate rate most events are alone in their transaction, and a relation out of
/// arrays takes the server as long as a small statement itself.
fn alone(shape: &Shape<'_>) -> String {
    let types: Vec<_> = all(shape).map(|(_, column)| sent(column)).collect();
    columns(shape, "1::bigint", |at| format!("${at}::{}", types[at - 1]))
}

/// One event after the other. No EXCEPTION block: each would be a subtransaction. A name of the user's
/// that is one of ours as well is the user's.
fn looped(shape: &Shape<'_>, read: &Read<'_>) -> LoopSql {
    let relation = columns(shape, "1::bigint", |at| format!("inbox_{at}[inbox_at]"));
    let (statement, _) = read.reading(&relation);
    let step = if read.select {
        format!("FOR inbox_row IN {statement} LOOP NULL; END LOOP;")
    } else {
        format!("{statement};")
    };
    let take =
        |((_, column), at): ((&str, ColumnType), usize)| format!("inbox_{at} {}[]", sent(column));
    let takes: Vec<String> = all(shape).zip(1..).map(take).collect();
    let body = format!(
        "\n#variable_conflict use_column\nDECLARE inbox_row record;\nBEGIN\n\
         FOR inbox_at IN 1..cardinality(inbox_1) LOOP\n{step}\nEND LOOP;\nEND\n"
    );
    let name = format!("pg_temp.inbox_each_{:016x}", xxh3_64(body.as_bytes()));
    let quote = quote(&body);
    let create = format!(
        "CREATE OR REPLACE FUNCTION {name}({}) RETURNS void LANGUAGE plpgsql AS {quote}{body}{quote};\n",
        takes.join(", ")
    );
    let call = format!("SELECT {name}({})", parameters(shape));
    LoopSql {
        create: AssertSqlSafe(create).into_sql_str(),
        call: AssertSqlSafe(call).into_sql_str(),
    }
}

/// A dollar quote that the text does not have.
pub(super) fn quote(text: &str) -> String {
    let mut quote = String::from("$inbox$");
    while text.contains(&quote) {
        quote.insert(1, '_');
    }
    quote
}

type Bound<'q> = Query<'q, Postgres, PgArguments>;

fn bound<'q>(query: Bound<'q>, relation: &Relation<'_>) -> Bound<'q> {
    let query = query
        .bind(relation.ids.as_slice())
        .bind(relation.aggregate_ids.as_slice())
        .bind(relation.occurred_at.as_slice());
    relation.columns.iter().fold(query, |query, values| match values {
        Values::Bools(values) => query.bind(values.as_slice()),
        Values::Bytes(values) => query.bind(values.as_slice()),
        Values::Days(values) | Values::Ints(values) => query.bind(values.as_slice()),
        Values::Floats(values) => query.bind(values.as_slice()),
        Values::Longs(values) | Values::Micros(values) => query.bind(values.as_slice()),
        Values::Texts(values) => query.bind(values.as_slice()),
        Values::Uuids(values) => query.bind(values.as_slice()),
    })
}

/// The first event's values, for a statement of one event.
fn bound_alone<'q>(query: Bound<'q>, relation: &Relation<'_>) -> Bound<'q> {
    let query = query
        .bind(relation.ids.first().copied())
        .bind(relation.aggregate_ids.first().copied())
        .bind(first(&relation.occurred_at));
    relation.columns.iter().fold(query, |query, values| match values {
        Values::Bools(values) => query.bind(first(values)),
        Values::Bytes(values) => query.bind(first(values)),
        Values::Days(values) | Values::Ints(values) => query.bind(first(values)),
        Values::Floats(values) => query.bind(first(values)),
        Values::Longs(values) | Values::Micros(values) => query.bind(first(values)),
        Values::Texts(values) => query.bind(first(values)),
        Values::Uuids(values) => query.bind(first(values)),
    })
}

fn first<T: Clone>(values: &[Option<T>]) -> Option<T> {
    values.first().cloned().flatten()
}

/// Places in the text are counted from behind what was put `before` it.
fn refused(error: sqlx::Error, before: usize) -> Refused {
    if fault::classify(&error) != StoreFault::Statement {
        return Refused::Outage(error);
    }
    let said =
        error.as_database_error().and_then(|said| said.try_downcast_ref::<PgDatabaseError>());
    let Some(said) = said else {
        return Refused::Statement { error: error.to_string(), position: None };
    };
    let position = match said.position() {
        Some(PgErrorPosition::Original(at)) => Some(at.saturating_sub(before)),
        _ => None,
    };
    let hint = said.hint().map_or(String::new(), |hint| format!(" ({hint})"));
    Refused::Statement { error: format!("{}{hint}", said.message()), position }
}
