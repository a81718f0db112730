//! Network policies, and the networks that they name.

use std::net::IpAddr;

use super::faults::{Faults, items, number, text};
use super::networking::{port_name, port_number};
use crate::json::Value;

/// What is wrong with a policy. Networks that it had before are let be.
pub(super) fn spec(faults: &mut Faults, spec: &Value, known: &[&str]) {
    faults.label_selector("spec.podSelector", &spec["podSelector"]);
    for (way, side) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in items(&spec[way]) {
            let path = format!("spec.{way}[{at}]");
            for (at, of_port) in items(&rule["ports"]) {
                port(faults, &format!("{path}.ports[{at}]"), of_port);
            }
            for (at, of_peer) in items(&rule[side]) {
                peer(faults, &format!("{path}.{side}[{at}]"), of_peer, known);
            }
        }
    }
    let (types, ways) = (&spec["policyTypes"], ["Ingress", "Egress"]);
    if items(types).count() > ways.len() {
        return faults.invalid("spec.policyTypes", types, "may not specify more than two policyTypes");
    }
    for (at, way) in items(types) {
        if !ways.contains(&way.as_str().unwrap_or_default()) {
            faults.not_supported(&format!("spec.policyTypes[{at}]"), way, &ways);
        }
    }
}

/// All networks that a policy names.
pub(super) fn networks(spec: &Value) -> Vec<&str> {
    let peers = [("ingress", "from"), ("egress", "to")].into_iter().flat_map(|(way, side)| {
        items(&spec[way]).flat_map(move |(_, rule)| items(&rule[side])).map(|(_, peer)| &peer["ipBlock"])
    });
    let named = peers.flat_map(|block| {
        std::iter::once(&block["cidr"]).chain(items(&block["except"]).map(|(_, network)| network))
    });
    named.filter_map(Value::as_str).collect()
}

fn port(faults: &mut Faults, path: &str, of_port: &Value) {
    let (protocol, supported) = (&of_port["protocol"], ["TCP", "UDP", "SCTP"]);
    if !protocol.is_null() && !supported.contains(&protocol.as_str().unwrap_or_default()) {
        faults.not_supported(&format!("{path}.protocol"), protocol, &supported);
    }
    let (first, last) = (&of_port["port"], &of_port["endPort"]);
    let (at_first, at_last) = (format!("{path}.port"), format!("{path}.endPort"));
    match first {
        Value::Null => {
            if !last.is_null() {
                faults.invalid(&at_last, last, "may not be specified when `port` is not specified");
            }
        }
        Value::String(name) => {
            if !last.is_null() {
                faults.invalid(&at_last, last, "may not be specified when `port` is non-numeric");
            }
            port_name(faults, &at_first, name);
        }
        _ => {
            port_number(faults, &at_first, first);
            if !last.is_null() {
                if number(last) < number(first) {
                    faults.invalid(&at_last, first, "must be greater than or equal to `port`");
                }
                port_number(faults, &at_last, last);
            }
        }
    }
}

fn peer(faults: &mut Faults, path: &str, peer: &Value, known: &[&str]) {
    let selectors = ["podSelector", "namespaceSelector"].into_iter().filter(|field| !peer[field].is_null());
    for field in selectors.clone() {
        faults.label_selector(&format!("{path}.{field}"), &peer[field]);
    }
    let block = &peer["ipBlock"];
    if !block.is_null() {
        ip_block(faults, &format!("{path}.ipBlock"), block, known);
    }
    match (selectors.count(), block.is_null()) {
        (0, true) => faults.required(path, "must specify a peer"),
        (1.., false) => faults.forbidden(path, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn ip_block(faults: &mut Faults, path: &str, block: &Value, known: &[&str]) {
    let written = text(block, "cidr");
    if written.is_empty() {
        return faults.required(&format!("{path}.cidr"), "");
    }
    let Some(whole) = network(faults, &format!("{path}.cidr"), written, known) else { return };
    for (at, except) in items(&block["except"]) {
        let (field, written) = (format!("{path}.except[{at}]"), except.as_str().unwrap_or_default());
        let Some(part) = network(faults, &field, written, known) else { continue };
        if !whole.holds(part) || whole.bits >= part.bits {
            faults.invalid_text(&field, written, "must be a strict subset of `cidr`");
        }
    }
}

fn network(faults: &mut Faults, field: &str, written: &str, known: &[&str]) -> Option<Network> {
    let read = Network::parse(written);
    let why = match &read {
        _ if known.contains(&written) => None,
        None => Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        Some((_, Written::WithLeadingZeros)) => Some("must not have leading 0s in IP or prefix length"),
        Some((network, Written::Plainly)) => network.problem(),
    };
    if let Some(why) = why {
        faults.invalid_text(field, written, why);
    }
    read.map(|(network, _)| network)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    /// So many bits of the address are the network's.
    bits: u32,
}

/// Numbers with leading zeros are octal for some programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Plainly,
    WithLeadingZeros,
}

impl Network {
    fn parse(text: &str) -> Option<(Self, Written)> {
        let (address, bits) = text.split_once('/')?;
        let plain_address = if address.contains(':') {
            address.to_owned()
        } else {
            address.split('.').map(plain).collect::<Vec<_>>().join(".")
        };
        let plain_bits = plain(bits);
        let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let network = Self {
            address: plain_address.parse().ok()?,
            bits: plain_bits.parse().ok().filter(|_| is_number)?,
        };
        let is_plain = plain_address == address && plain_bits == bits;
        let written = if is_plain { Written::Plainly } else { Written::WithLeadingZeros };
        (network.bits <= network.width()).then_some((network, written))
    }

    fn width(self) -> u32 {
        if self.address.is_ipv4() { u32::BITS } else { u128::BITS }
    }

    fn number(self) -> u128 {
        match self.address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    /// What the first so many bits of an address of this width are.
    fn first_bits(self, bits: u32) -> u128 {
        self.number().checked_shr(self.width() - bits).unwrap_or(0)
    }

    fn holds(self, other: Self) -> bool {
        self.width() == other.width()
            && self.first_bits(self.bits) == other.first_bits(self.bits.min(other.bits))
    }

    fn problem(self) -> Option<&'static str> {
        if matches!(self.address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
            return Some("must not have an IPv4-mapped IPv6 address");
        }
        let rest = self.width() - self.bits;
        let is_whole = self.first_bits(self.bits).checked_shl(rest).unwrap_or(0) == self.number();
        (!is_whole).then_some("must not have bits set beyond the prefix length")
    }
}

/// A number without the zeros before it.
fn plain(number: &str) -> &str {
    let rest = number.trim_start_matches('0');
    if rest.is_empty() && !number.is_empty() { "0" } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_as_the_server_reads_them() {
        for (text, expected) in [
            ("10.0.0.0/8", Some((8, Written::Plainly, None))),
            ("0.0.0.0/0", Some((0, Written::Plainly, None))),
            ("::/0", Some((0, Written::Plainly, None))),
            ("2001:db8::/32", Some((32, Written::Plainly, None))),
            (
                "10.1.0.0/8",
                Some((8, Written::Plainly, Some("must not have bits set beyond the prefix length"))),
            ),
            (
                "::ffff:1.2.3.4/128",
                Some((128, Written::Plainly, Some("must not have an IPv4-mapped IPv6 address"))),
            ),
            ("010.0.0.0/8", Some((8, Written::WithLeadingZeros, None))),
            ("10.0.0.0/08", Some((8, Written::WithLeadingZeros, None))),
            ("10.0.0.0", None),
            ("10.0.0.0/33", None),
            ("10.0.0/8", None),
            ("10.0.0.0/+8", None),
            ("10.0.0.0/", None),
            ("::/129", None),
            ("", None),
        ] {
            let read =
                Network::parse(text).map(|(network, written)| (network.bits, written, network.problem()));
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn networks_hold_their_parts() {
        for (whole, part, expected) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("0.0.0.0/0", "11.0.0.0/16", true),
            ("::/0", "2001:db8::/32", true),
            ("0.0.0.0/0", "::/0", false),
            ("10.1.0.0/16", "10.0.0.0/8", false),
        ] {
            let [whole_network, part_network] = [whole, part].map(|text| Network::parse(text).unwrap().0);
            assert_eq!(whole_network.holds(part_network), expected, "{whole} {part}");
        }
    }
}
