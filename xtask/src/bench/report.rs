//! `docs/benchmarks.md`: one part for each benchmark, each rewritten by itself.

use std::fs;

use crate::root;
use crate::step::StepError;

const REPORT: &str = "docs/benchmarks.md";
const TITLE: &str = "# Benchmarks\n";

/// Replaces one part of the report and leaves the others alone.
pub(super) fn write(part: &str, text: &str) -> Result<(), StepError> {
    let path = root().join(REPORT);
    let failed = |source| StepError::File { path: REPORT.to_owned(), source };
    let report = fs::read_to_string(&path).map_err(failed)?;
    fs::write(&path, replaced(&report, part, text)).map_err(failed)?;
    println!("wrote {REPORT}");
    Ok(())
}

fn marker(part: &str) -> String {
    format!("<!-- part: {part} -->")
}

/// A part goes from its marker to the next one. One that is not there yet is put at the end.
fn replaced(report: &str, part: &str, text: &str) -> String {
    const ANY: &str = "<!-- part: ";
    let own = format!("{}\n\n{}\n", marker(part), text.trim());
    let report = if report.trim().is_empty() { TITLE } else { report };
    let Some(start) = report.find(&marker(part)) else {
        return format!("{}\n\n{own}", report.trim_end());
    };
    let after = start + ANY.len();
    let rest = report[after..].find(ANY).map_or("", |next| &report[after + next..]);
    let gap = if rest.is_empty() { "" } else { "\n" };
    format!("{}{own}{gap}{rest}", &report[..start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_and_the_others_stay() {
        let first = replaced("", "a", "one\n");
        assert_eq!(first, "# Benchmarks\n\n<!-- part: a -->\n\none\n");
        let both = replaced(&first, "b", "two");
        assert_eq!(both, "# Benchmarks\n\n<!-- part: a -->\n\none\n\n<!-- part: b -->\n\ntwo\n");
        for (part, text, expected) in [
            ("a", "1", "# Benchmarks\n\n<!-- part: a -->\n\n1\n\n<!-- part: b -->\n\ntwo\n"),
            ("b", "2", "# Benchmarks\n\n<!-- part: a -->\n\none\n\n<!-- part: b -->\n\n2\n"),
        ] {
            assert_eq!(replaced(&both, part, text), expected);
        }
    }
}
