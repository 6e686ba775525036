//! The corpus of the fuzz targets once more, on the stable compiler.

#[path = "../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "it is a crate of its own where it is fuzzed")]
mod fuzz;

use std::{fs, path::Path};

/// The most inputs of a target, and the most bytes of them: a clone stays small.
const INPUTS_MAX: usize = 160;
const BYTES_MAX: usize = 300_000;

/// Gives a check every input of its corpus, of which there are some.
#[track_caller]
fn holds(target: &str, check: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let inputs = fs::read_dir(root.join("fuzz/corpus").join(target)).unwrap();
    let inputs: Vec<_> = inputs.map(|input| input.unwrap().path()).collect();
    assert!((1..=INPUTS_MAX).contains(&inputs.len()), "{target} has {} inputs", inputs.len());
    let mut bytes = 0;
    for input in inputs {
        let input = fs::read(&input).unwrap();
        bytes += input.len();
        check(&input);
    }
    assert!(bytes <= BYTES_MAX, "the inputs of {target} have {bytes} bytes");
}

#[test]
fn the_corpus_of_each_target_holds() {
    holds("configuration", fuzz::configuration::check);
    holds("debezium", fuzz::debezium::check);
    holds("declared_values", fuzz::declared_values::check);
    holds("header_json", fuzz::header_json::check);
    holds("intake", fuzz::intake::check);
    holds("lexer", fuzz::lexer::check);
    holds("pointers", fuzz::pointers::check);
    holds("reader", fuzz::reader::check);
    holds("schemas", fuzz::schemas::check);
}
