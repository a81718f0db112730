//! What is to go wrong: a plan as lines of text, each a point and a fault.
//!
//! ```text
//! berth-1 before create nodeclaims.karpenter.sh #2: crash
//! berth-1 after update nodepools.karpenter.sh #1: lost
//! * before write * #10x3: status 409
//! berth-2 before event pods #5: drop
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

use crate::request::Verb;

/// Faults, each at its point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan(pub Vec<Fault>);

/// One fault, and when it strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whose deeds; everybody's for `None`.
    pub client: Option<String>,
    pub side: Side,
    pub deed: DeedKind,
    /// As `nodeclaims.karpenter.sh`, or `pods/eviction`; any for `None`.
    pub resource: Option<String>,
    /// At the so many-th deed of this kind, from 1.
    pub nth: u64,
    /// So many in a row.
    pub times: u64,
    pub harm: Harm,
}

/// Whether the deed has had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Before,
    After,
}

/// What a client does, or is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeedKind {
    Any,
    Read,
    Write,
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    /// An event of a watch.
    Event,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The client is no more: nothing that it asked is answered.
    Crash,
    /// An answer with this status and reason.
    Status {
        code: u16,
        retry_after_secs: Option<u32>,
    },
    /// The connection breaks.
    Lost,
    Delay(Duration),
    /// The client's lists and watches stay as they are for so long. What is read by name is always of now.
    Freeze(Duration),
    /// A list ends after so many objects and does not say so.
    Partial(usize),
    /// An event is left out.
    Drop,
    /// An event comes twice.
    Repeat,
    /// A watch stays open and says nothing more.
    Silence,
    /// The client's clock is set forward, or back.
    Clock(SignedDuration),
}

const DEEDS: [(DeedKind, &str); 11] = [
    (DeedKind::Any, "any"),
    (DeedKind::Read, "read"),
    (DeedKind::Write, "write"),
    (DeedKind::Get, "get"),
    (DeedKind::List, "list"),
    (DeedKind::Watch, "watch"),
    (DeedKind::Create, "create"),
    (DeedKind::Update, "update"),
    (DeedKind::Patch, "patch"),
    (DeedKind::Delete, "delete"),
    (DeedKind::Event, "event"),
];

impl DeedKind {
    /// Whether it covers a request with this verb.
    pub(crate) fn covers(self, verb: Verb) -> bool {
        let is_read = matches!(verb, Verb::Get | Verb::List | Verb::Watch);
        match self {
            Self::Any => true,
            Self::Read => is_read,
            Self::Write => !is_read,
            Self::Get => verb == Verb::Get,
            Self::List => verb == Verb::List,
            Self::Watch => verb == Verb::Watch,
            Self::Create => verb == Verb::Create,
            Self::Update => verb == Verb::Update,
            Self::Patch => verb == Verb::Patch,
            Self::Delete => matches!(verb, Verb::Delete | Verb::DeleteCollection),
            Self::Event => false,
        }
    }
}

/// What is wrong with a line of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    line: String,
    why: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no fault: {}; a fault is `CLIENT before|after DEED RESOURCE #N[xTIMES]: HARM`, as in \
             `* before create pods #1: status 409`",
            self.line, self.why
        )
    }
}

impl std::error::Error for PlanError {}

impl FromStr for FaultPlan {
    type Err = PlanError;

    /// A fault on each line; what follows a `//` is a remark.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
        lines.filter(|line| !line.is_empty()).map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|fault| writeln!(f, "{fault}"))
    }
}

impl FromStr for Fault {
    type Err = PlanError;

    fn from_str(line: &str) -> Result<Self, PlanError> {
        parse(line).map_err(|why| PlanError { line: line.to_owned(), why })
    }
}

fn parse(line: &str) -> Result<Fault, String> {
    let (point, harm) = line.split_once(": ").ok_or("there is no `: ` before the harm")?;
    let words: Vec<&str> = point.split_whitespace().collect();
    let [client, side, deed, resource, count] = words[..] else {
        return Err(format!("it has {} words before the `:`, and 5 are needed", words.len()));
    };
    let some = |word: &str| Some(word.to_owned()).filter(|word| word != "*");
    let side = match side {
        "before" => Side::Before,
        "after" => Side::After,
        _ => return Err(format!("{side:?} is neither `before` nor `after`")),
    };
    let known = DEEDS.iter().find(|(_, word)| *word == deed);
    let (deed, _) =
        known.ok_or_else(|| format!("{deed:?} is none of {}", DEEDS.map(|(_, word)| word).join(", ")))?;
    let numbers = count.strip_prefix('#').ok_or("the count begins with `#`")?;
    let (nth, times) = numbers.split_once('x').unwrap_or((numbers, "1"));
    let number = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text:?} is no number from 1")),
        Ok(number) => Ok(number),
    };
    let fault = Fault {
        client: some(client),
        side,
        deed: *deed,
        resource: some(resource),
        nth: number(nth)?,
        times: number(times)?,
        harm: harm.parse()?,
    };
    fault.check()?;
    Ok(fault)
}

impl Fault {
    /// Events can be harmed in ways that requests cannot, and the other way round.
    fn check(&self) -> Result<(), String> {
        let is_event = self.deed == DeedKind::Event;
        match self.harm {
            Harm::Drop | Harm::Repeat | Harm::Silence if !is_event => {
                Err(format!("`{}` is for events", self.harm))
            }
            Harm::Partial(_) if is_event => Err("`partial` is for lists".to_owned()),
            Harm::Status { .. } if self.side == Side::After && !is_event => {
                Err("an answer with a status comes before the effect; after it, say `lost`".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        let deed = DEEDS.iter().find(|(deed, _)| *deed == self.deed).map_or("", |(_, word)| *word);
        let (client, resource) = (self.client.as_deref(), self.resource.as_deref());
        write!(f, "{} {side} {deed} {} #{}", client.unwrap_or("*"), resource.unwrap_or("*"), self.nth)?;
        if self.times > 1 {
            write!(f, "x{}", self.times)?;
        }
        write!(f, ": {}", self.harm)
    }
}

impl FromStr for Harm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["crash"] => Ok(Self::Crash),
            ["lost"] => Ok(Self::Lost),
            ["drop"] => Ok(Self::Drop),
            ["repeat"] => Ok(Self::Repeat),
            ["silence"] => Ok(Self::Silence),
            ["status", code] => Ok(Self::Status { code: status(code)?, retry_after_secs: None }),
            ["status", code, "retry", wait] => {
                let secs =
                    u32::try_from(length(wait)?.as_secs()).map_err(|_| format!("{wait} is too long"))?;
                Ok(Self::Status { code: status(code)?, retry_after_secs: Some(secs) })
            }
            ["delay", wait] => length(wait).map(Self::Delay),
            ["freeze", wait] => length(wait).map(Self::Freeze),
            ["partial", count] => {
                count.parse().map(Self::Partial).map_err(|_| format!("{count:?} is no number"))
            }
            ["clock", by] => match by.split_at_checked(1) {
                Some(("+", by)) => signed(by).map(Self::Clock),
                Some(("-", by)) => signed(by).map(|by| Self::Clock(-by)),
                _ => Err(format!("{by:?} has no sign, as +1h has")),
            },
            _ => Err(format!(
                "{text:?} is none of crash, lost, status CODE [retry TIME], delay TIME, freeze TIME, partial N, drop, \
                 repeat, silence, clock +TIME"
            )),
        }
    }
}

fn status(code: &str) -> Result<u16, String> {
    const KNOWN: [&str; 8] = ["401", "403", "409", "410", "429", "500", "503", "504"];
    match code.parse() {
        Ok(number) if KNOWN.contains(&code) => Ok(number),
        _ => Err(format!("{code:?} is none of {}", KNOWN.join(", "))),
    }
}

fn length(text: &str) -> Result<Duration, String> {
    Duration::try_from(signed(text)?).map_err(|_| format!("{text:?} is less than nothing"))
}

fn signed(text: &str) -> Result<SignedDuration, String> {
    let no_time = || format!("{text:?} is no length of time, as 90s or 1h30m");
    let span: Span = text.parse().map_err(|_| no_time())?;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| no_time())
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Crash => f.write_str("crash"),
            Self::Lost => f.write_str("lost"),
            Self::Drop => f.write_str("drop"),
            Self::Repeat => f.write_str("repeat"),
            Self::Silence => f.write_str("silence"),
            Self::Status { code, retry_after_secs: None } => write!(f, "status {code}"),
            Self::Status { code, retry_after_secs: Some(secs) } => write!(f, "status {code} retry {secs}s"),
            Self::Delay(wait) => write!(f, "delay {}", written(wait)),
            Self::Freeze(wait) => write!(f, "freeze {}", written(wait)),
            Self::Partial(count) => write!(f, "partial {count}"),
            Self::Clock(by) => {
                let sign = if by.is_negative() { '-' } else { '+' };
                write!(f, "clock {sign}{}", written(by.unsigned_abs()))
            }
        }
    }
}

/// As it is read: in seconds, or milliseconds where they count.
fn written(length: Duration) -> String {
    if length.subsec_millis() == 0 {
        format!("{}s", length.as_secs())
    } else {
        format!("{}ms", length.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_and_written() {
        for (line, written) in [
            ("a before create pods #1: crash", ""),
            ("* after write * #3: lost", ""),
            ("* before any * #1x5: status 429 retry 2s", ""),
            ("b before list pods #1: freeze 1m", "b before list pods #1: freeze 60s"),
            ("b before list nodes #1: partial 10", ""),
            ("b before event pods #2: drop", ""),
            ("b before event pods #2: status 410", ""),
            ("b before create pods/eviction #1: delay 1500ms", ""),
            ("b before read * #1: clock -1h", "b before read * #1: clock -3600s"),
        ] {
            let fault: Fault = line.parse().unwrap();
            let expected = if written.is_empty() { line } else { written };
            assert_eq!(fault.to_string(), expected);
            assert_eq!(expected.parse(), Ok(fault));
        }
        let plan: FaultPlan = "// nothing yet\n\n* before get pods #1: crash // now\n".parse().unwrap();
        assert_eq!(plan.to_string(), "* before get pods #1: crash\n");
    }

    #[test]
    fn wrong_plans_say_why() {
        for (line, why) in [
            ("", "no `: `"),
            ("a before create pods: crash", "4 words"),
            ("a during create pods #1: crash", "neither `before` nor `after`"),
            ("a before make pods #1: crash", "\"make\" is none of any, read"),
            ("a before create pods #0: crash", "\"0\" is no number from 1"),
            ("a before create pods 1: crash", "begins with `#`"),
            ("a before create pods #1: burn", "\"burn\" is none of crash"),
            ("a before create pods #1: status 418", "\"418\" is none of"),
            ("a before create pods #1: delay long", "no length of time"),
            ("a before create pods #1: clock 1h", "no sign"),
            ("a before create pods #1: drop", "`drop` is for events"),
            ("a before event pods #1: partial 3", "`partial` is for lists"),
            ("a after create pods #1: status 409", "say `lost`"),
        ] {
            let error = line.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
