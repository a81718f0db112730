//! What has changed and is not seen yet.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Whatever has changed is seen by then, or not there any more, or its versions were set back.
const SEEN_WITHIN: Duration = Duration::from_mins(15);
/// With fewer nobody looks for those that are not there any more.
const SWEPT_FROM: usize = 1000;

/// Which version objects have at least, where that is newer than what was last seen of them.
#[derive(Debug, Default)]
pub(crate) struct Unseen {
    objects: BTreeMap<String, Known>,
    /// How many were left when they were last swept.
    left: usize,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    version: u64,
    since: Instant,
}

impl Unseen {
    /// Whether an object has a newer version than the one that is seen of it.
    pub(crate) fn is_behind(&mut self, object: &str, seen: &str) -> bool {
        let (Some(known), Ok(seen)) = (self.objects.get(object), seen.parse::<u64>()) else { return false };
        if known.version > seen && known.since.elapsed() < SEEN_WITHIN {
            return true;
        }
        self.objects.remove(object);
        false
    }

    /// An object, seen in this version, has this one now.
    pub(crate) fn learned(&mut self, object: &str, seen: &str, version: u64) {
        if seen.parse::<u64>().is_ok_and(|seen| version > seen) {
            let now = Instant::now();
            self.objects.insert(object.to_owned(), Known { version, since: now });
            if self.objects.len() > 2 * self.left.max(SWEPT_FROM) {
                self.objects.retain(|_, known| now.duration_since(known.since) < SEEN_WITHIN);
                self.left = self.objects.len();
            }
        }
    }
}

/// The newest version of anything. A cluster that was set back to an earlier state counts from there again.
#[derive(Debug, Default)]
pub(crate) struct Newest(Option<Known>);

impl Newest {
    pub(crate) fn version(&self) -> u64 {
        self.0.filter(|known| known.since.elapsed() < SEEN_WITHIN).map_or(0, |known| known.version)
    }

    pub(crate) fn learned(&mut self, version: u64) {
        if version >= self.version() {
            self.0 = Some(Known { version, since: Instant::now() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_behind_until_it_is_seen() {
        let mut unseen = Unseen::default();
        assert!(!unseen.is_behind("a", "7"));
        unseen.learned("a", "7", 9);
        let seen = ["7", "8", "9", "7"].map(|seen| unseen.is_behind("a", seen));
        assert_eq!(seen, [true, true, false, false], "once it is seen, it is forgotten");
        unseen.learned("a", "9", 9);
        assert!(!unseen.is_behind("a", "9"), "nothing was changed");
        unseen.learned("c", "no number", 9);
        assert!(!unseen.is_behind("c", "no number"), "versions that cannot be compared say nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn versions_that_were_set_back_are_believed_in_the_end() {
        let mut newest = Newest::default();
        assert_eq!(newest.version(), 0);
        for (version, after_secs, expected) in
            [(9, 0, 9), (7, 60, 9), (9, 800, 9), (7, 800, 9), (7, 100, 7), (8, 899, 8), (3, 900, 3)]
        {
            tokio::time::advance(Duration::from_secs(after_secs)).await;
            newest.learned(version);
            assert_eq!(newest.version(), expected, "{version} after {after_secs} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_are_gone_are_forgotten() {
        let mut unseen = Unseen::default();
        for round in 0..10 {
            for object in 0..SWEPT_FROM {
                unseen.learned(&format!("{round}/{object}"), "1", 2);
            }
            tokio::time::advance(SEEN_WITHIN).await;
        }
        assert!(unseen.objects.len() <= 2 * SWEPT_FROM, "{}", unseen.objects.len());
    }
}
