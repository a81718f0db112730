//! What goes wrong: each case is one fault at one point of one workload, and has a text that plays it again.

use std::fmt;
use std::str::FromStr;

use berth_world::cloud::{Call, Weather};
use berth_world::faults::{Fault, FaultPlan, PlanError};
use berth_world::vpsie::Faults;
use serde_json::Value;

use crate::cloud::CloudCrash;
use crate::leaders::Leaders;
use crate::meddling::{Meddler, Poison};
use crate::swarm;
use crate::workloads::Workload;

/// The number of what is drawn instead of counted.
pub(crate) const SWARM: u8 = 100;

/// Two looks at everything, and what is waited for before a burst is over.
const TOLD_SECS_MAX: i64 = 30;

/// One run, as its replay names it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) workload: Workload,
    pub(crate) seed: u64,
    /// The number of the kind of fault; 0 for none.
    pub(crate) kind: u8,
    pub(crate) injection: Injection,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Injection {
    Nothing,
    /// Between an operator and the API; what goes together is more than one.
    Api(FaultPlan),
    /// The operator ends at a call to the cloud.
    Cloud(CloudCrash),
    /// In the cloud: what is different from the workload's weather.
    Weather(Value),
    /// With VPSie's API.
    Vpsie(Value),
    /// Somebody else changes something at a bad moment.
    Meddle(Meddler),
    /// An object that makes no sense.
    Poison(Poison),
    /// More than one operator believes to lead.
    Leaders(Leaders),
    /// Whatever the seed says, and operators that both believe to lead.
    Swarm,
}

impl Case {
    pub(crate) fn weather(&self) -> Weather {
        let weather = self.workload.weather();
        let change = match &self.injection {
            Injection::Weather(change) => change,
            Injection::Swarm => &swarm::weather(self.workload.dialect(), self.seed),
            _ => return weather,
        };
        let mut whole = serde_json::to_value(weather).expect("it can be written");
        merge(&mut whole, change);
        serde_json::from_value(whole).expect("a weather")
    }

    pub(crate) fn vpsie_faults(&self) -> Faults {
        match &self.injection {
            Injection::Vpsie(faults) => serde_json::from_value(faults.clone()).expect("faults of VPSie"),
            Injection::Swarm => swarm::vpsie(self.seed),
            _ => Faults::none(),
        }
    }

    /// More claims than this need not be made: so many as without the fault, and some because of it.
    pub(crate) fn claims_max(&self) -> u64 {
        let lost = match self.kind {
            0 | 23 => 0,
            // Each time that nothing can be had, a claim has been made for it.
            14 => 40,
            24 => 20,
            SWARM => 1000,
            _ => 10,
        };
        self.workload.claims_max() + lost
    }

    /// Operators that hear and are heard tell pods within two looks why they wait; of others it is asked in the end.
    pub(crate) fn told_secs_max(&self) -> Option<i64> {
        let can_talk = matches!(
            self.injection,
            Injection::Nothing | Injection::Weather(_) | Injection::Vpsie(_) | Injection::Poison(_)
        );
        can_talk.then_some(TOLD_SECS_MAX)
    }
}

fn merge(whole: &mut Value, change: &Value) {
    match (whole, change) {
        (Value::Object(whole), Value::Object(change)) => {
            for (key, change) in change {
                merge(whole.entry(key.clone()).or_insert(Value::Null), change);
            }
        }
        (whole, change) => *whole = change.clone(),
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Api(FaultPlan(faults)) => {
                let faults: Vec<String> = faults.iter().map(Fault::to_string).collect();
                write!(f, "api {}", faults.join("; "))
            }
            Self::Cloud(CloudCrash { call, nth, is_after }) => {
                let side = if *is_after { "after" } else { "before" };
                write!(f, "cloud {side} {} #{nth}: crash", call.name())
            }
            Self::Weather(change) => write!(f, "weather {change}"),
            Self::Vpsie(faults) => write!(f, "vpsie {faults}"),
            Self::Meddle(meddler) => write!(f, "meddle {meddler}"),
            Self::Poison(poison) => write!(f, "poison {poison}"),
            Self::Leaders(leaders) => write!(f, "leaders {leaders}"),
            Self::Swarm => f.write_str("swarm"),
        }
    }
}

impl FromStr for Injection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        match kind {
            "nothing" => Ok(Self::Nothing),
            "swarm" => Ok(Self::Swarm),
            "api" => rest.parse().map(Self::Api).map_err(|error: PlanError| error.to_string()),
            "weather" => serde_json::from_str(rest).map(Self::Weather).map_err(|error| error.to_string()),
            "vpsie" => serde_json::from_str(rest).map(Self::Vpsie).map_err(|error| error.to_string()),
            "meddle" => rest.parse().map(Self::Meddle),
            "poison" => rest.parse().map(Self::Poison),
            "leaders" => rest.parse().map(Self::Leaders),
            "cloud" => cloud_crash(rest).map(Self::Cloud).ok_or_else(|| format!("{rest:?} is no call")),
            _ => Err(format!("{text:?} is nothing that goes wrong")),
        }
    }
}

fn cloud_crash(text: &str) -> Option<CloudCrash> {
    let words: Vec<&str> = text.split(' ').collect();
    let [side, call, nth, "crash"] = words[..] else { return None };
    let call = [Call::Launch, Call::Terminate].into_iter().find(|known| known.name() == call)?;
    Some(CloudCrash { call, nth: nth.trim_matches(['#', ':']).parse().ok()?, is_after: side == "after" })
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} seed {} F{} {}", self.workload, self.seed, self.kind, self.injection)
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.splitn(5, ' ').collect();
        let [workload, "seed", seed, kind, injection] = words[..] else {
            return Err(format!("{text:?} is not `WORKLOAD seed N F1 INJECTION`"));
        };
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
        Ok(Self {
            workload: workload.parse()?,
            seed: number(seed)?,
            kind: u8::try_from(number(kind.trim_start_matches('F'))?).map_err(|error| error.to_string())?,
            injection: injection.parse()?,
        })
    }
}
