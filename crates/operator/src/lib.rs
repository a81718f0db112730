//! Berth on a cluster: what it sees there, and what it does.
//!
//! So far it only looks: [`Listing`] is all that Berth reads there, as manifests.

mod cluster;
mod listing;
mod served;

pub use cluster::{Choice, Unreachable};
pub use listing::Listing;
