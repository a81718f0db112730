//! Requirements and selectors: the set algebra agrees with matching label by label.
//!
//! The text is lines of `operator value value …`, all on one label, and the values are also the labels
//! that are tried.

#![no_main]

use berth_core::names::{Labels, Text};
use berth_core::requirement::{Expression, Operator, Requirements, ValueSet};
use berth_core::selector::Selector;
use libfuzzer_sys::fuzz_target;

const KEY: &str = "key";

fuzz_target!(|text: &str| {
    let expressions: Vec<Expression> = text.lines().filter_map(expression).collect();
    let words = text.split_whitespace().map(Some);
    let labels: Vec<Option<&str>> = words.chain([None, Some("")]).take(64).collect();

    let intersection =
        expressions.iter().map(ValueSet::of).fold(ValueSet::any(), |all, set| all.intersect(&set));
    let reversed =
        expressions.iter().rev().map(ValueSet::of).fold(ValueSet::any(), |all, set| all.intersect(&set));
    assert_eq!(intersection, reversed, "order can be seen");

    let requirements: Requirements = expressions.iter().cloned().collect();
    assert_eq!(requirements.get(KEY), (!expressions.is_empty()).then_some(&intersection));

    let selector = Selector::new(expressions.clone());
    assert_eq!(selector, Selector::new(expressions.iter().rev().cloned().collect()));

    for label in labels {
        let expected = expressions.iter().all(|expression| expression.matches(label));
        assert_eq!(intersection.admits(label), expected, "{intersection} on {label:?}");
        let labels: Labels = label.map(|value| (Text::from(KEY), Text::from(value))).into_iter().collect();
        assert_eq!(selector.matches(&labels), expected, "{selector} on {label:?}");
    }
    match intersection.any_value() {
        Some(value) => assert!(intersection.has(&value), "{value} is not in {intersection}"),
        None => assert!(
            intersection.is_empty() || intersection.finite().is_none(),
            "{intersection} has values, and finds none"
        ),
    }
    let _ = (intersection.to_string(), selector.to_string());
});

fn expression(line: &str) -> Option<Expression> {
    let mut words = line.split_whitespace();
    let operator = Operator::parse(words.next()?)?;
    Expression::new(KEY, operator, words.map(Text::from).collect()).ok()
}
