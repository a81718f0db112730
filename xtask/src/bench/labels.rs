//! The numbers over the bars of a chart: none over another.

/// From one line of text to the next.
const LINE: f64 = 13.0;
/// Of a line, with what keeps it off the lines beside it.
const HEIGHT: f64 = 12.0;
/// Of a digit, and of a comma or a point.
const DIGIT: f64 = 7.0;
const MARK: f64 = 3.5;
const GAP: f64 = 2.0;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label {
    /// Its middle.
    pub(super) x: f64,
    /// Its base line.
    pub(super) y: f64,
    pub(super) text: String,
}

impl Label {
    fn width(&self) -> f64 {
        let of = |character| if matches!(character, ',' | '.') { MARK } else { DIGIT };
        GAP + self.text.chars().map(of).sum::<f64>()
    }

    fn overlaps(&self, other: &Self) -> bool {
        let beside = f64::midpoint(self.width(), other.width());
        (self.x - other.x).abs() < beside && (self.y - other.y).abs() < HEIGHT
    }
}

/// Each label where it should be, or above those before it that are in its way. One that would have to go above
/// the ceiling is left out.
pub(super) fn apart(labels: Vec<Label>, ceiling: f64) -> Vec<Label> {
    let mut placed: Vec<Label> = Vec::new();
    for mut label in labels {
        // It only rises, past labels that stay, so that this ends.
        while let Some(below) = placed.iter().find(|other| label.overlaps(other)) {
            label.y = below.y - LINE;
        }
        if label.y >= ceiling {
            placed.push(label);
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_label_is_over_another_or_above_the_ceiling() {
        // What is at which place, and where it goes.
        for (labels, ys) in [
            // As wide as their bars.
            (vec![(0.0, 90.0, "327"), (27.0, 90.0, "228")], vec![90.0, 90.0]),
            // Wider, at the same height.
            (
                vec![(0.0, 90.0, "1,117"), (27.0, 90.0, "1,117"), (54.0, 90.0, "1,053")],
                vec![90.0, 77.0, 90.0],
            ),
            // Wider, but high enough above each other.
            (vec![(0.0, 90.0, "6,999"), (27.0, 78.0, "4,533")], vec![90.0, 78.0]),
            // A raised one is in the way of the next, too.
            (
                vec![(0.0, 90.0, "1,117"), (27.0, 88.0, "1,118"), (54.0, 80.0, "1,119")],
                vec![90.0, 77.0, 64.0],
            ),
            // No room for the second.
            (vec![(0.0, 65.0, "1,117"), (27.0, 65.0, "1,117"), (54.0, 65.0, "1,117")], vec![65.0, 65.0]),
            // From below the one before it to above it.
            (vec![(0.0, 85.0, "1,117"), (27.0, 95.0, "1,117")], vec![85.0, 72.0]),
        ] {
            let labels = labels.into_iter().map(|(x, y, text)| Label { x, y, text: text.to_owned() });
            let placed = apart(labels.collect(), 62.0);
            assert_eq!(placed.iter().map(|label| label.y).collect::<Vec<f64>>(), ys, "{placed:?}");
            for (index, label) in placed.iter().enumerate() {
                assert!(!placed[..index].iter().any(|other| label.overlaps(other)), "{placed:?}");
            }
        }
    }
}
