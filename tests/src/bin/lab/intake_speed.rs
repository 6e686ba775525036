//! How many events a second the HTTP intake takes beside a receiver written by hand, on the services in the environment:
//! `intake_speed EVENTS ROUNDS CONNECTIONS PER_REQUEST WAY COMMIT_DELAY_MS`.

use std::{process::ExitCode, time::Duration};

use tests::intake::speed::{Course, Way, measure};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [events, rounds, connections, per_request, way, delay] = &arguments[..] else {
        eprintln!(
            "usage: intake_speed EVENTS ROUNDS CONNECTIONS PER_REQUEST awaited|queued|batch COMMIT_DELAY_MS"
        );
        return ExitCode::from(2);
    };
    let number = |text: &String| text.parse::<usize>().expect("a number");
    let course = Course {
        events: number(events),
        rounds: number(rounds),
        connections: number(connections),
        per_request: number(per_request),
        way: Way::named(way).expect("awaited, queued or batch"),
        commit_delay: Duration::from_millis(number(delay) as u64),
    };
    let report = measure(course).await;
    println!("{course:?}");
    println!("events a second: {}; by hand {}", report.ours, report.by_hand);
    println!("pair by pair {} of it", report.ratio);
    let [ours, by_hand] = report.waits;
    println!("a request took: {ours}; by hand {by_hand}");
    ExitCode::SUCCESS
}
