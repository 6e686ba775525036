//! What a program tells and counts: each an enum or a struct that is made from one table, and the table's
//! part of the documentation; metrics with their exposition, and the port that serves them.

mod histogram;
mod metrics;
mod port;
mod shown;

pub use histogram::{Distribution, EVENTS, Histogram, LONG, SHORT, Scale};
pub use metrics::{CONTENT_TYPE, Measured, Metric, MetricKind, Samples, prometheus};
pub use port::{Observed, serve};
pub use shown::Shown;

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// One row of the table of signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignalEntry {
    /// The field `signal` of the log event.
    pub name: &'static str,
    /// Its level, always the same.
    pub level: &'static str,
    /// Its further fields.
    pub fields: &'static [&'static str],
    /// What it means.
    pub doc: &'static str,
}

impl SignalEntry {
    /// The table of signals in the documentation.
    pub fn reference(all: &[Self]) -> String {
        let mut page = String::from("| signal | level | fields | means |\n|---|---|---|---|\n");
        for Self { name, level, fields, doc } in all {
            let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
            let _ = writeln!(page, "| `{name}` | {level} | {} | {doc} |", fields.join(", "));
        }
        page
    }
}

/// A number that only grows. Written without a lock, read at any time.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, n: u64) {
        if n > 0 {
            self.0.fetch_add(n, Relaxed);
        }
    }

    /// What it has come to.
    pub fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// The section on counters in the documentation: name and meaning of each, and who hands them out.
    pub fn reference(all: &[(&str, &str)], method: &str) -> String {
        let mut page = format!(
            "\n## Counters\n\nRead with `{method}`; they only grow while the process lives.\n\n| \
             counter | counts |\n|---|---|\n"
        );
        for (name, doc) in all {
            let _ = writeln!(page, "| `{name}` | {doc} |");
        }
        page
    }
}

/// The enum `Signal` of everything that a program tells, and `SIGNALS`, its table, from a list of level,
/// name, message, meaning, variant and fields. What stands behind a semicolon is a sentence: the message
/// says it (`{error}`), and no field repeats it. The head names the target of the log events, and the function
/// by which a field is written into one.
#[macro_export]
macro_rules! signals {
    ($(#[$about:meta])+ enum Signal: $target:literal, $shown:path;
    $( $level:ident $name:literal $message:literal
        $(#[doc = $doc:literal])+
        $variant:ident $({
            $( $(#[$field_doc:meta])* $field:ident : $type:ty ),* $(,)?
            $(; $(#[$said_doc:meta])* $said:ident : $said_type:ty $(,)? )?
        })?
    )+) => {
        $(#[$about])+
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum Signal {
            $( $(#[doc = $doc])+ $variant $({
                $( $(#[$field_doc])* $field: $type, )*
                $( $(#[$said_doc])* $said: $said_type, )?
            })?, )+
        }

        /// The table of all signals.
        pub const SIGNALS: &[$crate::SignalEntry] = &[ $( $crate::SignalEntry {
            name: $name,
            level: stringify!($level),
            fields: &[ $( $( stringify!($field) ),* )? ],
            doc: concat!($( $doc ),+).trim_ascii(),
        }, )+ ];

        impl Signal {
            /// Writes it to the log.
            pub fn emit(&self) {
                match self { $(
                    Self::$variant $({ $( $field, )* $( $said, )? })? => {
                        tracing::$level!(
                            target: $target,
                            { signal = $name $( $(, $field = $shown($field))* )? },
                            $message
                        );
                    }
                )+ }
            }
        }
    };
}

/// The struct `Counters` of everything that a program counts, and `Counts`, what they are at one moment,
/// from a list of meanings and names.
#[macro_export]
macro_rules! counters {
    ($(#[$about:meta])+ struct Counters; $( $(#[doc = $doc:literal])+ $name:ident, )+) => {
        $(#[$about])+
        #[derive(Debug, Default)]
        pub struct Counters {
            $( pub(crate) $name: $crate::Counter, )+
        }

        /// The numbers of one moment.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
        #[non_exhaustive]
        pub struct Counts {
            $( $(#[doc = $doc])+ pub $name: u64, )+
        }

        impl Counts {
            /// Name and meaning of each.
            pub(super) const DOCS: &[(&str, &str)] =
                &[ $( (stringify!($name), concat!($( $doc ),+).trim_ascii()), )+ ];
        }

        impl Counters {
            /// The numbers as they are now. Each is exact; together they may be a moment apart.
            pub fn read(&self) -> Counts {
                Counts { $( $name: self.$name.read(), )+ }
            }
        }
    };
}
