//! A real Kubernetes control plane on loopback, for tests: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler, and KWOK, which plays the kubelets.
//!
//! `cargo xtask control-plane` is its command. A test holds a [`ControlPlane`]:
//!
//! ```no_run
//! use berth_control_plane::ControlPlane;
//!
//! # fn main() -> Result<(), berth_control_plane::Error> {
//! let Some(plane) = ControlPlane::for_test()? else { return Ok(()) };
//! println!("{}", plane.kubeconfig().display());
//! # Ok(())
//! # }
//! ```
//!
//! Nothing is left behind. Components end with the process that started them even if that is killed, and what it
//! wrote to disk goes after them.

mod audience;
mod certificates;
mod directory;
mod error;
mod files;
mod flags;
mod golang;
mod leash;
mod plane;
mod ports;
mod probe;
mod program;
mod programs;
mod sweeper;
mod visit;

pub use audience::Audience;
pub use directory::{Component, Directory, Occupant, Record};
pub use error::Error;
pub use golang::workspace;
pub use plane::ControlPlane;
pub use program::Program;
pub use programs::{Programs, Sources, home_of};
pub use visit::{Stopped, is_ready, stop};
