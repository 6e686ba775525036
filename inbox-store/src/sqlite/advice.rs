//! What `check` finds doubtful beyond what keeps a consumer from starting.

use sqlx::{Sqlite, SqliteConnection};

use super::session::{begin_own, end_own};
use crate::{
    inspect,
    port::{Advices, Finding, Needs},
};

/// Written and rolled back: whether the file takes writes at all.
const WRITE: &str = "CREATE TABLE inbox_written_by_check (one INTEGER)";
const FREE_PAGES: &str = "PRAGMA freelist_count";
const PAGES: &str = "PRAGMA page_count";

impl Advices for Sqlite {
    async fn advice(conn: &mut SqliteConnection, _: &Needs) -> Result<Vec<Finding>, sqlx::Error> {
        let mut found = Vec::new();
        if let Err(error) = written(conn).await {
            found.push(inspect::fatal(format!(
                "the SQLite file cannot be written: {error}; the consumer's user needs write \
                 permission on the file and its folder"
            )));
        }
        let free: i64 = sqlx::query_scalar(FREE_PAGES).fetch_one(&mut *conn).await?;
        let all: i64 = sqlx::query_scalar(PAGES).fetch_one(conn).await?;
        found.extend(wasted(free, all));
        Ok(found)
    }

    async fn backend(_: &mut SqliteConnection) -> Result<Option<i64>, sqlx::Error> {
        Ok(None)
    }
}

async fn written(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    begin_own(conn).await?;
    let written = sqlx::query(WRITE).execute(&mut *conn).await.map(drop);
    // Whatever came of it, nothing of it stays.
    let undone = end_own::<(), sqlx::Error>(conn, Err(sqlx::Error::RowNotFound)).await;
    debug_assert!(undone.is_err(), "an error rolls back");
    written
}

/// Pages that retention has emptied are used again; a file that is mostly empty once held far more.
fn wasted(free: i64, all: i64) -> Option<Finding> {
    (all > 100_000 && free > all / 2).then(|| {
        inspect::doubtful(format!(
            "{free} of the {all} pages of the SQLite file are empty; run VACUUM while no consumer runs \
             to give the space back"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_mostly_empty_is_told() {
        assert_eq!(wasted(90_000, 100_000), None, "a small file does not matter");
        assert_eq!(wasted(100, 1_000_000), None);
        assert!(wasted(600_000, 1_000_000).unwrap().text.contains("VACUUM"));
    }
}
