//! What the engine must do (scenarios), what must never happen (seeded histories), and properties of
//! its pure functions.

#[cfg(feature = "ablation")]
mod ablation;
mod batching;
mod careful;
mod draining;
mod faults;
mod intake;
mod letting_go;
mod ownership;
mod parked_limit;
mod properties;
mod pure;
mod release;
mod remap;
mod reuse;
mod script;
mod simulation;
mod size;
mod unclean;
mod watermark;
