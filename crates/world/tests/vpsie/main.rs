//! Berth's client of VPSie and the cloud on it, against VPSie as the world plays it: over sockets and TLS where the way
//! matters, and in virtual time where time does.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here is a failure of the test")]

mod launches;
mod random;
mod rig;
mod sockets;
