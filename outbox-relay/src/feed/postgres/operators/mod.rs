//! What commands ask.

mod adoption;
mod column;
pub(in crate::feed) mod failed;
mod grants;
mod overview;
