//! The statements of tables and trigger: those of outbox-core.

use outbox_core::OutboxDatabase;

use crate::{
    feed::flow::SqlClient,
    port::{FeedError, Scripts},
};

impl<DB: SqlClient + OutboxDatabase> Scripts for DB {
    fn print() -> String {
        DB::print_outbox()
    }

    async fn set_trigger(session: &mut DB::Session, is_there: bool) -> Result<(), FeedError> {
        Ok(outbox_core::set_notify_trigger(session, is_there).await?)
    }

    fn print_trigger(is_there: bool) -> Option<&'static str> {
        outbox_core::print_notify_trigger::<DB>(is_there)
    }
}
