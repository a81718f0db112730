//! Which new node of a group is whose, where VPSie does not say.

use jiff::Timestamp;

use crate::machine::{MachineId, Token};

/// A launch that may have been sent, and whose node is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) token: Token,
    pub(super) noted_at: Timestamp,
    /// Nobody wants its node any more.
    pub(super) is_given_up: bool,
    /// Nodes that came after it was noted and are nobody's, the oldest first.
    pub(super) candidates: Vec<MachineId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Assigned {
    Node(MachineId),
    /// None that could be its node is left.
    None,
    /// There are more new nodes than launches: somebody else adds some too, and which are theirs cannot be known.
    Crowd {
        nodes: usize,
        launches: usize,
    },
}

/// The node of a launch, given all launches of the group that wait.
///
/// Nodes of a group are alike, so it does not matter which launch gets which, only that none gets two, no node goes to
/// two, and a launch gets none that was there before it. Whoever was noted later knew more nodes and has fewer to choose
/// from, so whoever has the fewest chooses first; then every node finds a launch if there is a way. A launch that was
/// given up comes after all others: it may never have been sent, and would take the node that somebody waits for.
pub(super) fn assigned(token: &Token, waiting: &[Waiting]) -> Assigned {
    let Some(own) = waiting.iter().find(|launch| launch.token == *token) else { return Assigned::None };
    if own.candidates.len() > waiting.len() {
        return Assigned::Crowd { nodes: own.candidates.len(), launches: waiting.len() };
    }
    let mut order: Vec<&Waiting> = waiting.iter().collect();
    order.sort_by_key(|launch| {
        (launch.is_given_up, launch.candidates.len(), launch.noted_at, launch.token.clone())
    });
    let mut gone: Vec<&MachineId> = Vec::new();
    for launch in order {
        let Some(node) = launch.candidates.iter().find(|node| !gone.contains(node)) else { continue };
        if launch.token == *token {
            return Assigned::Node(node.clone());
        }
        gone.push(node);
    }
    Assigned::None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a1: x y` is the launch `a`, noted in second 1, with these candidates. `A` has been given up.
    fn waiting(text: &str) -> Vec<Waiting> {
        let launch = |text: &str| {
            let (name, candidates) = text.split_once(':').unwrap();
            let (token, second) = name.trim().split_at(1);
            Waiting {
                token: Token::parse(token).unwrap(),
                noted_at: Timestamp::from_second(second.parse().unwrap()).unwrap(),
                is_given_up: token.chars().all(char::is_uppercase),
                candidates: candidates.split_whitespace().map(MachineId::from).collect(),
            }
        };
        text.split(',').map(launch).collect()
    }

    #[test]
    fn nodes_go_to_launches() {
        for (launches, expected) in [
            ("a1: x", "a=x"),
            ("a1: ", "a=-"),
            ("a1: x y", "a=?"),
            ("a1: x y, b1: x y", "a=x b=y"),
            ("b1: x y, a2: x y", "b=x a=y"),
            ("a1: x y, b2: y", "a=x b=y"),
            ("a1: y x, b2: y", "a=x b=y"),
            ("a1: x, b1: x", "a=x b=-"),
            ("a1: x y z, b1: x y z", "a=? b=?"),
            ("a1: x y z, b2: y z, c3: z", "a=x b=y c=z"),
            ("a1: x y z, b2: y z", "a=? b=y"),
            ("A1: x, b2: x", "A=- b=x"),
            ("A1: x y, b2: x y", "A=y b=x"),
            ("A1: x y, b2: y", "A=x b=y"),
            ("A1: x", "A=x"),
        ] {
            let waiting = waiting(launches);
            let found = waiting.iter().map(|launch| {
                let node = match assigned(&launch.token, &waiting) {
                    Assigned::Node(node) => node.to_string(),
                    Assigned::None => "-".to_owned(),
                    Assigned::Crowd { .. } => "?".to_owned(),
                };
                format!("{}={node}", launch.token)
            });
            assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{launches}");
        }
        assert_eq!(assigned(&Token::parse("z").unwrap(), &waiting("a1: x")), Assigned::None);
    }
}
