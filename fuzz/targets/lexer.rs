//! See `fuzz/src/lexer.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::lexer::check(input));
