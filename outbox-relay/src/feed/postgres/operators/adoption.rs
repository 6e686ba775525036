//! Tables of other outboxes: a trigger copies each row that is inserted there, in the transaction that inserts it.
//!
//! So a row that its own transaction deletes is copied, too, as Debezium reads it from the log; a transaction that is
//! rolled back leaves none; and the relay's protocol knows nothing of the other table.

use inbox_engine::internal::Rule;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres, Row as _};

use outbox_core::internal::keeps_statements;

use super::column::{Column, literal, name};
use crate::port::{Adoption, Adoptions, DebeziumNeeds, FeedError, FurtherColumn, TableMapping};

/// $1 a name as it is typed. Beside it its owner, and the schema of our own table.
const TABLE: &str =
    "SELECT c.oid::bigint AS oid, n.nspname::text AS schema, c.relname::text AS name,
    c.relkind IN ('r', 'p') AS plain, c.relkind = 'p' AS partitioned, c.oid = o.oid AS own, s.nspname::text AS outbox,
    pg_catalog.pg_get_userbyid(c.relowner)::text AS owner
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace,
    pg_catalog.pg_class o JOIN pg_catalog.pg_namespace s ON s.oid = o.relnamespace
WHERE c.oid = to_regclass($1) AND o.oid = 'outbox_events'::regclass";
/// $1 a table's number.
const COLUMNS: &str = "SELECT a.attname::text AS name, t.typname::text AS type, t.typtype = 'e' AS is_enum,
    a.atttypmod AS precision, NOT a.attnotnull AS nullable, a.atthasdef OR a.attidentity <> '' AS has_default
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = $1::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";
/// What is in the log already, written out or not.
const LOG: &str = "SELECT pg_current_wal_insert_lsn()::text";
/// Encloses the function's body, and the statements around the trigger.
const QUOTE: &str = "$outbox_adopt$";
/// The trigger that sees which row was deleted last, on partitioned tables.
const MOVED: &str = "outbox_adopt_moved";
/// What PostgreSQL cuts names to.
const NAME_MAX: usize = 63;

impl Adoptions for Postgres {
    async fn adoption(
        session: &mut PgConnection,
        mapping: &TableMapping,
    ) -> Result<Result<Adoption, Vec<String>>, FeedError> {
        let persistent = keeps_statements(session);
        let found = sqlx::query(TABLE)
            .persistent(persistent)
            .bind(&mapping.table)
            .fetch_optional(&mut *session)
            .await?;
        let Some(found) = found else {
            return Ok(Err(vec![format!(
                "table {} does not exist; name it with its schema, such as public.outbox",
                mapping.table
            )]));
        };
        let oid: i64 = found.try_get("oid")?;
        let columns =
            sqlx::query(COLUMNS).persistent(persistent).bind(oid).fetch_all(&mut *session).await?;
        let columns = columns.iter().map(|row| {
            Ok(Column {
                name: row.try_get("name")?,
                type_name: row.try_get("type")?,
                is_enum: row.try_get("is_enum")?,
                precision: row.try_get("precision")?,
                nullable: row.try_get("nullable")?,
                has_default: row.try_get("has_default")?,
            })
        });
        let table = Table {
            schema: found.try_get("schema")?,
            name: found.try_get("name")?,
            owner: found.try_get("owner")?,
            outbox: found.try_get("outbox")?,
            partitioned: found.try_get("partitioned")?,
            columns: columns.collect::<Result<_, sqlx::Error>>()?,
        };
        let (plain, own): (bool, bool) = (found.try_get("plain")?, found.try_get("own")?);
        if own || !plain {
            let what = if own { "is the relay's own" } else { "is not a table to insert into" };
            return Ok(Err(vec![format!("{} {what}; name another one", mapping.table)]));
        }
        Ok(table.adoption(mapping))
    }

    async fn carry_out(
        session: &mut PgConnection,
        statements: String,
    ) -> Result<Option<String>, FeedError> {
        let mut tx = session.begin().await?;
        sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(Some(sqlx::raw_sql(LOG).fetch_one(session).await?.try_get(0)?))
    }
}

/// A table as the catalog has it.
#[derive(Debug)]
struct Table {
    schema: String,
    name: String,
    owner: String,
    /// The schema of `outbox_events`.
    outbox: String,
    partitioned: bool,
    columns: Vec<Column>,
}

/// The columns of `outbox_events` and what goes into them.
type Inserted = Vec<(&'static str, String)>;

impl Table {
    fn adoption(&self, mapping: &TableMapping) -> Result<Adoption, Vec<String>> {
        let mut wrong = Vec::new();
        let inserted = self.inserted(mapping, &mut wrong);
        let function = format!("outbox_adopt_{}", self.name);
        if function.len() > NAME_MAX {
            wrong.push(format!(
                "the name of the table {} is too long to derive the name of a function from it",
                self.name
            ));
        }
        let (columns, values): (Vec<&str>, Vec<String>) = inserted.into_iter().unzip();
        let passes = self.partitioned && Rule::MovedIsNoInsert.on();
        let moved = if passes { passes_moved(&mapping.id) } else { String::new() };
        let body = format!(
            "BEGIN
{moved}    INSERT INTO {}.outbox_events
        ({})
    VALUES
        ({});
    RETURN NULL;
END",
            name(&self.outbox),
            columns.join(", "),
            values.join(",\n         ")
        );
        let qualified = format!("{}.{}", name(&self.schema), name(&self.name));
        let called = format!("{}.{}", name(&self.schema), name(&function));
        let trigger = |one| trigger(one, &qualified, &called);
        let copies = trigger(("outbox_adopt", "INSERT"));
        let sees = if passes { trigger((MOVED, "DELETE")) } else { String::new() };
        if body.contains(QUOTE) || qualified.contains(QUOTE) {
            wrong.push(format!(
                "a name of the table contains {QUOTE}, which the generated statements do not allow"
            ));
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(Adoption {
            table: format!("{}.{}", self.schema, self.name),
            begin: format!(
                "CREATE OR REPLACE FUNCTION {called}() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS {QUOTE}
{body}
{QUOTE};
REVOKE ALL ON FUNCTION {called}() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION {called}() TO {owner};
{copies}{sees}",
                // Whoever makes a partition needs it; anybody else could forge events from a table of their own.
                owner = name(&self.owner)
            ),
            end: format!(
                "DROP TRIGGER IF EXISTS outbox_adopt ON {qualified};\nDROP TRIGGER IF EXISTS {MOVED} ON {qualified};\nDROP FUNCTION IF EXISTS {called}();\n"
            ),
            doubts: self.doubts(mapping),
        })
    }

    fn column(&self, column: &str) -> Option<&Column> {
        self.columns.iter().find(|own| own.name == column)
    }

    /// The columns that the settings name; those that are not there go to `wrong`.
    fn find<'a>(&'a self, mapping: &'a TableMapping, wrong: &mut Vec<String>) -> Option<Found<'a>> {
        let mut find = |column: &str, key: &str| {
            let found = self.column(column);
            if found.is_none() {
                let names: Vec<&str> = self.columns.iter().map(|column| &*column.name).collect();
                wrong.push(format!(
                    "the table has no column {column}, which `debezium.{key}` names; it has {}",
                    names.join(", ")
                ));
            }
            found
        };
        let id = find(&mapping.id, "table_field_event_id");
        let key = find(&mapping.key, "table_field_event_key");
        let route = find(&mapping.aggregate_type, "route_by_field");
        let payload = find(&mapping.payload, "table_field_event_payload");
        let timestamp = mapping.timestamp.as_ref();
        let timestamp = timestamp.and_then(|column| find(column, "table_field_event_timestamp"));
        let kind = match (self.column(&mapping.event_type), mapping.debezium) {
            (None, None) => find(&mapping.event_type, "table_field_event_type"),
            (found, _) => found,
        };
        let further = mapping
            .further
            .iter()
            .filter_map(|one| Some((one, find(&one.name, "table_fields_additional_placement")?)));
        let further = further.collect();
        Some(Found {
            id: id?,
            key: key?,
            route: route?,
            payload: payload?,
            timestamp,
            kind,
            further,
        })
    }

    /// What the trigger inserts; what keeps it from that goes to `wrong`.
    fn inserted(&self, mapping: &TableMapping, wrong: &mut Vec<String>) -> Inserted {
        let Some(found) = self.find(mapping, wrong) else { return Vec::new() };
        let Found { id, key, route, payload, timestamp, kind, ref further } = found;
        let origin = format!("{}.{}", self.schema, self.name);
        let mut take = |made: Result<String, String>| {
            made.unwrap_or_else(|error| {
                wrong.push(error);
                String::new()
            })
        };
        let routed = take(route.text("debezium.route_by_field"));
        let key_text = take(key.id_text("debezium.table_field_event_key"));
        let (event_id, id_text) = (take(id.event_id(&origin)), id.as_text());
        let kind = kind.map(|kind| take(kind.text("debezium.table_field_event_type")));
        let mut inserted: Inserted = vec![
            ("event_id", event_id),
            (
                "event_type",
                match (kind, mapping.debezium) {
                    (Some(kind), None) => kind,
                    (Some(kind), Some(_)) => format!("coalesce(nullif({kind}, ''), {routed})"),
                    (None, _) => routed.clone(),
                },
            ),
            ("aggregate_type", routed),
            // Without a key Debezium keeps no order: the row is an aggregate of its own.
            ("aggregate_id", format!("coalesce(nullif({key_text}, ''), {id_text})")),
            ("payload", take(payload.payload(mapping.debezium))),
            // What it may be the application does not know; a relay sets aside what is too large.
            ("bytes_max", i32::MAX.to_string()),
        ];
        if let Some(timestamp) = timestamp {
            inserted.push(("occurred_at_ms", take(timestamp.millis(mapping.debezium.is_some()))));
        }
        let headers = match mapping.debezium {
            Some(needs) => take(told(&origin, &found, needs)),
            None => own_headers(further, &mut inserted, wrong),
        };
        if !headers.is_empty() {
            inserted.push(("headers", headers));
        }
        inserted
    }

    /// Columns that may be null though no event can be without them.
    fn doubts(&self, mapping: &TableMapping) -> Vec<String> {
        let mut needed = vec![&mapping.id, &mapping.aggregate_type];
        if mapping.debezium.is_none() {
            needed.push(&mapping.event_type);
        }
        let nullable =
            needed.into_iter().filter_map(|column| self.column(column)).filter(|c| c.nullable);
        nullable
            .map(|column| {
                format!(
                    "the column {0} may be NULL, but from now on an INSERT with NULL fails; run ALTER TABLE {1}.{2} \
                     ALTER COLUMN {0} SET NOT NULL",
                    name(&column.name), name(&self.schema), name(&self.name)
                )
            })
            .collect()
    }
}

/// A row that moves to another partition is deleted in one and inserted into the other, one directly behind the other.
/// What is inserted again under the id of what was deleted last in the transaction was copied before.
fn passes_moved(id: &str) -> String {
    let id = name(id);
    format!(
        "    IF TG_OP = 'DELETE' THEN
        PERFORM set_config('outbox_adopt.moved', OLD.{id}::text, true);
        RETURN NULL;
    ELSIF current_setting('outbox_adopt.moved', true) = NEW.{id}::text THEN
        PERFORM set_config('outbox_adopt.moved', '', true);
        RETURN NULL;
    END IF;
"
    )
}

/// Makes a trigger. One of its name that is disabled, or that came along with a renamed table, is replaced.
fn trigger((own, event): (&str, &str), table: &str, function: &str) -> String {
    format!(
        "DO {QUOTE}
DECLARE works boolean;
BEGIN
    SELECT tgfoid = {}::pg_catalog.regprocedure AND tgenabled IN ('O', 'A') INTO works
        FROM pg_catalog.pg_trigger
        WHERE tgrelid = {}::pg_catalog.regclass AND tgname = '{own}';
    IF NOT works THEN
        DROP TRIGGER {own} ON {table};
    END IF;
    IF works IS NOT TRUE THEN
        CREATE TRIGGER {own} AFTER {event} ON {table}
            FOR EACH ROW EXECUTE FUNCTION {function}();
    END IF;
END
{QUOTE};
",
        literal(&format!("{function}()")),
        literal(table)
    )
}

/// The columns that the settings name.
struct Found<'a> {
    id: &'a Column,
    key: &'a Column,
    route: &'a Column,
    payload: &'a Column,
    timestamp: Option<&'a Column>,
    kind: Option<&'a Column>,
    further: Vec<(&'a FurtherColumn, &'a Column)>,
}

/// The header that tells what Debezium would read: `crate::debezium` has its form.
fn told(origin: &str, found: &Found<'_>, needs: DebeziumNeeds) -> Result<String, String> {
    let mut columns: Vec<(&Column, bool, bool)> = vec![(found.key, needs.key_schema, false)];
    if found.id.type_name != "uuid" {
        columns.push((found.id, false, false));
    }
    for (one, column) in &found.further {
        match columns.iter_mut().find(|(known, ..)| known.name == column.name) {
            Some((_, sent, partition)) => {
                *sent |= one.schema_sent;
                *partition |= one.partition;
            }
            None => columns.push((column, one.schema_sent, one.partition)),
        }
    }
    let told: Result<Vec<String>, String> = columns
        .into_iter()
        .map(|(column, schema_sent, partition)| column.told(schema_sent, partition))
        .collect();
    let payload = found.payload.kind(needs.payload_schema)?;
    found.payload.check_default(needs.payload_schema)?;
    Ok(format!(
        "json_build_array(json_build_array('__debezium.row', json_build_object('table', {}, 'payload', {}, 'columns',
            json_build_array({}))::text))::text",
        literal(origin),
        literal(&payload),
        told?.join(",\n                ")
    ))
}

/// Further columns as headers of the relay's own records; two names are those of columns of ours.
fn own_headers(
    further: &[(&FurtherColumn, &Column)],
    inserted: &mut Inserted,
    wrong: &mut Vec<String>,
) -> String {
    let mut pairs = Vec::new();
    for (one, column) in further {
        let value = match column.header_text() {
            Ok(value) => value,
            Err(error) => {
                wrong.push(error);
                continue;
            }
        };
        match one.alias.as_str() {
            own @ ("aggregate_version" | "schema_version") => {
                let (own, kind) = match own {
                    "aggregate_version" => ("aggregate_version", "bigint"),
                    _ => ("schema_version", "integer"),
                };
                match column.whole_number(kind) {
                    Some(value) => inserted.push((own, value)),
                    None => wrong.push(format!(
                        "the column {} is {}, and {own} accepts at most {kind}",
                        one.name, column.type_name
                    )),
                }
            }
            "event_id" | "event_type" | "aggregate_type" | "aggregate_id" | "occurred_at" => wrong.push(format!(
                "the header {} of the relay's own records is derived from the event's own columns; remove {} from \
                 `debezium.table_fields_additional_placement`",
                one.alias, one.name
            )),
            alias => pairs.push(format!("json_build_array({}, {value})", literal(alias))),
        }
    }
    if pairs.is_empty() {
        String::new()
    } else {
        format!("json_build_array({})::text", pairs.join(", "))
    }
}
