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

use super::Harm;
use super::harm::from_1;

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
    /// As `nodeclaims.karpenter.sh`, `pods/eviction`, or a path that is no resource, `/version`; any for `None`.
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

/// No role knows this verb.
pub(super) const EVENT: &str = "event";

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
    (DeedKind::Event, EVENT),
];

impl DeedKind {
    /// Whether it covers what roles know by this verb, or an event; questions about access change nothing.
    pub(crate) fn covers(self, verb: &str, is_question: bool) -> bool {
        let is_read = is_question || matches!(verb, "get" | "list" | "watch");
        match self {
            Self::Event => verb == EVENT,
            _ if verb == EVENT => false,
            Self::Any => true,
            Self::Read => is_read,
            Self::Write => !is_read,
            Self::Get => verb == "get",
            Self::List => verb == "list",
            Self::Watch => verb == "watch",
            Self::Create => verb == "create",
            Self::Update => verb == "update",
            Self::Patch => verb == "patch",
            Self::Delete => matches!(verb, "delete" | "deletecollection"),
        }
    }

    fn name(self) -> &'static str {
        DEEDS.iter().find(|(deed, _)| *deed == self).map_or("", |(_, word)| *word)
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

    /// A fault on each line, or several with a `;` between them; what follows a `//` is a remark.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        let faults = lines.flat_map(|line| line.split(';')).map(str::trim);
        faults.filter(|line| !line.is_empty()).map(str::parse).collect::<Result<_, _>>().map(Self)
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
    let fault = Fault {
        client: some(client),
        side,
        deed: *deed,
        resource: some(resource),
        nth: from_1(nth)?,
        times: from_1(times)?,
        harm: harm.parse()?,
    };
    fault.check()?;
    Ok(fault)
}

impl Fault {
    /// What would never strike, or strike without a harm.
    fn check(&self) -> Result<(), String> {
        self.check_point()?;
        let is_event = self.deed == DeedKind::Event;
        match self.harm {
            Harm::Drop | Harm::Repeat | Harm::Swap | Harm::Silence | Harm::End if !is_event => {
                Err(format!("`{}` is for events: say `before event`", self.harm))
            }
            Harm::Partial(_)
                if !matches!(self.deed, DeedKind::List | DeedKind::Watch) || self.side != Side::Before =>
            {
                let why = "`partial` is for lists, before they are answered: say `before list`, or `before watch` of a \
                           client that lists by watching";
                Err(why.to_owned())
            }
            Harm::Slow(_) if is_event => Err("`slow` is for answers: of an event, say `delay`".to_owned()),
            Harm::Slow(_) if self.side == Side::Before => {
                Err("a slow answer comes after the effect: say `after`, or `delay` before it".to_owned())
            }
            Harm::Status { code: 502, .. } if is_event => {
                Err("a gateway says nothing within a watch: say `lost`".to_owned())
            }
            Harm::Status { code: ..500, .. } if self.side == Side::After => {
                Err("who refuses does so before the effect; after it, say 500 or more, or `lost`".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn check_point(&self) -> Result<(), String> {
        if self.deed == DeedKind::Event && self.side == Side::After {
            return Err("an event is harmed before it is heard: say `before event`".to_owned());
        }
        let of_many = matches!(self.deed, DeedKind::List | DeedKind::Watch | DeedKind::Event);
        match self.resource.as_deref() {
            Some(path) if path.starts_with('/') && of_many => {
                Err(format!("{path} is no resource, and is only got: say `get`"))
            }
            Some(part)
                if part.contains('/')
                    && !part.starts_with('/')
                    && (of_many || self.deed == DeedKind::Delete) =>
            {
                let whole = part.split('/').next().unwrap_or_default();
                Err(format!("for `{}` objects are whole: say `{whole}`, not `{part}`", self.deed.name()))
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
        let deed = self.deed.name();
        let (client, resource) = (self.client.as_deref(), self.resource.as_deref());
        write!(f, "{} {side} {deed} {} #{}", client.unwrap_or("*"), resource.unwrap_or("*"), self.nth)?;
        if self.times > 1 {
            write!(f, "x{}", self.times)?;
        }
        write!(f, ": {}", self.harm)
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
            ("b before watch nodes #1: partial 10", ""),
            ("b before event pods #2: drop", ""),
            ("b before event pods #2: status 410", ""),
            ("b before create pods/eviction #1: delay 1500ms", ""),
            ("b before read * #1: clock -1h", "b before read * #1: clock -3600s"),
            ("b before read * #1: clock 50%", ""),
            ("b before get /version #1: status 502", ""),
            ("b before create selfsubjectaccessreviews.authorization.k8s.io #1: lost", ""),
            ("b after list pods #1: slow 10s", ""),
            ("b before list pods #1: freeze 60s of nodes", ""),
            ("b after write * #7: rewind 40 for 60s", ""),
            ("b after write * #7: rewind 40 for 60s of nodeclaims.karpenter.sh", ""),
            ("b before event pods #2: swap", ""),
            ("b before event pods #2: end", ""),
            ("b after write * #2: status 504", ""),
            ("b after create pods #2: status 503 retry 5s", ""),
        ] {
            let fault: Fault = line.parse().unwrap();
            let expected = if written.is_empty() { line } else { written };
            assert_eq!(fault.to_string(), expected);
            assert_eq!(expected.parse(), Ok(fault));
        }
        let plan: FaultPlan = "// nothing yet\n\n* before get pods #1: crash // now\n".parse().unwrap();
        assert_eq!(plan.to_string(), "* before get pods #1: crash\n");
        let plan: FaultPlan = "a after get pods #1: lost; a before get pods #2: crash".parse().unwrap();
        assert_eq!(plan.to_string(), "a after get pods #1: lost\na before get pods #2: crash\n");
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
            ("a before create pods #1: swap", "`swap` is for events: say `before event`"),
            ("a after event pods #1: drop", "heard: say `before event`"),
            ("a after event pods #1: lost", "heard: say `before event`"),
            (
                "a before event pods/status #1: drop",
                "for `event` objects are whole: say `pods`, not `pods/status`",
            ),
            ("a before delete pods/eviction #1: lost", "for `delete` objects are whole: say `pods`"),
            ("a before list /apis #1: lost", "/apis is no resource, and is only got: say `get`"),
            ("a before event pods #1: partial 3", "`partial` is for lists"),
            ("a before create pods #1: partial 3", "say `before list`"),
            ("a before get pods #1: partial 3", "say `before list`"),
            ("a before any * #1: partial 3", "say `before list`"),
            ("a after list pods #1: partial 3", "say `before list`"),
            ("a after watch pods #1: partial 3", "or `before watch`"),
            ("a before event pods #1: slow 3s", "of an event, say `delay`"),
            ("a before get pods #1: slow 3s", "say `after`, or `delay` before it"),
            ("a before event pods #1: status 502", "within a watch: say `lost`"),
            ("a before get pods #1: delay 0s", "no time at all"),
            ("a before get pods #1: clock +0s", "no time at all"),
            ("a before get pods #1: clock 1001%", "no pace from 0% to 1000%"),
            ("a before get pods #1: freeze 3s of", "\"of\" is not `of RESOURCE`"),
            ("a before get pods #1: freeze 3s of pods/status", "is no resource that is listed"),
            ("a before get pods #1: rewind 0 for 3s", "\"0\" is no number from 1"),
            ("a before get pods #1: rewind 3", "is none of crash"),
            ("a after create pods #1: status 409", "say 500 or more, or `lost`"),
            ("a after create pods #1: status 429 retry 5s", "who refuses does so before the effect"),
            ("a before watch pods #1: end", "`end` is for events: say `before event`"),
        ] {
            let error = line.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
