//! Why VPSie did not do, or may not have done, what it was asked.

use std::time::Duration;

use http::Method;

use super::transport::Lost;
use crate::provider::Refusal;

/// A request that did not get what it wanted. Its words hold no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{method} {path} (request {request}): {fault}")]
pub struct ApiError {
    pub method: Method,
    /// Behind the address of the API, without a query.
    pub path: String,
    /// As it was sent in `x-request-id`.
    pub request: String,
    pub fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error("not sent: VPSie fails too often, and is asked again in {} s", .probe_in.as_secs())]
    Withheld { probe_in: Duration },
    #[error("not sent: its time had passed")]
    Late,
    #[error("the credentials are not accepted: {message}")]
    Unauthorized { message: String },
    #[error("VPSie is asked too often")]
    Throttled { retry_after: Option<Duration> },
    #[error("the account may have no more: {message}")]
    Quota { message: String, breadth: Breadth },
    #[error("it is sold out: {message}")]
    SoldOut { message: String },
    #[error("there is no such thing: {message}")]
    NotFound { message: String },
    #[error("refused with code {code}: {message}")]
    Refused { code: u16, message: String },
    #[error("failed with code {code}: {message}")]
    Failed { code: u16, message: String },
    #[error("the answer is a redirect with code {code}, and none is followed")]
    Redirected { code: u16 },
    #[error("the answer is not JSON but {bytes} bytes of {content_type}")]
    NotJson { bytes: usize, content_type: String },
    /// Where in the answer, what is wrong, and what was expected.
    #[error("the answer is not what it should be: {problem}")]
    Malformed { problem: String },
}

/// What else is refused for the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breadth {
    /// All that the account could buy.
    Account,
    /// This size only.
    Size,
}

impl Fault {
    /// Whether it is certain that VPSie did not do it.
    pub fn changed_nothing(&self) -> bool {
        match self {
            Self::Lost(lost) => matches!(lost, Lost::Connection(_)),
            Self::Failed { .. } | Self::NotJson { .. } | Self::Malformed { .. } => false,
            Self::Withheld { .. }
            | Self::Late
            | Self::Unauthorized { .. }
            | Self::Throttled { .. }
            | Self::Quota { .. }
            | Self::SoldOut { .. }
            | Self::NotFound { .. }
            | Self::Refused { .. }
            | Self::Redirected { .. } => true,
        }
    }

    /// Whether VPSie has looked at what it was asked and said no: asked the same, it says the same.
    pub fn is_verdict(&self) -> bool {
        matches!(self, Self::Unauthorized { .. } | Self::Refused { .. })
    }

    /// Whether VPSie seems to be down. What it refuses it has at least understood.
    pub(super) fn is_outage(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Failed { code: 500.., .. })
    }

    /// Whether the same request may do better a moment later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Lost(lost) => *lost != Lost::TooLarge,
            Self::Throttled { .. } => true,
            Self::Failed { code, .. } => matches!(code, 500 | 502 | 503 | 504),
            _ => false,
        }
    }
}

impl ApiError {
    /// What a caller of the cloud is told.
    pub(super) fn refusal(self) -> Refusal {
        let words = self.to_string();
        match self.fault {
            Fault::Throttled { retry_after } => Refusal::Throttled { retry_after },
            Fault::Withheld { probe_in } => Refusal::Throttled { retry_after: Some(probe_in) },
            Fault::Unauthorized { .. }
            | Fault::Refused { code: 403, .. }
            | Fault::Quota { .. }
            | Fault::SoldOut { .. } => Refusal::Denied(words),
            Fault::Refused { .. } => Refusal::Invalid(words),
            // It is the path that is not there, which says nothing of any order or machine.
            Fault::Redirected { .. }
            | Fault::NotFound { .. }
            | Fault::Lost(_)
            | Fault::Late
            | Fault::Failed { .. }
            | Fault::NotJson { .. }
            | Fault::Malformed { .. } => Refusal::Unknown(words),
        }
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        error.refusal()
    }
}
