//! How the cluster was seen so far, and what of that is worth a line of the log.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::Problem;
use tokio::time::Instant;

use crate::watched::BlindSpot;

/// What is wrong for so long is worth a line of the log: at the start nothing is seen.
const TOLD_AFTER: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default)]
pub(crate) struct Seeing {
    /// All that is watched was seen, at least once.
    pub(crate) has_seen_all: bool,
    /// Since when something is not seen, be it watched, a cloud's, or an object that cannot be read.
    pub(crate) blind_since: Option<Instant>,
    blind: Troubles<&'static str>,
    problems: Troubles<Problem>,
}

impl Seeing {
    /// Takes what is not seen now, of what is watched and of all else, and what is wrong with objects.
    pub(crate) fn look(&mut self, watched: &[BlindSpot], others: &[BlindSpot], problems: &[Problem]) {
        let spots = || watched.iter().chain(others);
        self.has_seen_all |= watched.is_empty();
        self.blind_since = spots().next().is_some().then(|| self.blind_since.unwrap_or_else(Instant::now));
        let News { lasting, over } = self.blind.look(spots().map(|spot| spot.plural));
        for plural in over {
            tracing::info!(target: "berth::sight", "{plural} are seen again");
        }
        for spot in spots().filter(|spot| lasting.contains(&spot.plural)) {
            tracing::warn!(target: "berth::sight", "nothing is taken away: {spot}");
        }
        let News { lasting, over } = self.problems.look(problems.iter().cloned());
        for problem in over {
            tracing::info!(target: "berth::sight", "no longer so: {problem}");
        }
        for problem in lasting {
            tracing::warn!(target: "berth::sight", "{problem}");
        }
    }
}

/// What is wrong, since when, and whether that was told.
#[derive(Clone, Debug)]
struct Troubles<K>(BTreeMap<K, (Instant, bool)>);

impl<K> Default for Troubles<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// What is to be told of troubles.
struct News<K> {
    /// Those that have lasted for long enough.
    lasting: Vec<K>,
    /// Those that were told and are over.
    over: Vec<K>,
}

impl<K: Ord + Clone> Troubles<K> {
    /// Takes those that there are now. Each is told once, for as long as it lasts.
    fn look(&mut self, current: impl Iterator<Item = K>) -> News<K> {
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.0);
        let mut lasting = Vec::new();
        for trouble in current {
            let (since, is_told) = before.remove(&trouble).unwrap_or((now, false));
            let is_lasting = now.duration_since(since) >= TOLD_AFTER;
            if is_lasting && !is_told {
                lasting.push(trouble.clone());
            }
            self.0.entry(trouble).or_insert((since, is_lasting));
        }
        let over = before.into_iter().filter(|(_, (_, is_told))| *is_told).map(|(trouble, _)| trouble);
        News { lasting, over: over.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What does not last is not told, what lasts is told once, and its end as well.
    #[tokio::test(start_paused = true)]
    async fn troubles_are_told_once() {
        let mut troubles = Troubles::default();
        for (current, lasting, over) in [
            (&["pods", "nodes"][..], &[][..], &[][..]),
            (&["pods"], &[], &[]),
            (&["pods", "nodes"], &["pods"], &[]),
            (&["pods", "nodes", "nodes"], &[], &[]),
            (&["nodes"], &["nodes"], &["pods"]),
            (&[], &[], &["nodes"]),
            (&["nodes"], &[], &[]),
        ] {
            let news = troubles.look(current.iter().copied());
            assert_eq!((&*news.lasting, &*news.over), (lasting, over), "{current:?}");
            tokio::time::advance(TOLD_AFTER / 2).await;
        }
    }
}
