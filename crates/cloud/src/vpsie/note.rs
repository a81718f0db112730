//! What is written down before a launch is sent, so that whoever comes after a crash can tell what became of it.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use berth_core::names::Text;
use jiff::Timestamp;

use crate::machine::{MachineId, Note};
use crate::provider::Refusal;

const VERSION: &str = "1";
const NOTHING: &str = "nothing";
const NAMED: &str = "named";
/// Makes notes of launches that another autoscaler has sent.
pub(super) const SOMEBODY_ELSE: u64 = 0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Memo {
    pub(super) noted_at: Timestamp,
    /// The process that made it: only it may send it, and another may note the same at the same time.
    pub(super) maker: u64,
    pub(super) aim: Aim,
}

/// How the machine of the launch will be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// By the token in its tags.
    Tagged,
    /// By its name: somebody else has asked for it, who knew no tokens. So it is in clusters, too, where it has
    /// become a node already, or is not sold any more.
    Named,
    /// It is a node of this size that was not there before.
    Node(Target),
    /// None of what was ordered is offered, so nothing is sent.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) size: Text,
    pub(super) datacenter: Text,
    /// The nodes that the group had: a number for each, because their ids would make a claim large.
    pub(super) known: BTreeSet<u64>,
}

impl Target {
    pub(super) fn knew(&self, node: &MachineId) -> bool {
        self.known.contains(&number_of(node))
    }
}

/// A number for an id. Among a thousand nodes two have the same once in forty million million clusters.
pub(super) fn number_of(id: &MachineId) -> u64 {
    number_of_text(id.as_str())
}

/// FNV-1a.
pub(super) fn number_of_text(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Memo {
    pub(super) fn write(&self) -> Note {
        let head = format!("{VERSION}/{}-{:x}", self.noted_at.as_millisecond(), self.maker);
        let text = match &self.aim {
            Aim::Tagged => head,
            Aim::Named => format!("{head}/{NAMED}"),
            Aim::Nothing => format!("{head}/{NOTHING}"),
            Aim::Node(Target { size, datacenter, known }) => {
                let bytes: Vec<u8> = known.iter().flat_map(|number| number.to_be_bytes()).collect();
                format!("{head}/{size}/{datacenter}/{}", BASE64_STANDARD_NO_PAD.encode(bytes))
            }
        };
        Note(text.into())
    }

    pub(super) fn read(note: &Note) -> Result<Self, Refusal> {
        let memo = || {
            // The last part may hold slashes: they are digits of base 64.
            let parts: Vec<&str> = note.0.splitn(5, '/').collect();
            let aim = match parts.get(2..)? {
                [] => Aim::Tagged,
                [NAMED] => Aim::Named,
                [NOTHING] => Aim::Nothing,
                [size, datacenter, known] => Aim::Node(Target {
                    size: (*size).into(),
                    datacenter: (*datacenter).into(),
                    known: numbers(known)?,
                }),
                _ => return None,
            };
            let (millisecond, maker) = parts.get(1)?.split_once('-')?;
            let noted_at = Timestamp::from_millisecond(millisecond.parse().ok()?).ok()?;
            let maker = u64::from_str_radix(maker, 16).ok()?;
            (*parts.first()? == VERSION).then_some(Self { noted_at, maker, aim })
        };
        memo().ok_or_else(|| Refusal::Invalid(format!("`{}` is not a note of this cloud", note.0)))
    }
}

fn numbers(text: &str) -> Option<BTreeSet<u64>> {
    let bytes = BASE64_STANDARD_NO_PAD.decode(text).ok()?;
    let (whole, rest) = bytes.as_chunks::<8>();
    rest.is_empty().then(|| whole.iter().map(|bytes| u64::from_be_bytes(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let noted_at = Timestamp::from_millisecond(1_767_225_600_123).unwrap();
        let node = |known: &[&str]| {
            let known = known.iter().map(|id| number_of(&(*id).into())).collect();
            Aim::Node(Target { size: "7".into(), datacenter: "dc-1".into(), known })
        };
        let many: Vec<String> = (0..300).map(|n| format!("node-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for aim in [
            Aim::Tagged,
            Aim::Named,
            Aim::Nothing,
            node(&[]),
            node(&["a"]),
            node(&["a", "b", "c"]),
            node(&many),
        ] {
            let memo = Memo { noted_at, maker: 0xfeed, aim };
            assert_eq!(Memo::read(&memo.write()), Ok(memo.clone()), "{:?}", memo.write());
        }
        let Aim::Node(target) = node(&["a"]) else { unreachable!() };
        assert!(target.knew(&"a".into()) && !target.knew(&"b".into()));
    }

    #[test]
    fn other_notes_are_refused() {
        for text in [
            "",
            "1",
            "2/5-a",
            "1/5",
            "1/x-a",
            "1/5-x",
            "1/5-a/7",
            "1/5-a/7/dc",
            "1/5-a/7/dc/AAAA",
            "1/5-a/nothing/x",
        ] {
            let refusal = Memo::read(&Note(text.into())).unwrap_err();
            assert_eq!(refusal, Refusal::Invalid(format!("`{text}` is not a note of this cloud")));
        }
    }
}
