//! A Kubernetes in one process: its API, its scheduler and controllers, kubelets and a cloud.
//!
//! The same code serves a client in the same process without a socket, and kubectl.

pub mod crd;
pub mod failure;
pub mod kinds;
pub mod schema;
