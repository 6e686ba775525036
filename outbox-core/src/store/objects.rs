//! What the promise takes for granted of tables, and what nobody but a person changes: that what is unique is so by an
//! index, that all rows are seen, and that they outlive a crash. A table that was partitioned, copied or rebuilt by hand
//! may have lost it, and no statement fails for that.

/// Columns of a table that are unique together.
#[derive(Clone, Copy, Debug)]
pub struct Unique {
    /// The table, without a schema.
    pub on: &'static str,
    /// Its columns, in the order of their names.
    pub columns: &'static [&'static str],
}

/// Columns that are unique together, in the order of their names.
pub const fn unique(on: &'static str, columns: &'static [&'static str]) -> Unique {
    Unique { on, columns }
}

/// What a relay takes for granted. Rows without a dedup key have none that is unique.
pub const OUTBOX: &[Unique] = &[
    unique("outbox_events", &["dedup_key"]),
    unique("outbox_parked", &["seq"]),
    unique("outbox_relays", &["relay_ref"]),
];

/// What is wrong with a table: a sentence.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
fn lacks(table: &str, columns: &str) -> String {
    let quoted = columns.replace(", ", "\", \"");
    format!(
        "no unique index of {table} has exactly the column(s) {columns}, as after the table was \
         partitioned, copied or rebuilt by hand: two rows can have the same values, and effects \
         may happen twice; run, as the table's owner, CREATE UNIQUE INDEX ON {table} \
         (\"{quoted}\"), or restore the table that `migrate` creates"
    )
}

/// $1 tables, $2 their columns, each as one text. An index that is being built, is deferred, or is of other rows alone
/// does not count; one of all rows that have a value does. Behind it: what is hidden from this role, gone after a crash, or
/// done instead of what is asked.
#[cfg(feature = "postgres")]
const UNSOUND: &str = "WITH t AS (SELECT to_regclass(name) AS oid, name, columns FROM unnest($1::text[], $2::text[]) w(name, columns)),
c AS (SELECT DISTINCT t.name, c.oid, c.relpersistence, c.relhasrules FROM t JOIN pg_class c ON c.oid = t.oid)
SELECT CASE k.relkind WHEN 'p' THEN 'partitioned' ELSE 'index' END, t.name, t.columns
FROM t JOIN pg_class k ON k.oid = t.oid WHERE NOT EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = t.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
        AND i.indexprs IS NULL
        AND coalesce(pg_get_expr(i.indpred, i.indrelid), '') IN ('', format('(%s IS NOT NULL)', t.columns))
        AND t.columns = (SELECT string_agg(a.attname, ', ' ORDER BY a.attname COLLATE \"C\")
            FROM unnest(i.indkey::smallint[]) WITH ORDINALITY k(number, place)
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number WHERE k.place <= i.indnkeyatts))
UNION ALL SELECT 'hidden', c.name, '' FROM c WHERE row_security_active(c.oid)
UNION ALL SELECT 'unlogged', c.name, '' FROM c WHERE c.relpersistence <> 'p'
UNION ALL SELECT 'rules', c.name, '' FROM c WHERE c.relhasrules";

/// A sentence for each table that is not what is taken for granted. Asked by a statement with a name, if `persistent`:
/// else in a transaction.
///
/// # Errors
///
/// The database's.
#[cfg(feature = "postgres")]
pub async fn unsound<'c>(
    conn: impl sqlx::PgExecutor<'c>,
    persistent: bool,
    wanted: &[Unique],
) -> Result<Vec<String>, sqlx::Error> {
    let names: Vec<&str> = wanted.iter().map(|unique| unique.on).collect();
    let columns: Vec<String> = wanted.iter().map(|unique| unique.columns.join(", ")).collect();
    let found: Vec<(String, String, String)> = sqlx::query_as(UNSOUND)
        .bind(names)
        .bind(columns)
        .persistent(persistent)
        .fetch_all(conn)
        .await?;
    Ok(found.iter().map(|(what, table, columns)| sentence(what, table, columns)).collect())
}

#[cfg(feature = "postgres")]
fn sentence(what: &str, table: &str, columns: &str) -> String {
    match what {
        "index" => lacks(table, columns),
        "partitioned" => format!(
            "{table} is partitioned, and PostgreSQL has no unique index on {columns} without the partition key: two rows can \
             have the same, and what is promised to take effect once does so twice; bring back the table that `migrate` \
             makes{}",
            if columns == "dedup_key" { ", or append no event with a dedup key" } else { "" }
        ),
        "hidden" => format!(
            "row security of {table} applies to this role, which then does not see all rows: run, \
             as the table's owner, ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"
        ),
        "unlogged" => format!(
            "{table} is unlogged, so a crash of the database empties it: run, as the table's \
             owner, ALTER TABLE {table} SET LOGGED"
        ),
        _ => {
            format!("{table} has rules, which rewrite statements: drop them (pg_rules lists them)")
        }
    }
}

/// Those unique indexes of a table that are of all rows, or of all that have a value, as columns in their order; and an
/// empty text for a table that is there.
#[cfg(feature = "sqlite")]
const INDEXES: &str = "SELECT (SELECT group_concat(name, ', ') FROM
    (SELECT name FROM pragma_index_info(i.name) ORDER BY name)) FROM pragma_index_list(?1) i
LEFT JOIN sqlite_master m ON m.type = 'index' AND m.name = i.name
WHERE i.\"unique\" AND (NOT i.partial OR m.sql LIKE '% IS NOT NULL')
UNION ALL SELECT group_concat(name, ', ') FROM
    (SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY name)
UNION ALL SELECT '' FROM sqlite_master WHERE type = 'table' AND name = ?1";

/// The same for a file of SQLite, whose tables are seen whole and outlive a crash.
///
/// # Errors
///
/// The database's.
#[cfg(feature = "sqlite")]
pub async fn unsound_in_file(
    conn: &mut sqlx::SqliteConnection,
    wanted: &[Unique],
) -> Result<Vec<String>, sqlx::Error> {
    let mut found = Vec::new();
    for unique in wanted {
        let indexes: Vec<Option<String>> =
            sqlx::query_scalar(INDEXES).bind(unique.on).fetch_all(&mut *conn).await?;
        let columns = unique.columns.join(", ");
        let is_there = indexes.iter().any(Option::is_some);
        if is_there && !indexes.iter().flatten().any(|index| *index == columns) {
            found.push(lacks(unique.on, &columns));
        }
    }
    Ok(found)
}
