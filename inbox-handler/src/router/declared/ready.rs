//! Before a consumer starts: the database looks at every declared statement, and sessions get their
//! functions.

use std::sync::atomic::Ordering::Relaxed;

use inbox_store::internal::port::{DeclaredSql, LoopSql, Refused, Transactions};

use super::{super::RouteTable, DeclaredMode, DeclaredRoute};

impl<DB: Transactions> RouteTable<DB> {
    /// A sentence for each declared statement that the database does not take.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn refused_statements(
        &self,
        conn: &mut DB::Connection,
    ) -> Result<Vec<String>, sqlx::Error> {
        let mut wrong = Vec::new();
        for route in &self.declared {
            match DB::look_at(&mut *conn, &route.sql).await {
                Ok(()) => {}
                Err(Refused::Outage(error)) => return Err(error),
                Err(Refused::Statement { error, position }) => {
                    wrong.push(route.refusal(&error, position));
                }
            }
        }
        Ok(wrong)
    }

    /// Makes sessions able to run events one by one in one round trip, where handlers want that and the
    /// database can; else says why not. `conn` is a session of the settings as they are.
    pub async fn equip(
        &self,
        conn: &mut DB::Connection,
        settings: DB::Settings,
    ) -> (DB::Settings, Option<String>) {
        let each = || self.declared.iter().filter(|route| route.mode == DeclaredMode::Each);
        let loops: Vec<&LoopSql> = each().filter_map(|route| route.sql.each.as_ref()).collect();
        if loops.is_empty() {
            return (settings, None);
        }
        match DB::equip(conn, &settings, &loops).await {
            Ok(settings) => {
                each().for_each(|route| route.looped.store(true, Relaxed));
                (settings, None)
            }
            Err(why) => (
                settings,
                Some(format!(
                    "declared handlers with mode each need a round trip for each event here: \
                     {why}; use mode run for speed, or grant the role TEMPORARY on a direct \
                     connection"
                )),
            ),
        }
    }
}

impl<DB> DeclaredRoute<DB> {
    /// What the database says, with the place in the user's own text.
    fn refusal(&self, error: &str, position: Option<usize>) -> String {
        let place = position
            .and_then(|position| own_place(&self.sql, &self.text, position))
            .map_or(String::new(), |(line, column)| {
                format!(" at line {line}, column {column} of it")
            });
        format!(
            "the declared handler for `{}`: the database refused its statement{place}: {error}; \
             correct the statement or the tables",
            self.event_type
        )
    }
}

/// Line and column, from 1, of a place in the statement that is sent; `None` for what is not the user's.
fn own_place(sql: &DeclaredSql, text: &str, position: usize) -> Option<(usize, usize)> {
    let at = position.checked_sub(sql.before + 1)? + sql.skipped;
    if at > text.chars().count() {
        return None;
    }
    let before: String = text.chars().take(at).collect();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    Some((line, column))
}
