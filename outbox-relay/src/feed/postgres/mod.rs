//! PostgreSQL 13 and later.

mod holding;
mod inspection;
mod retention;
mod rows;
mod schema;
mod sequence;
mod session;
mod turn;
mod wake;
