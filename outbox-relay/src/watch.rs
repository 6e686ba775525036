//! What runs beside a relay so that it can be seen: looks at its outbox for metrics, a question to Kafka when its
//! client has lost brokers, and the HTTP port. All of it ends with the relay, and nothing of it holds rows up.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, task::JoinSet};

use crate::{
    config::{Config, TABLE},
    port::{Measurements, Sessions},
    pump::LazySession,
    sink::{self, SinkSettings},
    telemetry::Meters,
};

/// How often the outbox is looked at.
const READ_EVERY: Duration = Duration::from_secs(5);
/// The longest that the statement of a look may take.
const READ_MAX: Duration = Duration::from_secs(1);
/// So many times as long as a look took there is none: it costs a hundredth of a connection's time at most.
const PAUSE_TIMES: u32 = 100;
/// How often Kafka is asked while nothing else shows that it answers.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// How often the relay's task shows that it comes round.
const TICK: Duration = Duration::from_secs(1);

/// What runs beside a relay.
#[derive(Debug)]
pub(crate) struct Watch {
    meters: Arc<Meters>,
    /// Dropped with it.
    _aside: JoinSet<()>,
}

impl Watch {
    /// Begins to watch.
    pub(crate) fn begin<F: Sessions + Measurements>(
        config: &Config,
        settings: &F::Settings,
        meters: &Arc<Meters>,
        sink: &SinkSettings,
    ) -> Self {
        let mut aside = JoinSet::new();
        serve(config, meters, &mut aside);
        if meters.is_wanted() {
            let settings = F::for_looks(settings, READ_MAX);
            aside.spawn(read_for_ever::<F>(settings, Arc::clone(meters)));
        }
        aside.spawn(ask_for_ever(sink.clone(), Arc::clone(meters)));
        meters.tick();
        Self { meters: Arc::clone(meters), _aside: aside }
    }

    /// Shows that the task which polls this comes round, for as long as it does.
    pub(crate) async fn tick(&self) {
        loop {
            self.meters.tick();
            tokio::time::sleep(TICK).await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.meters.end();
    }
}

/// Looks at the outbox again and again, on a session of its own.
async fn read_for_ever<F: Sessions + Measurements>(settings: F::Settings, meters: Arc<Meters>) {
    let mut session = LazySession::<F>::new(settings);
    loop {
        let began = Instant::now();
        let read = session.call(F::reading).await;
        let took = began.elapsed();
        let (reading, told) = match read {
            Ok(reading) => (Some(reading), Ok(())),
            Err(error) => (None, Err(error)),
        };
        meters.publish_reading(reading);
        meters.troubles.reads(told);
        tokio::time::sleep(pause(took)).await;
    }
}

/// How long after a look that took so long the next begins.
fn pause(took: Duration) -> Duration {
    (took * PAUSE_TIMES).max(READ_EVERY)
}

/// Asks Kafka again and again, as long as its client has lost brokers and no batch has shown since that one answers: a
/// relay without rows would never find out.
async fn ask_for_ever(settings: SinkSettings, meters: Arc<Meters>) {
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        if meters.troubles.brokers_are_doubtful() && answers(settings.clone()).await {
            meters.troubles.brokers_answer();
        }
        meters.troubles.settle_kafka();
    }
}

/// Whether Kafka answers; asked in a thread of its own, which no shutdown waits for.
async fn answers(settings: SinkSettings) -> bool {
    let (answer, answered) = oneshot::channel();
    let asked = std::thread::Builder::new().name("outbox-ask".into()).spawn(move || {
        let _ = answer.send(sink::inspect(&settings, None).is_ok());
    });
    asked.is_ok() && answered.await.unwrap_or(false)
}

/// Serves metrics and health, if the configuration says where.
fn serve(config: &Config, meters: &Arc<Meters>, aside: &mut JoinSet<()>) {
    if let Some(listen) = config.http.address(TABLE.port) {
        meters.want();
        let readings = crate::telemetry::Readings::of(meters);
        aside.spawn(service_kit::telemetry::serve(listen, readings));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_takes_long_is_seldom() {
        assert_eq!(pause(Duration::from_millis(3)), READ_EVERY);
        assert_eq!(pause(READ_MAX), Duration::from_secs(100));
    }
}
