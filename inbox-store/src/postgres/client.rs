//! How the flows send their statements here, and read rows.

use std::convert::identity;

use sqlx::{Postgres, Row as _, postgres::PgRow};
use uuid::Uuid;

use super::{sent::on, session};
use crate::{
    flow::{reads, sql_client},
    shared::sixteen,
};

sql_client!(Postgres, on, identity);

reads! { PgRow:
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
    Uuid;
    Option<Uuid>;
}
