//! Whether an SPDX licence expression can be satisfied by licences that go with Apache-2.0.

/// The same list as in `deny.toml`.
pub(crate) const ALLOWED: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    // For data: the certificates that browsers trust.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// `expression` with AND, OR, WITH and parentheses; `A/B` is the old way to write `A OR B`.
/// What cannot be understood is not allowed.
pub(crate) fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words };
    parser.either().is_some_and(|allowed| allowed && parser.words.is_empty())
}

struct Parser<'a> {
    words: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn take(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn take_if(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn either(&mut self) -> Option<bool> {
        let mut allowed = self.both()?;
        while self.take_if("OR") {
            allowed |= self.both()?;
        }
        Some(allowed)
    }

    fn both(&mut self) -> Option<bool> {
        let mut allowed = self.one()?;
        while self.take_if("AND") {
            allowed &= self.one()?;
        }
        Some(allowed)
    }

    fn one(&mut self) -> Option<bool> {
        let name = self.take()?;
        if name == "(" {
            let allowed = self.either()?;
            return self.take_if(")").then_some(allowed);
        }
        if self.take_if("WITH") {
            let exception = self.take()?;
            return Some(ALLOWED.contains(&&*format!("{name} WITH {exception}")));
        }
        Some(ALLOWED.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        for (expression, allowed) in [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only", false),
            ("GPL-3.0-only OR MIT", true),
            ("GPL-3.0-only AND MIT", false),
            ("(MIT OR GPL-3.0-only) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0-only", false),
            ("MIT OR Apache-2.0 AND GPL-3.0-only", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("GPL-2.0-only WITH Classpath-exception-2.0", false),
            ("", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT)", false),
            ("MIT Apache-2.0", false),
        ] {
            assert_eq!(is_allowed(expression), allowed, "{expression:?}");
        }
    }

    #[test]
    fn cargo_deny_is_told_the_same() {
        let deny = include_str!("../../deny.toml");
        let (_, after) = deny.split_once("allow = [").expect("deny.toml lists the licences");
        let (list, _) = after.split_once(']').expect("the list ends");
        let listed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(listed, ALLOWED);
    }
}
