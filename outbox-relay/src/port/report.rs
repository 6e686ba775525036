//! What the relay that has the turn reports to commands: a text in its row, `outbox_relays.standstill`.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What precedes the destinations that are down. Other lines of the report say why nothing is sent at all.
const DESTINATIONS: &str = "destination_outage: ";

/// Destinations of a report. More of them say no more.
const DESTINATIONS_MAX: usize = 10;

/// A destination, or a part of one, that is down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DestinationOutage {
    /// Its name, followed by its scope if there is one.
    pub destination: String,
    pub since: Instant,
    /// The newest error that was logged.
    pub error: String,
}

/// The same as of a report, which the relay writes three times per lease.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ReportedOutage {
    pub destination: String,
    /// How long it had lasted.
    pub seconds: u64,
    pub error: String,
}

impl DestinationOutage {
    pub(crate) fn lasts(&self) -> Duration {
        self.since.elapsed()
    }
}

/// The report: why nothing is sent, and which destinations are down, the longest outage first.
pub(crate) fn report(
    standstill: Option<String>,
    mut outages: Vec<DestinationOutage>,
) -> Option<String> {
    outages.sort_by_key(|outage| outage.since);
    outages.truncate(DESTINATIONS_MAX);
    let reported = |DestinationOutage { destination, since, error }: DestinationOutage| {
        ReportedOutage { destination, seconds: since.elapsed().as_secs(), error }
    };
    let reported: Vec<ReportedOutage> = outages.into_iter().map(reported).collect();
    let line = (!reported.is_empty())
        .then(|| serde_json::to_string(&reported).ok())
        .flatten()
        .map(|json| format!("{DESTINATIONS}{json}"));
    let lines: Vec<String> = standstill.into_iter().chain(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Splits reports into their two parts.
#[cfg(feature = "cli")]
pub(crate) fn read_report(report: Option<String>) -> (Option<String>, Vec<ReportedOutage>) {
    let (mut standstill, mut outages) = (Vec::new(), Vec::<ReportedOutage>::new());
    // Relays that share the outbox report one below the other.
    for line in report.iter().flat_map(|text| text.lines()) {
        let told = line.strip_prefix(DESTINATIONS).and_then(|json| serde_json::from_str(json).ok());
        match told {
            Some(told) => outages.extend::<Vec<ReportedOutage>>(told),
            None => standstill.push(line),
        }
    }
    outages.sort_by_key(|outage| std::cmp::Reverse(outage.seconds));
    let mut known = std::collections::HashSet::new();
    outages.retain(|outage| known.insert(outage.destination.clone()));
    ((!standstill.is_empty()).then(|| standstill.join("\n")), outages)
}

#[cfg(feature = "cli")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let outage = |destination: &str, seconds| DestinationOutage {
            destination: destination.into(),
            since: Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap(),
            error: "answered 500:\n\"no\"".into(),
        };
        assert_eq!(report(None, Vec::new()), None);
        let why = Some("Kafka: two\nlines".to_owned());
        assert_eq!(read_report(report(why.clone(), Vec::new())), (why.clone(), Vec::new()));
        for why in [None, why] {
            let text = report(why.clone(), vec![outage("shop", 5), outage("mail (x)", 75)]);
            let (standstill, outages) = read_report(text);
            assert_eq!(standstill, why);
            let seconds: Vec<u64> = outages.iter().map(|outage| outage.seconds).collect();
            assert_eq!((outages[0].destination.as_str(), seconds), ("mail (x)", vec![75, 5]));
            assert_eq!(outages[0].error, "answered 500:\n\"no\"");
        }
        let many = (0..20).map(|n| outage(&n.to_string(), n)).collect();
        assert_eq!(read_report(report(None, many)).1.len(), DESTINATIONS_MAX);
    }
}
