//! Asks a server on loopback how it is.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use berth_credentials::Pair;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, Ipv4Addr as Ip, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::error::Error;
use crate::program::Program;

/// On loopback an answer takes milliseconds; a server that is busy starting may need longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// No status line is longer.
const LINE_MAX: u64 = 1024;

pub(crate) struct Probe {
    tls: Arc<ClientConfig>,
}

impl Probe {
    /// Trusts `authority` alone, and shows a certificate if there is one to show.
    pub(crate) fn new(authority: &[u8], client: Option<&Pair>) -> Result<Self, Error> {
        let refused = |message: String| Error::Certificates { message };
        let parse =
            |pem: &[u8]| CertificateDer::from_pem_slice(pem).map_err(|error| refused(error.to_string()));
        let mut roots = RootCertStore::empty();
        roots.add(parse(authority)?).map_err(|error| refused(error.to_string()))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(error.to_string()))?
            .with_root_certificates(roots);
        let tls = match client {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())
                    .map_err(|error| refused(error.to_string()))?;
                builder
                    .with_client_auth_cert(vec![parse(pair.certificate.as_bytes())?], key)
                    .map_err(|error| refused(error.to_string()))?
            }
        };
        Ok(Self { tls: Arc::new(tls) })
    }

    /// Whether the program that listens on `port` says it is well.
    pub(crate) fn is_ready(&self, program: Program, port: u16) -> bool {
        let (scheme, path) = match program {
            Program::Etcd => (Scheme::Http, "/health"),
            Program::Kwok => (Scheme::Http, "/healthz"),
            Program::KubeControllerManager => (Scheme::Https, "/healthz"),
            Program::KubeApiserver | Program::KubeScheduler => (Scheme::Https, "/readyz"),
            Program::Kubectl => return true,
        };
        self.answers(scheme, port, path)
    }

    /// Without it no pod can be made, and it comes later than everybody says to be ready.
    pub(crate) fn has_default_service_account(&self, apiserver: u16) -> bool {
        self.answers(Scheme::Https, apiserver, "/api/v1/namespaces/default/serviceaccounts/default")
    }

    fn answers(&self, scheme: Scheme, port: u16, path: &str) -> bool {
        self.get(scheme, port, path).is_ok_and(|status| status == 200)
    }

    fn get(&self, scheme: Scheme, port: u16, path: &str) -> io::Result<u16> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        match scheme {
            Scheme::Http => ask(stream, path),
            Scheme::Https => {
                let name = ServerName::IpAddress(IpAddr::V4(Ip::from(Ipv4Addr::LOCALHOST)));
                let tls = ClientConnection::new(self.tls.clone(), name).map_err(io::Error::other)?;
                ask(StreamOwned::new(tls, stream), path)
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Scheme {
    Http,
    Https,
}

/// The status of the answer; the rest of it is not read.
fn ask(mut stream: impl Read + Write, path: &str) -> io::Result<u16> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    stream.flush()?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_MAX)).read_line(&mut line)?;
    status(&line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, line))
}

/// `200` of `HTTP/1.1 200 OK`.
fn status(line: &str) -> Option<u16> {
    line.strip_prefix("HTTP/1.")?.split_whitespace().nth(1)?.parse().ok()
}

/// Whether somebody listens.
pub(crate) fn listens(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, PATIENCE).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read_from_the_first_line() {
        for (line, expected) in [
            ("HTTP/1.1 200 OK\r\n", Some(200)),
            ("HTTP/1.0 503 Service Unavailable\r\n", Some(503)),
            ("HTTP/1.1 200", Some(200)),
            ("", None),
            ("SSH-2.0-OpenSSH\r\n", None),
        ] {
            assert_eq!(status(line), expected, "{line}");
        }
    }
}
