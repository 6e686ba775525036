//! How the flows send their statements here.

use sqlx::{Sqlite, SqliteConnection, sqlite::SqliteRow};

use crate::feed::flow::sql_client;

sql_client!(Sqlite, SqliteConnection, SqliteRow, |_| true);
