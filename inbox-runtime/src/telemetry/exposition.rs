//! Prometheus' text format (version 0.0.4), written from the table of metrics.
//!
//! Written here and not by a library: of a library nothing would be used but this, and the
//! Prometheus project's own writes the `OpenMetrics` format, which `promtool check metrics` takes for metrics without help.

use std::fmt::Write;

use super::{
    histogram::{Distribution, Scale},
    metrics::{METRICS, Metric, Scrape},
    readings::Readings,
};

/// What an HTTP answer with this text says it is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every metric of these consumers, which have different names, in Prometheus' text format.
pub fn prometheus(readings: &[Readings]) -> String {
    let mut text = String::with_capacity(16 * 1024);
    let scrapes: Vec<Scrape<'_>> = readings.iter().map(|one| Scrape::of(&one.0)).collect();
    for metric in METRICS {
        let _ = writeln!(text, "# HELP {} {}", metric.name, metric.doc.replace('\\', "\\\\"));
        let _ = writeln!(text, "# TYPE {} {}", metric.name, metric.kind.name());
        for scrape in &scrapes {
            let mut samples = Samples { metric, consumer: &scrape.consumer, text: &mut text };
            (metric.read)(scrape, &mut samples);
        }
    }
    text
}

impl Readings {
    /// Every metric in Prometheus' text format. For several consumers of one process:
    /// [`prometheus`].
    pub fn prometheus(&self) -> String {
        prometheus(std::slice::from_ref(self))
    }
}

/// Takes the samples of one metric of one consumer.
pub(super) struct Samples<'a> {
    metric: &'a Metric,
    consumer: &'a str,
    text: &'a mut String,
}

impl Samples<'_> {
    /// A sample with values for the metric's labels, in their order.
    pub(super) fn add(&mut self, labels: &[&str], value: impl std::fmt::Display) {
        self.line("", labels, None, &value.to_string());
    }

    /// A sample that may be unknown, and then is left out.
    pub(super) fn known(&mut self, labels: &[&str], value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.add(labels, value);
        }
    }

    /// A time in seconds.
    pub(super) fn seconds(&mut self, labels: &[&str], time: std::time::Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.line("", labels, None, &Scale::Seconds.shown(micros));
    }

    /// A distribution.
    pub(super) fn distribution(&mut self, labels: &[&str], distribution: &Distribution) {
        let Distribution { scale, buckets, sum } = distribution;
        for (bound, count) in buckets {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| scale.shown(bound));
            self.line("_bucket", labels, Some(&bound), &count.to_string());
        }
        self.line("_sum", labels, None, &scale.shown(*sum));
        let count = buckets.last().map_or(0, |(_, count)| *count);
        self.line("_count", labels, None, &count.to_string());
    }

    fn line(&mut self, suffix: &str, labels: &[&str], bound: Option<&str>, value: &str) {
        debug_assert_eq!(labels.len(), self.metric.labels.len(), "{}", self.metric.name);
        let _ = write!(
            self.text,
            "{}{suffix}{{consumer=\"{}\"",
            self.metric.name,
            escaped(self.consumer)
        );
        for (name, value) in self.metric.labels.iter().zip(labels) {
            let _ = write!(self.text, ",{name}=\"{}\"", escaped(value));
        }
        if let Some(bound) = bound {
            let _ = write!(self.text, ",le=\"{bound}\"");
        }
        let _ = writeln!(self.text, "}} {value}");
    }
}

/// Event types are the users' text.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
