//! `prune`: removes old inbox rows now.

use inbox_runtime::internal::prune_audit;
use inbox_store::internal::port::{Operators, PruneCursor, PruneStep};

use super::{
    Exit, Terminal,
    session::{describe_error, open},
};
use crate::config::Config;

/// One sweep over the whole inbox, in bounded steps.
pub(super) async fn prune<DB: Operators>(config: &Config, terminal: &mut Terminal<'_>) -> Exit {
    let mut conn = match open::<DB>(config, terminal).await {
        Ok(conn) => conn,
        Err(exit) => return exit,
    };
    let swept = all::<DB>(&mut conn, config).await;
    DB::close_hard(conn).await;
    match swept {
        Ok((PruneStep { busy, removed, .. }, acts)) => {
            let beside = if busy { "; another process is pruning this inbox now" } else { "" };
            let acts = if acts > 0 { format!(" and {acts} audit entries") } else { String::new() };
            terminal.say(format!("removed {removed} inbox rows{acts}{beside}"));
            Exit::Done
        }
        Err(error) => {
            terminal.complain(format!("pruning failed: {}", describe_error::<DB>(config, &error)));
            Exit::Database
        }
    }
}

async fn all<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
) -> Result<(PruneStep, u64), sqlx::Error> {
    let step = sweep::<DB>(conn, config).await?;
    let acts = prune_audit::<DB>(conn, &config.consumer.name, config.retention.audit).await?;
    Ok((step, acts))
}

async fn sweep<DB: Operators>(
    conn: &mut DB::Connection,
    config: &Config,
) -> Result<PruneStep, sqlx::Error> {
    let (consumer, age) = (&config.consumer.name, config.retention.inbox);
    let mut cursor = PruneCursor::default();
    let mut removed = 0;
    loop {
        let step = DB::prune_step(conn, consumer, age, cursor).await?;
        removed += step.removed;
        match step.next {
            Some(next) => cursor = next,
            None => return Ok(PruneStep { removed, ..step }),
        }
    }
}
