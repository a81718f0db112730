//! The dialects' custom resources as typed structs, field for field as their originals define them.
//!
//! A struct reads a manifest with the defaults that the API server would have filled in, and refuses
//! what its schema would have refused as far as a type can say it. Unknown fields are ignored, as the
//! API server prunes them. The schemas, with the rules that need CEL, come from the same structs.

#![expect(clippy::duplicated_attributes, reason = "two printer columns may have the same type")]
#![expect(
    unreachable_pub,
    reason = "the schema derive copies each struct into a function's body, where its `pub` reaches nobody"
)]

pub mod berth;
pub mod buffer;
pub mod gardener;
pub mod karpenter;
pub mod nodeclass;
pub mod scalar;
pub mod shared;
pub mod vpsie;
