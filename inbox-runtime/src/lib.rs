//! What runs in `inbox-consumer`: the loop that applies the effects of the engine, its transactions, and what all of
//! it tells.
//!
//! [`telemetry`] is every signal and every metric. Use it through `inbox-consumer`, which exports it
//! under this name. What is hidden from this page is for `inbox-consumer` alone, and changes with it.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod pipeline;
pub mod telemetry;

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("no database is on: enable the feature `postgres` or `sqlite` of inbox-runtime");

/// What a consumer is put together from: for `inbox-consumer` alone.
#[doc(hidden)]
pub mod internal {
    #[cfg(feature = "testing")]
    pub use crate::pipeline::crash::{Crash, Moment};
    pub use crate::{
        pipeline::{
            content::Content,
            control::{CONTROL_SESSIONS, Control, Identity},
            dead_letter::{Unwanted, UnwantedRules},
            direct::{Direct, DirectEvent, DirectSettings, Settlement},
            driver::{Driver, DriverEnd},
            intake::Intake,
            parking::ParkingRules,
            prune::{Retention, prune_audit, prune_for_ever},
            publish::count_parked_for_ever,
            sessions::Sessions,
            transaction::Work,
            trial::Trials,
            work_state::WorkState,
        },
        telemetry::{
            meters::{IntakeMeter, Meters},
            watchdog::{Watchdog, watch},
        },
    };
    pub use service_kit::telemetry::serve;
}
