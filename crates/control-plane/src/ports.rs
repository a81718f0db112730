//! Free ports on loopback.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

use crate::error::Error;

/// One for each that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) apiserver: u16,
    pub(crate) controller_manager: u16,
    pub(crate) scheduler: u16,
    pub(crate) kwok: u16,
}

impl Ports {
    /// All are held open together, so that they differ, and released at the end: somebody else may take one
    /// before its component does, so whoever starts the components has to be ready to choose again.
    pub(crate) fn choose(apiserver: Option<u16>) -> Result<Self, Error> {
        let mut held = Vec::new();
        let mut hold = |port: u16| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
            let port = listener.local_addr()?.port();
            held.push(listener);
            Ok(port)
        };
        let chosen = hold(apiserver.unwrap_or(0)).map_err(|source: io::Error| match apiserver {
            Some(port) => Error::Port { port, source },
            None => Error::NoPort { source },
        })?;
        let mut free = || hold(0).map_err(|source| Error::NoPort { source });
        Ok(Self {
            etcd: free()?,
            etcd_peer: free()?,
            apiserver: chosen,
            controller_manager: free()?,
            scheduler: free()?,
            kwok: free()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_a_wanted_one_is_given_or_refused() {
        let free = Ports::choose(None).expect("free ports");
        let mut all =
            [free.etcd, free.etcd_peer, free.apiserver, free.controller_manager, free.scheduler, free.kwok];
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");

        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = taken.local_addr().expect("an address").port();
        let refused = Ports::choose(Some(port)).expect_err("it is taken").to_string();
        assert!(refused.contains(&format!("127.0.0.1:{port}")) && refused.contains("--port"), "{refused}");
    }
}
