//! The Rust in the documents compiles: each is a doc test.

#[doc = include_str!("../../README.md")]
struct Readme;

#[doc = include_str!("../../docs/guide.md")]
struct Guide;

#[doc = include_str!("../../docs/schemas.md")]
struct Schemas;
