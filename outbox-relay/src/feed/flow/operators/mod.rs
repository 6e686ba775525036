//! What commands ask of a database.

pub(in crate::feed) mod failed;
pub(in crate::feed) mod overview;
mod scripts;
