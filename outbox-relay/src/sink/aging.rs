//! Topics that delete records by the time that these have: for `check`.

use std::time::Duration;

use rdkafka::{
    admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier},
    client::DefaultClientContext,
    producer::{BaseProducer, Producer as _},
};

use super::{SinkSettings, inspection::ASK_MAX};

/// So many topics are looked at, in the order of their names.
const TOPICS_MAX: usize = 100;

/// Topics whose names begin so that delete records by the time that these have, and the shortest of these times. Nobody
/// answers: none.
pub(crate) async fn aging_topics(
    settings: SinkSettings,
    prefix: String,
) -> Option<(Vec<String>, Duration)> {
    let config = settings.inspection_config();
    let listed = tokio::task::spawn_blocking(move || names(&settings, &prefix)).await.ok()??;
    let admin: AdminClient<DefaultClientContext> = config.create().ok()?;
    let asked: Vec<_> = listed.iter().map(|name| ResourceSpecifier::Topic(name)).collect();
    let options = AdminOptions::new().request_timeout(Some(ASK_MAX));
    let answers = admin.describe_configs(&asked, &options).await.ok()?;
    let aging = listed.iter().zip(&answers);
    let aging =
        aging.filter_map(|(name, answer)| Some((name.clone(), age_max(answer.as_ref().ok()?)?)));
    let (names, ages): (Vec<String>, Vec<Duration>) = aging.unzip();
    Some((names, ages.into_iter().min()?))
}

fn names(settings: &SinkSettings, prefix: &str) -> Option<Vec<String>> {
    let client: BaseProducer = settings.inspection_config().create().ok()?;
    let metadata = client.client().fetch_metadata(None, ASK_MAX).ok()?;
    let names = metadata.topics().iter().map(rdkafka::metadata::MetadataTopic::name);
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(prefix)).map(str::to_owned).collect();
    names.sort_unstable();
    names.truncate(TOPICS_MAX);
    Some(names).filter(|names| !names.is_empty())
}

/// How long a topic keeps a record after the time that it has, if it goes by that.
fn age_max(config: &ConfigResource) -> Option<Duration> {
    let value = |name| config.get(name).and_then(|entry| entry.value.as_deref());
    let deletes = value("cleanup.policy").is_none_or(|policy| policy.contains("delete"));
    let by_event = value("message.timestamp.type") != Some("LogAppendTime");
    // -1 is no such number: without limit.
    let kept = value("retention.ms").and_then(|text| text.parse().ok()).map(Duration::from_millis);
    kept.filter(|_| deletes && by_event)
}
