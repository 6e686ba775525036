//! The corpus of the fuzz targets once more, on the stable compiler.

#[path = "../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "it is a crate of its own where it is fuzzed")]
mod fuzz;

use std::{fs, path::Path};

/// Gives a check every input of its corpus, of which there are some.
#[track_caller]
fn holds(target: &str, check: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let inputs = fs::read_dir(root.join("fuzz/corpus").join(target)).unwrap();
    let inputs: Vec<_> = inputs.map(|input| input.unwrap().path()).collect();
    assert!(!inputs.is_empty(), "{target} has a corpus");
    for input in inputs {
        check(&fs::read(&input).unwrap());
    }
}

#[test]
fn the_corpus_of_each_target_holds() {
    holds("configuration", fuzz::configuration::check);
    holds("declared_values", fuzz::declared_values::check);
    holds("header_json", fuzz::header_json::check);
    holds("lexer", fuzz::lexer::check);
    holds("pointers", fuzz::pointers::check);
    holds("reader", fuzz::reader::check);
}
