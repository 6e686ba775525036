//! What people ask by commands, beside what a relay asks before its first turn: overview, rights, scripts, failed rows,
//! tables of other outboxes.

mod adoption;
mod failed;
mod grants;
mod overview;
mod scripts;

pub(crate) use adoption::{Adoption, Adoptions, DebeziumNeeds, FurtherColumn, TableMapping};
pub(crate) use failed::{
    Act, Choice, DESTINATION, FailedRow, FailedRows, RowContent, Step, is_destination,
};
pub(crate) use grants::{Grants, RoleKind};
pub(crate) use overview::{Overview, Overviews};
pub(crate) use scripts::Scripts;

use super::Openings;

/// All of it: what commands ask.
pub(crate) trait Operators:
    Openings + Overviews + Grants + Scripts + FailedRows + Adoptions
{
}

impl<DB: Openings + Overviews + Grants + Scripts + FailedRows + Adoptions> Operators for DB {}
