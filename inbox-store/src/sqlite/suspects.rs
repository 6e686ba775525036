//! The texts of suspects.

use sqlx::Sqlite;

use crate::flow::suspects::{SuspectSql, SuspectTexts};

static TEXTS: SuspectTexts = SuspectTexts {
    add: r#"INSERT INTO inbox_suspects (partition_ref, "offset", incarnation)
SELECT ?1, value, ?2 FROM json_each(?3) WHERE true ON CONFLICT (partition_ref, "offset") DO UPDATE
SET deaths = deaths + coalesce(incarnation <> ?2, 0), incarnation = ?2"#,
    remove: r#"DELETE FROM inbox_suspects WHERE partition_ref = ?1 AND incarnation = ?2
AND "offset" IN (SELECT value FROM json_each(?3))"#,
    forget: r#"DELETE FROM inbox_suspects WHERE partition_ref = ?1 AND "offset" < ?2"#,
    all: r#"SELECT "offset", deaths, incarnation, doom FROM inbox_suspects WHERE partition_ref = ?1
ORDER BY "offset""#,
    doom: r#"INSERT INTO inbox_suspects (partition_ref, "offset", doom) VALUES (?1, ?2, ?3)
ON CONFLICT (partition_ref, "offset") DO UPDATE SET doom = excluded.doom"#,
};

impl SuspectSql for Sqlite {
    fn suspects() -> &'static SuspectTexts {
        &TEXTS
    }
}
