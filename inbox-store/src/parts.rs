//! A query of sqlx, taken apart.

use std::fmt;

use sqlx::{Database, Error, Execute, SqlStr, error::BoxDynError};

/// A query taken apart, since looking at its text consumes it.
pub struct Parts<DB: Database> {
    /// Its text.
    pub sql: SqlStr,
    /// What it was prepared as.
    pub statement: Option<DB::Statement>,
    /// Its values; `None`: a simple query, one exchange with the server.
    pub arguments: Option<DB::Arguments>,
    /// Whether the driver gives the statement a name.
    pub persistent: bool,
}

impl<DB: Database> Parts<DB>
where
    DB::Statement: Clone,
{
    /// Takes a query apart.
    pub fn of<'q>(mut query: impl Execute<'q, DB>) -> Result<Self, Error> {
        let arguments = query.take_arguments().map_err(Error::Encode)?;
        let statement = query.statement().cloned();
        let persistent = query.persistent();
        Ok(Self { sql: query.sql(), statement, arguments, persistent })
    }
}

impl<DB: Database> Execute<'_, DB> for Parts<DB>
where
    DB::Statement: Send,
    DB::Arguments: Send,
{
    fn sql(self) -> SqlStr {
        self.sql
    }

    fn statement(&self) -> Option<&DB::Statement> {
        self.statement.as_ref()
    }

    fn take_arguments(&mut self) -> Result<Option<DB::Arguments>, BoxDynError> {
        Ok(self.arguments.take())
    }

    fn persistent(&self) -> bool {
        self.persistent
    }
}

impl<DB: Database> fmt::Debug for Parts<DB> {
    /// Never the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("sql", &self.sql.as_str()).finish_non_exhaustive()
    }
}
