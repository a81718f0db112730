//! VPSie: a client of its API, and the cloud on it.
//!
//! `Client` is the way to the API: it signs in, keeps to the rate that VPSie allows, stops asking while VPSie is down,
//! and turns every answer into a type or a typed error. `VpsieCloud` buys on it. VPSie knows no tokens, so how a launch
//! is found again is the hard part: docs/decisions/0014-launches-without-tokens.md.

mod api;
mod assign;
mod breaker;
mod client;
mod cloud;
mod credentials;
mod envelope;
mod error;
mod launches;
mod limiter;
mod managed;
mod note;
mod observer;
mod offers;
mod servers;
mod session;
mod settings;
mod transport;

pub use breaker::Phase;
pub use client::Client;
pub use cloud::VpsieCloud;
pub use credentials::{Credentials, CredentialsError};
pub use error::{ApiError, Breadth, Fault};
pub use limiter::{Lane, SUCCESSION_MIN};
pub use observer::{Event, Observer, Outcome};
pub use session::Replaced;
pub use settings::{ClientSettings, CloudSettings, Family};
pub use transport::{
    BODY_BYTES_MAX, Lost, Sent, TlsFloor, TlsSettings, TlsTransport, Transport, TransportError,
};
