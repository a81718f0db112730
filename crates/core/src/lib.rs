//! Berth's decisions.
//!
//! Everything here is a pure function over plain data: no clock, no I/O, no randomness, and the same
//! input gives the same bytes. The modules are in the order in which data flows through them.

pub mod catalog;
pub mod check;
pub mod names;
pub mod node;
pub mod overlay;
pub mod plan;
pub mod pod;
pub mod pool;
pub mod reason;
pub mod requirement;
pub mod resources;
pub mod selector;
pub mod snapshot;
pub mod units;
pub mod volume;
