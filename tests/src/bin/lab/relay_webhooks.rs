//! How a relay delivers by HTTP, on the PostgreSQL of the environment: `relay_webhooks speed EVENTS ROUNDS ANSWER-MS
//! [JSON-FILE]`, `relay_webhooks away SECONDS RATE accept-close|closed [JSON-FILE]`, or `relay_webhooks poison EVENTS
//! ROUNDS AGGREGATES [JSON-FILE]`.

use std::{process::ExitCode, time::Duration};

use serde_json::Value;
use tests::relay_webhooks::{
    Away, Poison, Refusal, Speed, measure_away, measure_poison, measure_speed,
};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let count = |text: &str| usize::try_from(number(text)).expect("a number");
    let own = std::env::current_exe().expect("this program has a path");
    let relay = own.with_file_name("relay");
    let (figures, rest) = match &words[..] {
        ["speed", events, rounds, answer, rest @ ..] => {
            let answer = Duration::from_millis(number(answer).into());
            let speed = Speed { events: count(events), rounds: count(rounds), answer };
            (measure_speed(&relay, speed).await, rest)
        }
        ["away", seconds, rate, refusal @ ("accept-close" | "closed"), rest @ ..] => {
            let refusal = if *refusal == "closed" { Refusal::Closed } else { Refusal::AcceptClose };
            let away = Away { seconds: number(seconds).into(), rate: number(rate), refusal };
            (measure_away(&relay, away).await, rest)
        }
        ["poison", events, rounds, aggregates, rest @ ..] => {
            let (events, rounds, aggregates) = (count(events), count(rounds), count(aggregates));
            (measure_poison(&relay, Poison { events, rounds, aggregates }).await, rest)
        }
        _ => {
            eprintln!(
                "usage: relay_webhooks speed EVENTS ROUNDS ANSWER-MS [JSON-FILE], away SECONDS RATE \
                 accept-close|closed [JSON-FILE], or poison EVENTS ROUNDS AGGREGATES [JSON-FILE]"
            );
            return ExitCode::from(2);
        }
    };
    rest.first().map_or(ExitCode::SUCCESS, |file| write(file, &figures))
}

fn write(file: &str, figures: &Value) -> ExitCode {
    if let Err(error) = std::fs::write(file, format!("{figures:#}\n")) {
        eprintln!("{file} could not be written: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
