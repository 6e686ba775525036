//! The planner in simulated worlds.

mod checks;
mod histories;
mod scenarios;
mod small_worlds;
mod tables;
mod world;
