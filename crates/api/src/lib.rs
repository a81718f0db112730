//! The dialects' custom resources, and the one parser from raw objects to core types.

pub mod crds;
pub mod duration;
pub mod resources;
