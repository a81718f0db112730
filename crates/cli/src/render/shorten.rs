//! Long lists of names in few words: `shop/web-0 … web-9 (10)`.

use std::cmp::Ordering;

/// Up to so many names are written out.
const WRITTEN_OUT_MAX: usize = 3;
/// Up to so many families of names are shown.
const FAMILIES_MAX: usize = 3;

/// A list of names, shortened: names that differ only after their last dash are one family.
pub(crate) fn shorten(mut names: Vec<String>) -> String {
    names.sort_by(|a, b| natural_order(a, b));
    if names.len() <= WRITTEN_OUT_MAX {
        return names.join(", ");
    }
    let families: Vec<&[String]> = names.chunk_by(|a, b| family(a) == family(b)).collect();
    let mut words: Vec<String> = families.iter().take(FAMILIES_MAX).map(|names| describe(names)).collect();
    let hidden: usize = families.iter().skip(FAMILIES_MAX).map(|names| names.len()).sum();
    if hidden > 0 {
        words.push(format!("and {hidden} more"));
    }
    words.join(", ")
}

fn describe(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first, second] => format!("{first}, {}", without_namespace(second)),
        [first, .., last] => format!("{first} … {} ({})", without_namespace(last), names.len()),
    }
}

fn family(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(stem, _)| stem)
}

fn without_namespace(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, name)| name)
}

/// `web-9` before `web-10`. Families stay together, because a stem is compared before what follows it.
fn natural_order(a: &str, b: &str) -> Ordering {
    let number = |name: &str| name.rsplit_once('-').and_then(|(_, tail)| tail.parse::<u64>().ok());
    family(a)
        .cmp(family(b))
        .then_with(|| match (number(a), number(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        })
        .then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_shortened() {
        let numbered =
            |stem: &str, count: usize| (0..count).map(|i| format!("{stem}-{i}")).collect::<Vec<_>>();
        for (names, expected) in [
            (vec![], ""),
            (vec!["a/x".to_owned()], "a/x"),
            (vec!["a/y".to_owned(), "a/x".to_owned()], "a/x, a/y"),
            (numbered("shop/web", 12), "shop/web-0 … web-11 (12)"),
            (["a-1a", "a-9", "a-10", "a-x"].map(str::to_owned).to_vec(), "a-9 … a-x (4)"),
            ([numbered("a/x", 2), numbered("b/y", 3)].concat(), "a/x-0, x-1, b/y-0 … y-2 (3)"),
            (
                ["a", "b", "c", "d", "e"].iter().flat_map(|s| numbered(s, 4)).collect(),
                "a-0 … a-3 (4), b-0 … b-3 (4), c-0 … c-3 (4), and 8 more",
            ),
        ] {
            assert_eq!(shorten(names), expected);
        }
    }
}
