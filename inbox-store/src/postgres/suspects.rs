//! The texts of suspects.

use sqlx::Postgres;

use crate::flow::suspects::{SuspectSql, SuspectTexts};

static TEXTS: SuspectTexts = SuspectTexts {
    add: r#"INSERT INTO inbox_suspects AS s (partition_ref, "offset", incarnation)
SELECT $1, o, $2 FROM unnest($3::bigint[]) o ORDER BY o ON CONFLICT (partition_ref, "offset") DO UPDATE
SET deaths = s.deaths + CASE WHEN s.incarnation <> $2 THEN 1 ELSE 0 END, incarnation = $2"#,
    remove: r#"DELETE FROM inbox_suspects WHERE partition_ref = $1 AND incarnation = $2
AND "offset" = ANY($3::bigint[])"#,
    forget: r#"DELETE FROM inbox_suspects WHERE partition_ref = $1 AND "offset" < $2"#,
    all: r#"SELECT "offset", deaths, incarnation, doom FROM inbox_suspects WHERE partition_ref = $1
ORDER BY "offset""#,
    doom: r#"INSERT INTO inbox_suspects (partition_ref, "offset", doom) VALUES ($1, $2, $3)
ON CONFLICT (partition_ref, "offset") DO UPDATE SET doom = excluded.doom"#,
};

impl SuspectSql for Postgres {
    fn suspects() -> &'static SuspectTexts {
        &TEXTS
    }
}
