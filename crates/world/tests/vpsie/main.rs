//! Berth's client of VPSie and the cloud on it, against VPSie as the world plays it: over sockets and TLS where the way
//! matters, and in virtual time where time does.

mod launches;
mod random;
mod rig;
mod sockets;
