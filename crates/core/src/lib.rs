//! Berth's decisions.
//!
//! Everything here is a pure function over plain data: no clock, no I/O, no randomness, and the same
//! input gives the same bytes.

pub mod apply;
pub mod catalog;
pub mod check;
pub mod claim;
pub mod commitment;
pub mod control_plane;
pub mod disrupt;
pub mod disruption;
pub mod division;
pub mod drift;
pub mod explain;
pub mod fit;
pub mod founding;
pub mod ideal;
pub mod names;
pub mod neighbours;
pub mod node;
pub mod optimization;
pub mod overlay;
pub mod plan;
pub mod pod;
pub mod pool;
pub mod provision;
pub mod reason;
pub mod registrations;
pub mod requirement;
pub mod resources;
pub mod safety;
pub mod scoring;
pub mod selector;
pub mod snapshot;
pub mod surplus;
pub mod turns;
pub mod units;
pub mod volume;

mod bound;
mod class;
mod columns;
mod host;
mod launch;
mod ledger;
mod market;
mod pack;
mod pattern;
mod topology;
