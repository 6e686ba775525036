//! What commands ask.

mod adoption;
pub(in crate::feed) mod failed;
mod grants;
mod overview;
