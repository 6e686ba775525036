//! A table of metrics and Prometheus' text format (version 0.0.4), which is written from it.
//!
//! Written here and not by a library: of a library nothing would be used but this, and the
//! Prometheus project's own writes the `OpenMetrics` format, which `promtool check metrics` takes for metrics without help.

use std::{
    fmt::{self, Write},
    time::Duration,
};

use super::{Distribution, Scale};

/// What an HTTP answer with this text says it is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a metric's numbers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MetricKind {
    /// Only grows while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution: `_bucket`, `_sum` and `_count`.
    Histogram,
}

impl MetricKind {
    /// As Prometheus calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One row of the table of metrics.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What its numbers are.
    pub kind: MetricKind,
    /// What they count or measure.
    pub unit: &'static str,
    /// Its labels besides the name of the program's own, which all have.
    pub labels: &'static [&'static str],
    /// What it means.
    pub doc: &'static str,
}

impl Metric {
    /// The table of metrics in the documentation.
    pub fn reference(all: &[Self]) -> String {
        let mut page =
            String::from("| metric | type | unit | labels | means |\n|---|---|---|---|---|\n");
        for Self { name, kind, unit, labels, doc } in all {
            let kind = kind.name();
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = labels.join(", ");
            let _ = writeln!(page, "| `{name}` | {kind} | {unit} | {labels} | {doc} |");
        }
        page
    }
}

/// What one part of a program, a consumer say, measures: the samples of each metric.
pub trait Measured {
    /// Its name: the value of the label that all its samples have.
    fn name(&self) -> &str;
    /// Adds the samples of the metric with this place in the table.
    fn sample(&self, metric: usize, samples: &mut Samples<'_>);
}

/// Every metric of these, which have different names, in Prometheus' text format. `label` is that of their names.
pub fn prometheus<M: Measured>(metrics: &[Metric], label: &str, measured: &[M]) -> String {
    let mut text = String::with_capacity(16 * 1024);
    for (place, metric) in metrics.iter().enumerate() {
        let _ = writeln!(text, "# HELP {} {}", metric.name, metric.doc.replace('\\', "\\\\"));
        let _ = writeln!(text, "# TYPE {} {}", metric.name, metric.kind.name());
        for one in measured {
            one.sample(place, &mut Samples { metric, own: (label, one.name()), text: &mut text });
        }
    }
    text
}

/// Takes the samples of one metric.
#[derive(Debug)]
pub struct Samples<'a> {
    metric: &'a Metric,
    /// Label and name of what measures.
    own: (&'a str, &'a str),
    text: &'a mut String,
}

impl Samples<'_> {
    /// A sample with values for the metric's labels, in their order.
    pub fn add(&mut self, labels: &[&str], value: impl fmt::Display) {
        self.line("", labels, None, &value.to_string());
    }

    /// A sample that may be unknown, and then is left out.
    pub fn known(&mut self, labels: &[&str], value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.add(labels, value);
        }
    }

    /// A time in seconds.
    pub fn seconds(&mut self, labels: &[&str], time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.line("", labels, None, &Scale::Seconds.shown(micros));
    }

    /// A distribution.
    pub fn distribution(&mut self, labels: &[&str], distribution: &Distribution) {
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
        let Metric { name, labels: names, .. } = self.metric;
        debug_assert_eq!(labels.len(), names.len(), "{name}");
        let (own, owner) = self.own;
        let _ = write!(self.text, "{name}{suffix}{{{own}=\"{}\"", escaped(owner));
        for (name, value) in names.iter().zip(labels) {
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

/// `METRICS`, the table of all metrics, and [`Measured`] for the type that the head names, with the method that
/// answers its name. Of each metric: its meaning, kind, name, unit and labels, and what adds its samples.
#[macro_export]
macro_rules! metrics {
    ($vis:vis METRICS of $measured:ty, $named:path; $(
        $(#[doc = $doc:literal])+ $kind:ident $name:literal $unit:literal [$($label:ident)*] $read:expr;
    )+) => {
        /// Every metric.
        $vis const METRICS: &[$crate::telemetry::Metric] = &[ $( $crate::telemetry::Metric {
            name: $name,
            kind: $crate::telemetry::MetricKind::$kind,
            unit: $unit,
            labels: &[ $( stringify!($label) ),* ],
            doc: concat!($( $doc ),+).trim_ascii(),
        }, )+ ];

        impl $crate::telemetry::Measured for $measured {
            fn name(&self) -> &str {
                $named(self)
            }

            fn sample(&self, metric: usize, samples: &mut $crate::telemetry::Samples<'_>) {
                const READ: &[fn(&$measured, &mut $crate::telemetry::Samples<'_>)] = &[ $( $read, )+ ];
                READ[metric](self, samples);
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shop(u64);

    crate::metrics! { METRICS of Shop, name;
        /// Orders that came.
        Counter "shop_orders_total" "orders" [] |shop, s| s.add(&[], shop.0);
        /// What nobody has looked at, and `C:\\` in its help.
        Gauge "shop_open" "orders" [place] |_, s| s.known(&["a\"b"], None::<u64>);
    }

    fn name(_: &Shop) -> &'static str {
        "s\\1"
    }

    #[test]
    fn the_text_is_what_the_table_and_the_samples_say() {
        let text = prometheus(METRICS, "shop", &[Shop(3)]);
        assert!(text.contains("# TYPE shop_orders_total counter\n"), "{text}");
        assert!(text.contains("\nshop_orders_total{shop=\"s\\\\1\"} 3\n"), "{text}");
        assert!(!text.contains("shop_open{"), "{text}");
        assert!(Metric::reference(METRICS).contains("| `shop_open` | gauge | orders | `place` | "));
    }
}
