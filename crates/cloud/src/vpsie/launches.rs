//! What this process knows of launches. It saves time; what safety needs is in the notes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::note::{Aim, Memo, Target};
use crate::machine::{Machine, MachineId, Note, Token};
use crate::provider::Unavailable;

/// Longer than any launch takes to be found.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(1);

/// A machine that was found stands on its claim by then, or never will: another leader has found another for it.
const WRITTEN_WITHIN: SignedDuration = SignedDuration::from_mins(2);

/// Lists that lie do so for a moment.
const LOOKS_APART: SignedDuration = SignedDuration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Launches {
    known: BTreeMap<Token, Launch>,
    /// What a token's launches could not have, so that the next one tries something else.
    passed_over: BTreeMap<Token, Vec<Unavailable>>,
}

#[derive(Clone, Debug)]
enum Launch {
    Noted(Noted),
    Found { machine: Machine, found_at: Timestamp },
}

/// A launch of which no machine is known.
#[derive(Clone, Debug)]
struct Noted {
    note: Note,
    memo: Memo,
    stage: Stage,
    /// When its machine was first looked for in vain, late enough for that to mean something.
    missed_at: Option<Timestamp>,
    /// Since when its machine is looked for only so that it can be ended.
    given_up_at: Option<Timestamp>,
    /// Since when there is no launch of another group that could have got what does not say where it is.
    alone_since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Noted here, and certainly not sent.
    Prepared,
    /// Sent, or perhaps sent by somebody else.
    Sent,
    /// Nothing came of it, for certain.
    Void,
}

/// What to do with an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nobody has sent it, and nobody but the caller will.
    Send,
    /// It may have been sent: look for its machine.
    Look,
    Found(Box<Machine>),
    Void,
}

impl Launches {
    /// A note was made, and will perhaps be written down. One that may have been sent is not forgotten for it.
    pub(super) fn prepared(&mut self, token: &Token, note: &Note, memo: Memo) {
        self.forget_before(memo.noted_at);
        let may_be_out = match self.known.get(token) {
            None => false,
            Some(Launch::Noted(noted)) => noted.stage == Stage::Sent,
            Some(Launch::Found { .. }) => true,
        };
        if !may_be_out {
            self.insert(token, note, memo, Stage::Prepared);
        }
    }

    /// Whether `begin` would say to send it.
    pub(super) fn is_unsent(&self, token: &Token, note: &Note) -> bool {
        match self.known.get(token) {
            Some(Launch::Noted(noted)) => noted.note == *note && noted.stage == Stage::Prepared,
            Some(Launch::Found { .. }) | None => false,
        }
    }

    /// Whoever is told to send has sent, as far as everybody else is concerned.
    /// What others have taken meanwhile was not found after all.
    pub(super) fn begin(
        &mut self,
        token: &Token,
        note: &Note,
        memo: &Memo,
        taken: &BTreeSet<MachineId>,
    ) -> Turn {
        let stage = match self.known.get(token) {
            Some(Launch::Found { machine, .. }) if !taken.contains(&machine.id) => {
                return Turn::Found(Box::new(machine.clone()));
            }
            Some(Launch::Noted(noted)) if noted.note == *note => noted.stage,
            Some(_) | None => Stage::Sent,
        };
        let turn = match stage {
            Stage::Void => return Turn::Void,
            Stage::Prepared => Turn::Send,
            Stage::Sent => Turn::Look,
        };
        self.insert(token, note, memo.clone(), Stage::Sent);
        turn
    }

    fn insert(&mut self, token: &Token, note: &Note, memo: Memo, stage: Stage) {
        let (missed_at, given_up_at, alone_since) = match self.known.get(token) {
            Some(Launch::Noted(before)) if before.note == *note => {
                (before.missed_at, before.given_up_at, before.alone_since)
            }
            _ => (None, None, None),
        };
        let noted = Noted { note: note.clone(), memo, stage, missed_at, given_up_at, alone_since };
        self.known.insert(token.clone(), Launch::Noted(noted));
    }

    /// What was noted long ago says no more than its note does: whoever asks for it again is answered from that.
    fn forget_before(&mut self, now: Timestamp) {
        self.known.retain(|_, launch| match launch {
            Launch::Noted(noted) => now.duration_since(noted.memo.noted_at) < KEPT_FOR,
            Launch::Found { .. } => true,
        });
        let known = &self.known;
        self.passed_over.retain(|token, _| known.contains_key(token));
    }

    /// It was not sent after all, if it is not known what came of it.
    pub(super) fn unsent(&mut self, token: &Token) {
        if let Some(Launch::Noted(noted)) = self.known.get_mut(token)
            && noted.stage == Stage::Sent
        {
            noted.stage = Stage::Prepared;
        }
    }

    /// Its machine was looked for in vain. Whether that was so some time before as well: one list may be a lie.
    pub(super) fn missed(&mut self, token: &Token, looked_at: Timestamp) -> bool {
        match self.known.get_mut(token) {
            Some(Launch::Noted(noted)) => {
                let first = *noted.missed_at.get_or_insert(looked_at);
                looked_at.duration_since(first) >= LOOKS_APART
            }
            Some(Launch::Found { .. }) | None => false,
        }
    }

    /// Nobody wants its machine any more. Whether that was so some time before as well: those who want one have been
    /// heard by then.
    pub(super) fn given_up(&mut self, token: &Token, looked_at: Timestamp) -> bool {
        match self.known.get_mut(token) {
            Some(Launch::Noted(noted)) => {
                let first = *noted.given_up_at.get_or_insert(looked_at);
                looked_at.duration_since(first) >= LOOKS_APART
            }
            Some(Launch::Found { .. }) | None => true,
        }
    }

    /// Whether all launches that wait are of one group, and were some time before as well: those of a process that has
    /// ended have been heard by then. Nodes that do not say where they are can only have come of these.
    pub(super) fn waits_alone(&mut self, token: &Token, target: &Target, looked_at: Timestamp) -> bool {
        let is_same = |other: &Target| other.size == target.size && other.datacenter == target.datacenter;
        let is_alone =
            self.waiting().all(|(_, memo, _)| matches!(&memo.aim, Aim::Node(other) if is_same(other)));
        let Some(Launch::Noted(noted)) = self.known.get_mut(token) else { return false };
        if !is_alone {
            noted.alone_since = None;
            return false;
        }
        let first = *noted.alone_since.get_or_insert(looked_at);
        looked_at.duration_since(first) >= LOOKS_APART
    }

    pub(super) fn void(&mut self, token: &Token) {
        self.set(token, Stage::Void);
    }

    pub(super) fn found(&mut self, token: &Token, machine: &Machine, found_at: Timestamp) {
        self.known.insert(token.clone(), Launch::Found { machine: machine.clone(), found_at });
    }

    fn set(&mut self, token: &Token, stage: Stage) {
        if let Some(Launch::Noted(noted)) = self.known.get_mut(token) {
            noted.stage = stage;
        }
    }

    pub(super) fn pass_over(&mut self, token: &Token, lacking: Unavailable) {
        self.passed_over.entry(token.clone()).or_default().push(lacking);
    }

    pub(super) fn passed_over(&self, token: &Token) -> &[Unavailable] {
        self.passed_over.get(token).map_or(&[], Vec::as_slice)
    }

    /// They are told to whoever ordered; should there be another launch, it may try everything again.
    pub(super) fn take_passed_over(&mut self, token: &Token) -> Vec<Unavailable> {
        self.passed_over.remove(token).unwrap_or_default()
    }

    /// The launches that may have been sent and whose machine is not known, and whether they were given up.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&Token, &Memo, bool)> {
        self.known.iter().filter_map(|(token, launch)| match launch {
            Launch::Noted(noted) if noted.stage == Stage::Sent => {
                Some((token, &noted.memo, noted.given_up_at.is_some()))
            }
            _ => None,
        })
    }

    /// What a launch of this process has got, as it was then.
    pub(super) fn machine(&self, id: &MachineId) -> Option<&Machine> {
        self.machines().map(|(machine, _)| machine).find(|machine| machine.id == *id)
    }

    /// All that launches of this process have got and that perhaps does not stand on their claims yet.
    pub(super) fn claimed(&self, now: Timestamp) -> BTreeSet<MachineId> {
        let is_new = |found_at: Timestamp| now.duration_since(found_at) < WRITTEN_WITHIN;
        let new = self.machines().filter(|(_, found_at)| is_new(*found_at));
        new.map(|(machine, _)| machine.id.clone()).collect()
    }

    fn machines(&self) -> impl Iterator<Item = (&Machine, Timestamp)> {
        self.known.values().filter_map(|launch| match launch {
            Launch::Found { machine, found_at } => Some((machine, *found_at)),
            Launch::Noted(_) => None,
        })
    }

    /// The machine is gone, and nobody will ask for it again.
    pub(super) fn forget(&mut self, id: &MachineId) {
        self.known.retain(|_, launch| !matches!(launch, Launch::Found { machine, .. } if machine.id == *id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineState;
    use berth_core::catalog::CapacityType;
    use berth_core::names::Labels;
    use berth_core::units::Price;

    fn machine() -> Machine {
        Machine {
            id: "m".into(),
            provider_id: "".into(),
            token: None,
            name: "".into(),
            address: None,
            instance_type: "".into(),
            zone: "".into(),
            capacity_type: CapacityType::OnDemand,
            price: Price::ZERO,
            state: MachineState::Pending,
            tags: Labels::new(),
            launched_at: Timestamp::UNIX_EPOCH,
            extras: Box::default(),
        }
    }

    #[test]
    fn what_was_noted_long_ago_is_forgotten() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let memo = |second: i64| Memo { noted_at: at(second), maker: 1, aim: Aim::Tagged };
        let [old, found, new] = ["old", "found", "new"].map(|token| Token::parse(token).unwrap());
        let note = Note("1".into());
        let mut launches = Launches::default();
        launches.prepared(&old, &note, memo(0));
        launches.prepared(&found, &note, memo(0));
        launches.found(&found, &machine(), at(3600));
        launches.prepared(&new, &note, memo(3599));
        assert!(launches.is_unsent(&old, &note));
        launches.prepared(&new, &note, memo(3600));
        assert!(!launches.is_unsent(&old, &note) && launches.is_unsent(&new, &note));
        assert_eq!((launches.claimed(at(3719)).len(), launches.claimed(at(3720)).len()), (1, 0));
    }

    #[test]
    fn bare_nodes_are_for_launches_of_one_group() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let target =
            |size: &str| Target { size: size.into(), datacenter: "d".into(), known: BTreeSet::new() };
        let note = Note("1".into());
        let mut launches = Launches::default();
        let begin = |launches: &mut Launches, token: &str, size: &str| {
            let token = Token::parse(token).unwrap();
            let memo = Memo { noted_at: at(0), maker: 1, aim: Aim::Node(target(size)) };
            launches.begin(&token, &note, &memo, &BTreeSet::new());
            token
        };
        let first = begin(&mut launches, "first", "1");
        assert!(!launches.waits_alone(&first, &target("1"), at(10)), "others may not have been heard");
        begin(&mut launches, "alike", "1");
        assert!(launches.waits_alone(&first, &target("1"), at(40)));
        let other = begin(&mut launches, "other", "2");
        assert!(!launches.waits_alone(&first, &target("1"), at(50)));
        launches.void(&other);
        assert!(!launches.waits_alone(&first, &target("1"), at(60)));
        assert!(launches.waits_alone(&first, &target("1"), at(90)));
    }

    #[test]
    fn missed_twice_is_missing() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let [token, other] = ["t", "other"].map(|token| Token::parse(token).unwrap());
        let memo = Memo { noted_at: at(0), maker: 1, aim: Aim::Tagged };
        let [note, next] = ["1", "2"].map(|note| Note(note.into()));
        let mut launches = Launches::default();
        for (note, looked_at, expected) in [
            (&note, 10, false),
            (&note, 10, false),
            (&note, 39, false),
            (&note, 40, true),
            (&next, 50, false),
        ] {
            launches.begin(&token, note, &memo, &BTreeSet::new());
            assert_eq!(launches.missed(&token, at(looked_at)), expected, "{looked_at}");
        }
        assert!(!launches.missed(&other, at(99)));
    }

    /// Acts on one token, with the note 1 or 2: what each `begin` says.
    #[test]
    fn lives() {
        for (acts, expected) in [
            ("prepare1 begin1 begin1", "send look"),
            ("begin1 begin1", "look look"),
            ("prepare1 begin2", "look"),
            ("prepare1 prepare2 begin1", "look"),
            ("prepare1 prepare2 begin2", "send"),
            ("prepare1 begin1 unsent begin1", "send send"),
            ("prepare1 begin1 found begin1 begin2", "send found found"),
            ("prepare1 begin1 found prepare2 begin2", "send found"),
            ("prepare1 begin1 prepare2 begin2", "send look"),
            ("prepare1 begin1 void begin1 prepare2 begin2", "send void send"),
            ("prepare1 begin1 void begin2", "send look"),
            ("prepare1 begin1 found forget begin1", "send look"),
            ("prepare1 begin1 found taken begin1 begin1", "send look look"),
        ] {
            let token = Token::parse("t").unwrap();
            let memo = Memo { noted_at: Timestamp::UNIX_EPOCH, maker: 1, aim: Aim::Tagged };
            let (mut launches, mut taken) = (Launches::default(), BTreeSet::new());
            let mut said = Vec::new();
            for act in acts.split(' ') {
                let note = Note(act.chars().last().map(String::from).unwrap().into());
                match act.trim_end_matches(|c: char| c.is_ascii_digit()) {
                    "prepare" => launches.prepared(&token, &note, memo.clone()),
                    "unsent" => launches.unsent(&token),
                    "void" => launches.void(&token),
                    "found" => launches.found(&token, &machine(), Timestamp::UNIX_EPOCH),
                    "taken" => drop(taken.insert("m".into())),
                    "forget" => launches.forget(&"m".into()),
                    _ => said.push(match launches.begin(&token, &note, &memo, &taken) {
                        Turn::Send => "send",
                        Turn::Look => "look",
                        Turn::Found(_) => "found",
                        Turn::Void => "void",
                    }),
                }
            }
            assert_eq!(said.join(" "), expected, "{acts}");
        }
    }
}
