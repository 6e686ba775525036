//! How the flows send their statements here, and read rows.

#[cfg(not(feature = "ablation"))]
use sqlx::SqliteConnection;
use sqlx::{Row as _, Sqlite, sqlite::SqliteRow};
use uuid::Uuid;

#[cfg(feature = "ablation")]
pub(super) use super::ablation::on;
use super::session;
use crate::{
    flow::{reads, sql_client},
    json,
    shared::sixteen,
};

sql_client!(Sqlite, on, longs);

/// The session as what sends statements. With the feature `ablation` it is another one.
#[cfg(not(feature = "ablation"))]
pub(super) fn on(conn: &mut SqliteConnection) -> &mut SqliteConnection {
    conn
}

/// As a JSON array.
fn longs(numbers: &[i64]) -> String {
    json::numbers(numbers.iter().copied())
}

reads! { SqliteRow:
    bool;
    Option<bool>;
    i32;
    Option<i32>;
    i64;
    Option<i64>;
    Option<f64>;
    String;
    Option<String>;
    [u8; 16] = &[u8], sixteen;
    Uuid = &[u8], id;
    Option<Uuid> = Option<&[u8]>, |bytes| bytes.map(id).transpose();
}

fn id(bytes: &[u8]) -> Result<Uuid, sqlx::Error> {
    sixteen(bytes).map(Uuid::from_bytes)
}
