//! How the flows send their statements here.

use outbox_core::internal::keeps_statements;
use sqlx::{PgConnection, Postgres, postgres::PgRow};

use crate::feed::flow::sql_client;

sql_client!(Postgres, PgConnection, PgRow, keeps_statements);
