//! The network between relays and receiver: every few seconds something is wrong with it for a short time.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    Proxy,
    relay_chaos::{Dice, now_ms},
};

/// Every call begins with it.
const CALL: &[u8] = b"POST /";

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Connections are closed, new ones, too.
    Cut,
    /// Everything comes late.
    Slow,
    /// Answers are lost, and nothing is closed.
    LoseAnswers,
    /// Everything is lost, and nothing is closed.
    Parted,
    /// The connections of now are silent for good.
    Silent,
    /// Some calls arrive, and their connections are closed before the answer.
    DropAnswers,
    /// Some calls do not arrive, and their connections are closed.
    DropCalls,
}

const KINDS: [Kind; 7] = [
    Kind::Cut,
    Kind::Slow,
    Kind::LoseAnswers,
    Kind::Parted,
    Kind::Silent,
    Kind::DropAnswers,
    Kind::DropCalls,
];

/// One of them, and when it was, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trouble {
    pub(super) kind: Kind,
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
}

/// The network, at work.
pub(super) struct Network {
    proxy: Arc<Proxy>,
    stop: watch::Sender<bool>,
    task: JoinHandle<Vec<Trouble>>,
}

impl Network {
    pub(super) async fn start(receiver: &str, dice: Dice) -> Self {
        let proxy = Arc::new(Proxy::start(receiver).await);
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(spoil(Arc::clone(&proxy), dice, stopped));
        Self { proxy, stop, task }
    }

    /// Where relays find the receiver, `host:port`.
    pub(super) fn address(&self) -> String {
        self.proxy.address()
    }

    /// From now on nothing is wrong with it. What was.
    pub(super) async fn calm(&mut self) -> Vec<Trouble> {
        self.stop.send_replace(true);
        let troubles = (&mut self.task).await.expect("the network goes on to its end");
        self.proxy.heal();
        troubles
    }
}

async fn spoil(
    proxy: Arc<Proxy>,
    mut dice: Dice,
    mut stopped: watch::Receiver<bool>,
) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    loop {
        let pause = dice.time(500, 3_000);
        let over = stopped.wait_for(|stopped| *stopped);
        if tokio::time::timeout(pause, over).await.is_ok() {
            return troubles;
        }
        let kind = KINDS[usize::try_from(dice.below(KINDS.len() as u64)).unwrap_or(0)];
        let from_ms = now_ms();
        let calls = 1 + u32::try_from(dice.below(8)).unwrap_or(0);
        match kind {
            Kind::Cut => proxy.cut(),
            Kind::Slow => proxy.delay(dice.time(20, 300)),
            Kind::LoseAnswers => proxy.lose_answers(),
            Kind::Parted => proxy.lose_everything(),
            Kind::Silent => proxy.silence(),
            Kind::DropAnswers => drop(proxy.lose_answer_to(CALL, calls)),
            Kind::DropCalls => drop(proxy.lose_request(CALL, calls)),
        }
        tokio::time::sleep(dice.time(50, 700)).await;
        proxy.heal();
        // What is on its way is late for a moment.
        tokio::time::sleep(Duration::from_millis(10)).await;
        troubles.push(Trouble { kind, from_ms, to_ms: now_ms() });
    }
}
