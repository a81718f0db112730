//! Sets of indexes as a job's status writes them: `0-2,5`.

use std::collections::BTreeSet;

pub(super) fn parse(text: &str, completions: i64) -> BTreeSet<i64> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
            // What a job does not have is not there, however large a number somebody wrote.
            indexes.extend(first.max(0)..=last.min(completions - 1));
        }
    }
    indexes
}

pub(super) fn format(indexes: &BTreeSet<i64>) -> String {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => runs.push((*index, *index)),
        }
    }
    let parts = runs.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    parts.collect::<Vec<String>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_written_short() {
        for (text, completions, again) in [
            ("", 9, ""),
            ("0", 9, "0"),
            ("0,1", 9, "0,1"),
            ("0-2", 9, "0-2"),
            ("0,1,2,4,6,7", 9, "0-2,4,6,7"),
            ("0-99999999999", 4, "0-3"),
            ("x,3", 9, "3"),
        ] {
            assert_eq!(format(&parse(text, completions)), again, "{text}");
        }
    }
}
