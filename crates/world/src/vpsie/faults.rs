//! What goes wrong with VPSie's API, besides the weather of the cloud behind it.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Asked;
use super::answer::{OUT_OF_STOCK, broken, enveloped_error, error_with_status_200, text_of, throttled};
use crate::cloud::fate::Fate;
use crate::cloud::weather::Odds;

/// What somebody asks of VPSie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deed {
    SignIn,
    /// Offers and datacenters.
    Offers,
    /// Servers or nodes, all or one, and notices.
    Look,
    Groups,
    AddGroup,
    Create,
    Delete,
}

impl Deed {
    pub const ALL: [Self; 7] =
        [Self::SignIn, Self::Offers, Self::Look, Self::Groups, Self::AddGroup, Self::Create, Self::Delete];

    /// What a request asks.
    pub fn of(method: &str, path: &str) -> Self {
        let has = |part: &str| path.split('/').any(|found| found == part);
        match method {
            _ if has("auth") => Self::SignIn,
            _ if has("offers") || has("offerings") || has("datacenters") => Self::Offers,
            "DELETE" => Self::Delete,
            "POST" if has("nodegroups") => Self::AddGroup,
            "POST" if has("slave") || !has("group") => Self::Create,
            "POST" => Self::AddGroup,
            _ if has("groups") || has("nodegroups") => Self::Groups,
            _ => Self::Look,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::SignIn => "sign in",
            Self::Offers => "offers",
            Self::Look => "look",
            Self::Groups => "groups",
            Self::AddGroup => "add group",
            Self::Create => "create",
            Self::Delete => "delete",
        }
    }
}

/// By the number of the request among those of its deed, from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct DeedFaults {
    pub unauthorized: Odds,
    /// All tokens that were signed in for end when it arrives.
    pub expired: Odds,
    pub throttled: Odds,
    pub retry_after_secs: u64,
    /// It is refused in words that repeat what was sent, and nothing is done.
    pub echoed: Odds,
    /// The account may have no more, and nothing is done.
    pub over_quota: Odds,
    /// The account may not have this size, and nothing is done.
    pub not_in_plan: Odds,
    /// There is none of this size, and nothing is done.
    pub sold_out: Odds,
    /// A 5xx, and nothing is done.
    pub failed: Odds,
    /// It is done, and then a 5xx.
    pub failed_after: Odds,
    /// The connection ends, and nothing is done.
    pub unheard: Odds,
    /// It is done, and the connection ends.
    pub lost: Odds,
    /// It is done, and the answer is no JSON.
    pub garbled: Odds,
    /// It is done, and the answer does not end.
    pub oversized: Odds,
    /// The answer takes `slow_by_ms` longer.
    pub slow: Odds,
    pub slow_by_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Faults {
    pub seed: u64,
    pub deeds: BTreeMap<Deed, DeedFaults>,
    /// Of nodes of managed clusters it is told who they are, and not what.
    pub bare_nodes: bool,
    /// A server that is asked for or bought is told of without an envelope, and all of them have numbers for their size and
    /// datacenter that no offer has. So VPSie's own autoscaler reads them.
    pub bare_servers: bool,
    /// What it says of servers that run, instead of `running`.
    pub running_word: Option<String>,
    /// Entries that are in its lists besides those that should be, as they are.
    pub odd_offers: Vec<Value>,
    pub odd_servers: Vec<Value>,
}

impl Faults {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn of(deed: Deed, faults: DeedFaults) -> Self {
        Self { deeds: BTreeMap::from([(deed, faults)]), ..Self::default() }
    }

    /// About half of all faults, each at a rate of its own, none of them after `until_ms`.
    pub fn storm(seed: u64, until_ms: u64) -> Self {
        let fate = Fate(seed);
        let faults = |deed: Deed| {
            let odds = |fault: &str| {
                let question = format!("{} {fault}", deed.name());
                let permille = u16::try_from(fate.lot(&question, 1) % 200).unwrap_or(0);
                let is_on = fate.lot(&question, 0).is_multiple_of(2);
                if is_on { Odds::permille(permille).between(0, until_ms) } else { Odds::never() }
            };
            DeedFaults {
                unauthorized: odds("unauthorized"),
                expired: odds("expired"),
                throttled: odds("throttled"),
                retry_after_secs: fate.lot("retry after", 0) % 5,
                echoed: Odds::never(),
                over_quota: Odds::never(),
                not_in_plan: Odds::never(),
                sold_out: Odds::never(),
                failed: odds("failed"),
                failed_after: odds("failed after"),
                unheard: odds("unheard"),
                lost: odds("lost"),
                garbled: odds("garbled"),
                oversized: Odds::never(),
                slow: odds("slow"),
                slow_by_ms: fate.lot("slow by", 0) % 60 * 1000,
            }
        };
        let deeds = Deed::ALL.into_iter().map(|deed| (deed, faults(deed))).collect();
        Self { seed, deeds, ..Self::default() }
    }

    pub(super) fn strikes(&self, deed: Deed, number: u64, at_ms: u64) -> Strikes {
        let Some(faults) = self.deeds.get(&deed) else { return Strikes::default() };
        let strikes = |odds: &Odds, fault: &str| {
            Fate(self.seed).strikes(odds, &format!("{} {fault}", deed.name()), number, at_ms)
        };
        let instead = [
            (&faults.unauthorized, "unauthorized", Instead::Unauthorized),
            (
                &faults.throttled,
                "throttled",
                Instead::Throttled { retry_after_secs: faults.retry_after_secs },
            ),
            (&faults.echoed, "echoed", Instead::Echoed),
            (&faults.over_quota, "over quota", Instead::OverQuota),
            (&faults.not_in_plan, "not in plan", Instead::NotInPlan),
            (&faults.sold_out, "sold out", Instead::SoldOut),
            (&faults.failed, "failed", Instead::Failed),
            (&faults.unheard, "unheard", Instead::Unheard),
        ];
        let after = [
            (&faults.failed_after, "failed after", After::Failed),
            (&faults.lost, "lost", After::Lost),
            (&faults.garbled, "garbled", After::Garbled),
            (&faults.oversized, "oversized", After::Oversized),
        ];
        let slow = strikes(&faults.slow, "slow");
        Strikes {
            instead: instead.into_iter().find(|(odds, fault, _)| strikes(odds, fault)).map(|(.., what)| what),
            after: after.into_iter().find(|(odds, fault, _)| strikes(odds, fault)).map(|(.., what)| what),
            signs_out: strikes(&faults.expired, "expired"),
            slow_by: if slow { Duration::from_millis(faults.slow_by_ms) } else { Duration::ZERO },
        }
    }
}

/// What befalls one request.
#[derive(Debug, Default)]
pub(super) struct Strikes {
    pub(super) signs_out: bool,
    instead: Option<Instead>,
    after: Option<After>,
    pub(super) slow_by: Duration,
}

/// Nothing is done.
#[derive(Debug)]
enum Instead {
    Unauthorized,
    Throttled { retry_after_secs: u64 },
    Echoed,
    OverQuota,
    NotInPlan,
    SoldOut,
    Failed,
    Unheard,
}

/// It is done, and the answer is another.
#[derive(Debug)]
enum After {
    Failed,
    Lost,
    Garbled,
    Oversized,
}

/// More than any client takes.
const OVERSIZED_BYTES: usize = 11 << 20;

impl Strikes {
    /// Whether anything goes wrong.
    pub(super) fn any(&self) -> bool {
        self.signs_out || self.instead.is_some() || self.after.is_some() || !self.slow_by.is_zero()
    }

    pub(super) fn instead(&self, asked: &Asked, number: u64) -> Option<Response> {
        Some(match self.instead.as_ref()? {
            Instead::Unauthorized => enveloped_error(401, "Unauthorized"),
            Instead::Throttled { retry_after_secs } => throttled(*retry_after_secs),
            Instead::Echoed => {
                let bearer = asked.bearer.as_deref().unwrap_or_default();
                let body = String::from_utf8_lossy(&asked.body);
                enveloped_error(400, &format!("not understood: Bearer {bearer}: {body}"))
            }
            Instead::OverQuota => error_with_status_200(400, "Quota exceeded: groups"),
            Instead::NotInPlan => error_with_status_200(400, "Your plan does not allow this size"),
            Instead::SoldOut => enveloped_error(422, OUT_OF_STOCK),
            Instead::Failed => failed(number),
            Instead::Unheard => broken(),
        })
    }

    pub(super) fn of(&self, answer: Response) -> Response {
        match self.after {
            None => answer,
            Some(After::Failed) => failed(0),
            Some(After::Lost) => broken(),
            Some(After::Garbled) => text_of(200, "<html>Welcome to nginx!</html>"),
            Some(After::Oversized) => text_of(200, vec![b' '; OVERSIZED_BYTES]),
        }
    }
}

/// One after the other, so that all are met.
fn failed(number: u64) -> Response {
    match number % 4 {
        0 => text_of(502, "<html>Bad Gateway</html>"),
        1 => enveloped_error(500, "Internal Server Error"),
        2 => text_of(503, "<html>Service Unavailable</html>"),
        _ => text_of(504, "<html>Gateway Timeout</html>"),
    }
}
