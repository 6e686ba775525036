//! Small lessons that run and assert. Each module is one; its tests run it.

pub mod testing_a_handler;
