//! What the API tells of: servers and nodes, read once.

use berth_core::names::{Labels, Text};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::envelope::malformed;
use super::error::Fault;
use crate::field::Field;
use crate::machine::{MachineId, MachineState, Token};

/// All that may stand in a path as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

const ID: &[&str] = &["identifier", "id"];
const NAME: &[&str] = &["name", "hostname"];
const HOSTNAME: &[&str] = &["hostname", "name"];
/// Under which id the server was sold, and where: what a list says of it may have another numbering.
const SIZE_TAG: &str = "berth.dev/size";
const DATACENTER_TAG: &str = "berth.dev/datacenter";

/// One part of a path, whatever it holds.
pub(super) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// What was asked for when a server was bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ordered {
    pub(super) size: Text,
    pub(super) datacenter: Text,
}

impl Ordered {
    /// The tags that say so.
    pub(super) fn tags(size: &str, datacenter: &str) -> [String; 2] {
        [format!("{SIZE_TAG}={size}"), format!("{DATACENTER_TAG}={datacenter}")]
    }

    /// Takes them from those of a server.
    fn take_from(tags: &mut Labels) -> Option<Self> {
        let (size, datacenter) = (tags.remove(SIZE_TAG), tags.remove(DATACENTER_TAG));
        Some(Self { size: size?, datacenter: datacenter? })
    }
}

/// A server, or a node of a managed cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) id: MachineId,
    /// What it has besides an identifier of letters.
    pub(super) number: Option<i64>,
    pub(super) name: Text,
    pub(super) hostname: Text,
    pub(super) address: Option<Text>,
    pub(super) address_v6: Option<Text>,
    /// In gigabytes a month.
    pub(super) traffic: Option<i64>,
    pub(super) state: MachineState,
    /// In VPSie's own word.
    pub(super) status: Option<Text>,
    /// Those that are `key=value`.
    pub(super) tags: Labels,
    /// As what it was bought, by its tags.
    pub(super) ordered: Option<Ordered>,
    /// The id of its offer.
    pub(super) size: Option<Text>,
    pub(super) datacenter: Option<Text>,
    /// The number of its group, in a managed cluster.
    pub(super) group: Option<u64>,
    pub(super) is_manager: bool,
    pub(super) created_at: Option<Timestamp>,
    /// Why nothing but its names is known.
    pub(super) unread: Option<String>,
}

impl Server {
    pub(super) fn read(field: &Field<'_, '_>) -> Result<Self, Fault> {
        let optional = |keys: &[&'static str], wanted: &'static str| {
            let member = field.get_any(keys);
            member.is_present().then(|| member.scalar(wanted)).transpose().map_err(malformed)
        };
        let id = field.get_any(ID).scalar("the id of the server").map_err(malformed)?;
        let hostname = optional(HOSTNAME, "the host name")?.unwrap_or_default();
        let group = optional(&["group_id", "groupId", "node_group_id"], "the number of the group")?;
        let role =
            optional(&["role", "node_type"], "the role of the node")?.unwrap_or_default().to_lowercase();
        let status = optional(&["status"], "the status")?.unwrap_or_default();
        let mut tags = tags_of(field)?;
        Ok(Self {
            id: id.as_str().into(),
            number: optional(&["id"], "the number of the server")?.and_then(|text| text.parse().ok()),
            name: optional(NAME, "the name")?.unwrap_or_default().into(),
            hostname: hostname.into(),
            address: address_of(field, &["default_ip", "ip"]),
            address_v6: address_of(field, &["default_ipv6"]),
            traffic: optional(&["traffic"], "the traffic")?.and_then(|text| text.parse().ok()),
            state: state_of(&status),
            status: Some(Text::from(status)).filter(|status| !status.is_empty()),
            ordered: Ordered::take_from(&mut tags),
            tags,
            size: optional(&["boxsize_id", "offering_id"], "the id of the offer")?.map(Text::from),
            datacenter: optional(&["dcIdentifier", "datacenter_id"], "the datacenter")?.map(Text::from),
            group: group.and_then(|number| number.parse().ok()),
            is_manager: role.contains("master") || role.contains("manager"),
            created_at: optional(&["created_on"], "when it was made")?.and_then(|text| time_of(&text)),
            unread: None,
        })
    }

    /// One of a list. Of an account's servers most may be strangers', and one that is odd must not hide the others: it is
    /// there, under its id. A list with one that does not even say which it is could hide any.
    pub(super) fn read_or_named(field: &Field<'_, '_>) -> Result<Self, Fault> {
        Self::read(field).or_else(|fault| {
            let name = |keys: &[&'static str]| field.get_any(keys).scalar("the name").unwrap_or_default();
            let id = field.get_any(ID).scalar("the id of the server").map_err(malformed)?;
            Ok(Self {
                id: id.as_str().into(),
                number: field.get("id").scalar("the number").ok().and_then(|text| text.parse().ok()),
                name: name(NAME).into(),
                hostname: name(HOSTNAME).into(),
                address: None,
                address_v6: None,
                traffic: None,
                state: MachineState::Halted,
                status: None,
                ordered: None,
                tags: Labels::new(),
                size: None,
                datacenter: None,
                group: None,
                is_manager: false,
                created_at: None,
                unread: Some(fault.to_string()),
            })
        })
    }

    /// Whether it has this name. VPSie and Kubernetes do not agree on capital letters.
    pub(super) fn is_named(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(&self.name) || name.eq_ignore_ascii_case(&self.hostname)
    }

    /// Whether this is it: VPSie's own autoscaler knows some by their numbers only.
    pub(super) fn is(&self, id: &MachineId) -> bool {
        self.id == *id || self.number.is_some_and(|number| id.as_str().parse() == Ok(number))
    }

    /// Whether this is what a provider id calls it: nobody agrees on capital letters.
    pub(super) fn is_called(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.id.as_str()) || self.is(&name.into())
    }

    /// Whether it says nothing of what it is: some installations tell of nodes only who they are.
    pub(super) fn is_bare(&self) -> bool {
        self.group.is_none() && self.size.is_none()
    }

    /// The launch that it was bought for, as its tags say.
    pub(super) fn token(&self) -> Option<Token> {
        Token::of_tags(&self.tags)
    }
}

/// A machine that has none yet may say so with empty text.
fn address_of(field: &Field<'_, '_>, keys: &[&'static str]) -> Option<Text> {
    let member = field.get_any(keys);
    let text = member.is_present().then(|| member.scalar("the address").ok()).flatten();
    text.filter(|text| !text.is_empty()).map(Text::from)
}

/// A list, each item read.
pub(super) fn read_all<T>(
    list: &Field<'_, '_>,
    read: impl Fn(&Field<'_, '_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    list.items("a list").map_err(malformed)?.map(|item| read(&item)).collect()
}

/// Of what has a word that is not known only so much is known: it is there, and it costs.
fn state_of(status: &str) -> MachineState {
    match status.to_lowercase().as_str() {
        "" | "pending" | "creating" | "building" | "installing" | "provisioning" | "queued" => {
            MachineState::Pending
        }
        "stopping" | "deleting" | "terminating" => MachineState::Stopping,
        "deleted" | "terminated" => MachineState::Gone,
        "running" | "active" | "online" | "started" => MachineState::Running,
        _ => MachineState::Halted,
    }
}

fn tags_of(field: &Field<'_, '_>) -> Result<Labels, Fault> {
    let tags = field.get("tags");
    if !tags.is_present() {
        return Ok(Labels::new());
    }
    let texts = read_all(&tags, |tag| tag.scalar("a tag").map_err(malformed))?;
    Ok(texts
        .iter()
        .filter_map(|tag| tag.split_once('='))
        .map(|(key, value)| (key.into(), value.into()))
        .collect())
}

/// As in RFC 3339, or as databases write it.
fn time_of(text: &str) -> Option<Timestamp> {
    let civil = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    text.parse().ok().or_else(civil)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn odd_servers_hide_no_others() {
        let names = |value: &Value| match Server::read_or_named(&Field::root(value)) {
            Ok(server) => {
                let unread = server.unread.as_deref().map_or("read", |_| "unread");
                format!("{} {:?} {} {unread}", server.id, server.number, server.hostname)
            }
            Err(fault) => fault.to_string(),
        };
        for (value, expected) in [
            (json!({"id": 7, "hostname": "n-1", "tags": ["a"]}), "7 Some(7) n-1 read"),
            (
                json!({"id": 7, "identifier": "abc", "hostname": "n-1", "tags": {"a": 1}}),
                "abc Some(7) n-1 unread",
            ),
            (json!({"id": "abc", "hostname": {}, "tags": [{}]}), "abc None  unread"),
            (
                json!({"identifier": {}, "id": 7}),
                "the answer is not what it should be: identifier: is an object; write the id of the server",
            ),
        ] {
            assert_eq!(names(&value), expected, "{value}");
        }
    }

    fn read(value: &Value) -> String {
        match Server::read(&Field::root(value)) {
            Ok(s) => format!(
                "{} {} {:?} {:?} {:?} {:?} {:?} {} {:?}",
                s.id,
                s.hostname,
                s.state,
                s.token().map(|token| token.to_string()),
                s.size.as_deref(),
                s.datacenter.as_deref(),
                s.group,
                s.is_manager,
                s.created_at.map(|at| at.to_string())
            ),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn servers() {
        for (value, expected) in [
            (
                json!({"id": 7, "identifier": "abc", "hostname": "n-1", "status": "running", "boxsize_id": 3, "dcIdentifier": "dc",
                       "tags": ["x", "berth.dev/claim-uid=t-1"], "created_on": "2026-01-01T00:00:00Z"}),
                r#"abc n-1 Running Some("t-1") Some("3") Some("dc") None false Some("2026-01-01T00:00:00Z")"#,
            ),
            (
                json!({"id": 7, "group_id": "12", "role": "slave", "created_on": "2026-01-01 00:00:00"}),
                r#"7  Pending None None None Some(12) false Some("2026-01-01T00:00:00Z")"#,
            ),
            (
                json!({"id": 7, "role": "Master", "status": "Active"}),
                "7  Running None None None None true None",
            ),
            (json!({"id": 7, "status": "suspended"}), "7  Halted None None None None false None"),
            (json!({"id": 7, "status": "error"}), "7  Halted None None None None false None"),
            (
                json!({"hostname": "x"}),
                "the answer is not what it should be: identifier: is missing; write the id of the server",
            ),
            (
                json!({"id": {}}),
                "the answer is not what it should be: id: is an object; write the id of the server",
            ),
            (
                json!({"id": 1, "tags": [{}]}),
                "the answer is not what it should be: tags[0]: is an object; write a tag",
            ),
            (
                json!({"id": 1, "tags": 5}),
                "the answer is not what it should be: tags: is a number; write a list",
            ),
        ] {
            assert_eq!(read(&value), expected, "{value}");
        }
    }

    #[test]
    fn segments_hold_anything() {
        for (text, expected) in [("a-B_1.~", "a-B_1.~"), ("../x", "..%2Fx"), ("a b?c#d%", "a%20b%3Fc%23d%25")]
        {
            assert_eq!(segment(text), expected);
        }
    }
}
