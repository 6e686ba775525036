//! `prune`: removes old inbox rows now.

use super::{Exit, Terminal, open, told};
use crate::{
    config::Config,
    pipeline::port::{PruneCursor, PruneStep, Store},
};

/// One sweep over the whole inbox, in bounded steps.
pub(super) async fn prune<DB: Store>(config: &Config, terminal: &mut Terminal<'_>) -> Exit {
    let mut conn = match open::<DB>(config, terminal).await {
        Ok(conn) => conn,
        Err(exit) => return exit,
    };
    let swept = sweep::<DB>(&mut conn, config).await;
    DB::close_hard(conn).await;
    match swept {
        Ok(PruneStep { busy: true, removed, .. }) => {
            terminal.say(format!("removed {removed} rows; another process prunes this inbox now"));
            Exit::Done
        }
        Ok(PruneStep { removed, .. }) => {
            terminal.say(format!("removed {removed} rows"));
            Exit::Done
        }
        Err(error) => {
            terminal.complain(format!("pruning failed: {}", told::<DB>(config, &error)));
            Exit::Database
        }
    }
}

async fn sweep<DB: Store>(
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
