//! What this process knows of launches. It saves time; what safety needs is in the notes.

use std::collections::{BTreeMap, BTreeSet};

use super::note::Memo;
use crate::machine::{Machine, MachineId, Note, Token};
use crate::provider::Unavailable;

#[derive(Debug, Default)]
pub(super) struct Launches {
    known: BTreeMap<Token, Launch>,
    /// What a token's launches could not have, so that the next one tries something else.
    passed_over: BTreeMap<Token, Vec<Unavailable>>,
}

#[derive(Clone, Debug)]
struct Launch {
    note: Note,
    memo: Memo,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Noted here, and certainly not sent.
    Prepared,
    /// Sent, or perhaps sent by somebody else.
    Sent,
    Found(Machine),
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
        let may_be_out =
            self.known.get(token).is_some_and(|launch| matches!(launch.stage, Stage::Sent | Stage::Found(_)));
        if !may_be_out {
            let launch = Launch { note: note.clone(), memo, stage: Stage::Prepared };
            self.known.insert(token.clone(), launch);
        }
    }

    /// Whether `begin` would say to send it.
    pub(super) fn is_unsent(&self, token: &Token, note: &Note) -> bool {
        let launch = self.known.get(token).filter(|launch| launch.note == *note);
        launch.is_some_and(|launch| matches!(launch.stage, Stage::Prepared))
    }

    /// Whoever is told to send has sent, as far as everybody else is concerned.
    pub(super) fn begin(&mut self, token: &Token, note: &Note, memo: &Memo) -> Turn {
        let known = self.known.get(token);
        let same_note = known.is_some_and(|launch| launch.note == *note);
        let turn = match known.map(|launch| &launch.stage) {
            Some(Stage::Found(machine)) => return Turn::Found(Box::new(machine.clone())),
            Some(Stage::Void) if same_note => return Turn::Void,
            Some(Stage::Prepared) if same_note => Turn::Send,
            _ => Turn::Look,
        };
        let launch = Launch { note: note.clone(), memo: memo.clone(), stage: Stage::Sent };
        self.known.insert(token.clone(), launch);
        turn
    }

    /// It was not sent after all.
    pub(super) fn unsent(&mut self, token: &Token) {
        self.set(token, Stage::Prepared);
    }

    pub(super) fn void(&mut self, token: &Token) {
        self.set(token, Stage::Void);
    }

    pub(super) fn found(&mut self, token: &Token, machine: &Machine) {
        self.set(token, Stage::Found(machine.clone()));
    }

    fn set(&mut self, token: &Token, stage: Stage) {
        if let Some(launch) = self.known.get_mut(token) {
            launch.stage = stage;
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

    /// The launches that may have been sent and whose machine is not known.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&Token, &Memo)> {
        let sent = self.known.iter().filter(|(_, launch)| matches!(launch.stage, Stage::Sent));
        sent.map(|(token, launch)| (token, &launch.memo))
    }

    pub(super) fn token_of(&self, id: &MachineId) -> Option<&Token> {
        self.machines().find(|(_, machine)| machine.id == *id).map(|(token, _)| token)
    }

    /// All that launches of this process have got.
    pub(super) fn claimed(&self) -> BTreeSet<MachineId> {
        self.machines().map(|(_, machine)| machine.id.clone()).collect()
    }

    fn machines(&self) -> impl Iterator<Item = (&Token, &Machine)> {
        self.known.iter().filter_map(|(token, launch)| match &launch.stage {
            Stage::Found(machine) => Some((token, machine)),
            _ => None,
        })
    }

    /// The machine is gone, and nobody will ask for it again.
    pub(super) fn forget(&mut self, id: &MachineId) {
        self.known.retain(|_, launch| !matches!(&launch.stage, Stage::Found(machine) if machine.id == *id));
    }
}

#[cfg(test)]
mod tests {
    use berth_core::catalog::CapacityType;
    use berth_core::names::Labels;
    use berth_core::units::Price;
    use jiff::Timestamp;

    use super::super::note::Aim;
    use super::*;
    use crate::machine::MachineState;

    fn machine() -> Machine {
        Machine {
            id: "m".into(),
            provider_id: "".into(),
            token: None,
            name: "".into(),
            instance_type: "".into(),
            zone: "".into(),
            capacity_type: CapacityType::OnDemand,
            price: Price::ZERO,
            state: MachineState::Pending,
            tags: Labels::new(),
            launched_at: Timestamp::UNIX_EPOCH,
        }
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
        ] {
            let token = Token::parse("t").unwrap();
            let memo = Memo { noted_at: Timestamp::UNIX_EPOCH, aim: Aim::Tagged };
            let mut launches = Launches::default();
            let mut said = Vec::new();
            for act in acts.split(' ') {
                let note = Note(act.chars().last().map(String::from).unwrap().into());
                match act.trim_end_matches(|c: char| c.is_ascii_digit()) {
                    "prepare" => launches.prepared(&token, &note, memo.clone()),
                    "unsent" => launches.unsent(&token),
                    "void" => launches.void(&token),
                    "found" => launches.found(&token, &machine()),
                    "forget" => launches.forget(&"m".into()),
                    _ => said.push(match launches.begin(&token, &note, &memo) {
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
