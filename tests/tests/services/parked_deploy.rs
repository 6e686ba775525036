//! I4: a bad deploy that cannot handle one type of event. What is parked stays below the limit, every
//! partition says why it stands still, and after the fix everything is applied once and in order.
//! `cargo xtask deploy` runs the same with 100,000 events and the limits of a default configuration.

use tests::deploy::{Size, bad_deploy};

use crate::programs::WORKER;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_deploy_stops_at_the_limit_and_is_mended() {
    let size = Size {
        aggregates: 800,
        per_aggregate: 5,
        partitions: 3,
        aggregates_max: 60,
        events_max: 10_000,
    };
    let report = bad_deploy(&WORKER, size).await;
    assert_eq!(report.violations, [] as [String; 0], "{report:#?}");
    assert!(report.aggregates_in_a_partition <= 60, "{report:#?}");
    assert!(report.parked > 0 && report.parked < report.events, "{report:#?}");
}

/// The other limit: few aggregates with many events each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_deploy_stops_at_the_limit_of_events() {
    let size = Size {
        aggregates: 30,
        per_aggregate: 100,
        partitions: 2,
        aggregates_max: 1_000,
        events_max: 400,
    };
    let report = bad_deploy(&WORKER, size).await;
    assert_eq!(report.violations, [] as [String; 0], "{report:#?}");
    assert!(report.parked_in_a_partition <= 400, "{report:#?}");
}
