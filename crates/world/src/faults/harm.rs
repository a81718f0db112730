//! What goes wrong, in the words of a plan.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The answer begins at once, and its body takes so long, in parts; in a watch each event does.
    Slow(Duration),
    /// The client's lists and watches stay as they are for so long. What is read by name is always of now.
    Freeze {
        length: Duration,
        of: View,
    },
    /// The client is moved to a server that is so many changes behind, and stays there for so long, even if it
    /// starts anew: its watches break, and lists show what was then.
    Rewind {
        changes: u64,
        length: Duration,
        of: View,
    },
    /// A list ends after so many objects and does not say so.
    Partial(usize),
    /// An event is left out.
    Drop,
    /// An event comes twice.
    Repeat,
    /// An event comes after the next one that is about another object.
    Swap,
    /// A watch stays open and says nothing more.
    Silence,
    /// A watch ends before an event, as one does that has lasted long enough.
    End,
    /// The client's clock is set forward, or back.
    Clock(SignedDuration),
    /// From now on the client's clock runs at so many hundredths of its speed.
    Pace(u32),
}

/// What a client is shown of a resource, such as `pods`; of all of them for `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct View(pub Option<String>);

/// The statuses that a server in trouble answers with, or a gateway before it.
const CODES: [&str; 9] = ["401", "403", "409", "410", "429", "500", "502", "503", "504"];
/// A clock runs ten times as fast as it should, at most.
const PACE_MAX: u32 = 1000;

impl FromStr for Harm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["crash"] => Ok(Self::Crash),
            ["lost"] => Ok(Self::Lost),
            ["drop"] => Ok(Self::Drop),
            ["repeat"] => Ok(Self::Repeat),
            ["swap"] => Ok(Self::Swap),
            ["silence"] => Ok(Self::Silence),
            ["end"] => Ok(Self::End),
            ["status", code] => Ok(Self::Status { code: status(code)?, retry_after_secs: None }),
            ["status", code, "retry", wait] => {
                let secs =
                    u32::try_from(length(wait)?.as_secs()).map_err(|_| format!("{wait} is too long"))?;
                Ok(Self::Status { code: status(code)?, retry_after_secs: Some(secs) })
            }
            ["delay", wait] => length(wait).map(Self::Delay),
            ["slow", wait] => length(wait).map(Self::Slow),
            ["freeze", wait, ref of @ ..] => Ok(Self::Freeze { length: length(wait)?, of: view(of)? }),
            ["rewind", changes, "for", wait, ref of @ ..] => {
                Ok(Self::Rewind { changes: from_1(changes)?, length: length(wait)?, of: view(of)? })
            }
            ["partial", count] => {
                count.parse().map(Self::Partial).map_err(|_| format!("{count:?} is no number"))
            }
            ["clock", by] => clock(by),
            _ => Err(format!(
                "{text:?} is none of crash, lost, status CODE [retry TIME], delay TIME, slow TIME, \
                 freeze TIME [of RESOURCE], rewind CHANGES for TIME [of RESOURCE], partial N, drop, repeat, swap, \
                 silence, end, clock +TIME, clock N%"
            )),
        }
    }
}

fn clock(by: &str) -> Result<Harm, String> {
    if let Some(percent) = by.strip_suffix('%') {
        let pace = percent.parse().ok().filter(|percent| *percent <= PACE_MAX);
        return pace.map(Harm::Pace).ok_or_else(|| format!("{by:?} is no pace from 0% to {PACE_MAX}%"));
    }
    match by.split_at_checked(1) {
        Some(("+", by)) => length(by).and_then(signed).map(Harm::Clock),
        Some(("-", by)) => length(by).and_then(signed).map(|by| Harm::Clock(-by)),
        _ => Err(format!("{by:?} has no sign, as +1h has, and is no pace, as 50% is")),
    }
}

fn status(code: &str) -> Result<u16, String> {
    match code.parse() {
        Ok(number) if CODES.contains(&code) => Ok(number),
        _ => Err(format!("{code:?} is none of {}", CODES.join(", "))),
    }
}

fn view(words: &[&str]) -> Result<View, String> {
    match words {
        [] => Ok(View(None)),
        ["of", resource] if !resource.contains('/') => Ok(View(Some((*resource).to_owned()))),
        ["of", resource] => Err(format!("{resource:?} is no resource that is listed and watched")),
        _ => Err(format!("{:?} is not `of RESOURCE`", words.join(" "))),
    }
}

/// A number that is not nothing.
pub(super) fn from_1(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text:?} is no number from 1")),
        Ok(number) => Ok(number),
    }
}

/// A length of time that is not nothing: clocks here go by milliseconds.
fn length(text: &str) -> Result<Duration, String> {
    let no_time = || format!("{text:?} is no length of time, as 90s or 1h30m");
    let span: Span = text.parse().map_err(|_| no_time())?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| no_time())?;
    let length = Duration::try_from(signed).map_err(|_| format!("{text:?} is less than nothing"))?;
    if length.as_millis() == 0 { Err(format!("{text:?} is no time at all")) } else { Ok(length) }
}

fn signed(length: Duration) -> Result<SignedDuration, String> {
    SignedDuration::try_from(length).map_err(|_| format!("{} is too long", written(length)))
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash => f.write_str("crash"),
            Self::Lost => f.write_str("lost"),
            Self::Drop => f.write_str("drop"),
            Self::Repeat => f.write_str("repeat"),
            Self::Swap => f.write_str("swap"),
            Self::Silence => f.write_str("silence"),
            Self::End => f.write_str("end"),
            Self::Status { code, retry_after_secs: None } => write!(f, "status {code}"),
            Self::Status { code, retry_after_secs: Some(secs) } => write!(f, "status {code} retry {secs}s"),
            Self::Delay(wait) => write!(f, "delay {}", written(*wait)),
            Self::Slow(wait) => write!(f, "slow {}", written(*wait)),
            Self::Freeze { length, of } => write!(f, "freeze {}{of}", written(*length)),
            Self::Rewind { changes, length, of } => {
                write!(f, "rewind {changes} for {}{of}", written(*length))
            }
            Self::Partial(count) => write!(f, "partial {count}"),
            Self::Clock(by) => {
                let sign = if by.is_negative() { '-' } else { '+' };
                write!(f, "clock {sign}{}", written(by.unsigned_abs()))
            }
            Self::Pace(percent) => write!(f, "clock {percent}%"),
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|resource| write!(f, " of {resource}"))
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
