//! The bench's short form. It proves that every candidate still does its work; no time is looked at.

/// `cargo xtask check`, which has no services, leaves out what is in a module of this name.
mod services {
    use std::process::Command;

    #[test]
    fn every_candidate_of_the_bench_has_each_effect_once_and_in_order() {
        // It compares the database with what must be in it after each candidate.
        let done = Command::new(env!("CARGO_BIN_EXE_bench")).arg("--smoke").output().unwrap();
        let [out, err] = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(done.status.success(), "{out}\n{err}");
        assert!(out.contains("| sql-run |"), "no table: {out}");
    }

    #[test]
    fn every_format_of_the_bench_has_each_effect_once_and_in_order() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        let done = command.args(["--scenario", "formats", "--smoke"]).output().unwrap();
        let [out, err] = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(done.status.success(), "{out}\n{err}");
        for form in ["own", "debezium", "debezium-json", "cloudevent", "avro"] {
            assert!(out.contains(&format!("| formats-{form} | batch |")), "no table: {out}");
        }
    }

    #[test]
    fn every_relay_of_the_bench_ships_each_row_in_order() {
        // The program is beside the bench. Debezium's jars are fetched by `cargo xtask bench` alone.
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        let candidates = "limit-outbox,outbox-sleep,outbox-loop,relay,relay-unfenced";
        command.args(["--scenario", "relay", "--smoke", "--candidates", candidates]);
        let done = command.output().unwrap();
        let [out, err] = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(done.status.success(), "{out}\n{err}");
        assert!(out.contains("| relay | relay-unfenced |"), "no table: {out}");
    }

    #[test]
    fn every_transaction_of_the_bench_of_appends_leaves_what_it_wrote() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        let done = command.args(["--scenario", "append", "--smoke"]).output().unwrap();
        let [out, err] = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(done.status.success(), "{out}\n{err}");
        assert!(out.contains("| 8 | plain insert, trigger |"), "no table: {out}");
    }
}
