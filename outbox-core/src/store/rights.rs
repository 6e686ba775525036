//! What each kind of role needs of the outbox tables, and what a role lacks. PostgreSQL alone has roles.

use super::said::quoted;

/// Privileges on one table or sequence.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// Its name, without a schema.
    pub on: &'static str,
    /// SELECT and so on.
    pub privileges: &'static [&'static str],
}

/// Privileges on a table or a sequence.
pub const fn right(on: &'static str, privileges: &'static [&'static str]) -> Right {
    Right { on, privileges }
}

/// Who appends events, a consumer's handlers among them.
pub const APPENDER: &[Right] = &[right("outbox_events", &["INSERT"])];
/// What the conflict of an INSERT with a dedup key is found by; events without one are appended without it.
pub const KEYS: &[Right] = &[right("outbox_events", &["SELECT (dedup_key)"])];
/// A relay.
pub const RELAY: &[Right] = &[
    right("outbox_schema_versions", &["SELECT"]),
    right("outbox_events", &["SELECT", "UPDATE", "DELETE"]),
    right("outbox_parked", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    right("outbox_relays", &["SELECT", "UPDATE"]),
];
/// What a relay compares the rows with; it works without.
pub const NUMBERS: &[Right] = &[right("outbox_events_seq_seq", &["SELECT"])];
/// What the commands of people need beside, that let failed rows go and give them up: they write who did so, and nobody
/// changes that. A relay works without.
pub const ACTS: &[Right] = &[right("outbox_audit", &["INSERT"])];
/// Who only looks.
pub const READER: &[Right] = &[
    right("outbox_schema_versions", &["SELECT"]),
    right("outbox_events", &["SELECT"]),
    right("outbox_parked", &["SELECT"]),
    right("outbox_relays", &["SELECT"]),
    right("outbox_audit", &["SELECT"]),
];

/// The statements that give a role these rights on tables of a schema, or of the search path.
pub fn grants(schema: Option<&str>, role: &str, rights: &[&[Right]]) -> String {
    let role = quoted(role);
    let (usage, before) = match schema.map(quoted) {
        Some(schema) => {
            (format!("GRANT USAGE ON SCHEMA {schema} TO {role};\n"), format!("{schema}."))
        }
        None => (String::new(), String::new()),
    };
    let grant = |right: &Right| {
        let sequence = if right.on.ends_with("_seq") { "SEQUENCE " } else { "" };
        let privileges = right.privileges.join(", ");
        format!("GRANT {privileges} ON {sequence}{before}{} TO {role};\n", right.on)
    };
    usage + &rights.iter().copied().flatten().map(grant).collect::<String>()
}

/// Found in the catalog, so that nothing but a session is needed to see all of them at once. Tables that are not
/// there are nobody's.
#[cfg(feature = "postgres")]
const MISSING: &str = "WITH path AS (SELECT n.oid, n.nspname, x.ord
    FROM unnest(string_to_array(current_setting('search_path'), ',')) WITH ORDINALITY x(name, ord)
    JOIN pg_namespace n ON n.nspname =
        CASE btrim(x.name, ' \"') WHEN '$user' THEN current_user::text ELSE btrim(x.name, ' \"') END),
wanted AS (SELECT DISTINCT ON (w.ord) w.ord, w.privilege, c.oid, c.relname, c.relkind, p.oid AS namespace, p.nspname
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w(name, privilege, ord)
    JOIN pg_class c ON c.relname = w.name JOIN path p ON p.oid = c.relnamespace ORDER BY w.ord, p.ord)
SELECT format('GRANT USAGE ON SCHEMA %I TO %I', nspname, current_user) FROM
    (SELECT DISTINCT nspname, namespace FROM wanted) s WHERE NOT has_schema_privilege(namespace, 'USAGE')
UNION ALL SELECT statement FROM (SELECT min(ord) AS first,
    format('GRANT %s ON %s%I.%I TO %I', string_agg(privilege, ', ' ORDER BY ord),
        CASE min(relkind::text) WHEN 'S' THEN 'SEQUENCE ' ELSE '' END, nspname, relname, current_user) AS statement
    FROM wanted WHERE NOT CASE relkind WHEN 'S' THEN has_sequence_privilege(oid, privilege)
        ELSE has_table_privilege(oid, privilege) END
    GROUP BY nspname, relname ORDER BY 1) g";

/// The statements that give the session's role what it lacks of these rights, to run as the tables' owner;
/// `None` when it lacks nothing. Asked by a statement with a name, if `persistent`: else in a transaction.
///
/// # Errors
///
/// The database's.
#[cfg(feature = "postgres")]
pub async fn missing<'c>(
    conn: impl sqlx::PgExecutor<'c>,
    persistent: bool,
    rights: &[&[Right]],
) -> Result<Option<String>, sqlx::Error> {
    let each = rights.iter().copied().flatten();
    let each = each.flat_map(|right| right.privileges.iter().map(|one| (right.on, *one)));
    let (names, privileges): (Vec<&str>, Vec<&str>) = each.unzip();
    let statements: Vec<String> = sqlx::query_scalar(MISSING)
        .bind(names)
        .bind(privileges)
        .persistent(persistent)
        .fetch_all(conn)
        .await?;
    Ok(Some(statements).filter(|all| !all.is_empty()).map(|all| all.join("; ")))
}

/// Where everybody may create, somebody can create a function that statements then call instead of the server's.
#[cfg(feature = "postgres")]
const OPEN_SCHEMAS: &str =
    "SELECT string_agg(format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', n.nspname), '; ')
    FROM unnest(current_schemas(false)) path(name) JOIN pg_namespace n ON n.nspname = path.name
    WHERE has_schema_privilege('public', n.oid, 'CREATE')";

/// What is to be said of a search path with schemas that everybody may create functions in; `None` when there is
/// none. Asked as [`missing`] asks.
///
/// # Errors
///
/// The database's.
#[cfg(feature = "postgres")]
pub async fn open_schemas<'c>(
    conn: impl sqlx::PgExecutor<'c>,
    persistent: bool,
) -> Result<Option<String>, sqlx::Error> {
    let revoke: Option<String> =
        sqlx::query_scalar(OPEN_SCHEMAS).persistent(persistent).fetch_one(conn).await?;
    Ok(revoke.map(|revoke| {
        format!(
            "everybody with a login may create functions where this role's statements look up \
             theirs, and so run code as this role; run, as the owner of the schema: {revoke};"
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::{APPENDER, KEYS, NUMBERS, grants};

    #[test]
    fn grants_are_statements_to_copy() {
        assert_eq!(
            grants(Some("shop"), "Web-1", &[APPENDER, NUMBERS]),
            "GRANT USAGE ON SCHEMA shop TO \"Web-1\";\n\
             GRANT INSERT ON shop.outbox_events TO \"Web-1\";\n\
             GRANT SELECT ON SEQUENCE shop.outbox_events_seq_seq TO \"Web-1\";\n"
        );
        assert_eq!(
            grants(None, "web", &[APPENDER, KEYS]),
            "GRANT INSERT ON outbox_events TO web;\nGRANT SELECT (dedup_key) ON outbox_events TO web;\n"
        );
    }
}
