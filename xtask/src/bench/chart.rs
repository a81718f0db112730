//! A chart of grouped bars as SVG, small enough to read and legible on light and dark pages.

use super::labels::{Label, apart};
use super::table::{bytes, count, ratio};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 62.0;
/// Numbers stay below the legend.
const CEILING: f64 = TOP - 8.0;
/// Series in the order in which they are given; told apart by those who see few colours, too.
const COLOURS: [&str; 4] = ["#d9822b", "#8fc1e3", "#2b7bba", "#7a8793"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    /// Tenfold from line to line.
    Log,
}

#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// Its file's.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What the numbers are, for the axis upwards.
    pub(super) unit: &'static str,
    /// What the groups are, for the axis across.
    pub(super) across: &'static str,
    pub(super) scale: Scale,
    /// The names of the groups.
    pub(super) groups: Vec<String>,
    /// A name and a number for each group.
    pub(super) series: Vec<(String, Vec<f64>)>,
}

impl Chart {
    pub(super) fn svg(&self) -> String {
        let axis = Axis::over(self.scale, self.series.iter().flat_map(|(_, values)| values));
        let mut svg = self.head();
        self.draw_axis(&mut svg, &axis);
        let labels = self.draw_bars(&mut svg, &axis);
        // After all bars, so that none is over a number.
        draw_labels(&mut svg, labels);
        self.draw_legend(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn head(&self) -> String {
        let title = escaped(self.title);
        // It has a ground of its own: a page may be dark where the reader's system says light.
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-labelledby=\"title\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
             <title id=\"title\">{title}</title>\n\
             <style>\n\
             .ground {{ fill: #ffffff }} text {{ fill: #24292f }} line {{ stroke: #d0d7de }}\n\
             .value {{ stroke: #ffffff; stroke-width: 4px; paint-order: stroke }}\n\
             @media (prefers-color-scheme: dark) {{\n\
             .ground {{ fill: #0d1117 }} text {{ fill: #e6edf3 }} line {{ stroke: #444c56 }}\n\
             .value {{ stroke: #0d1117 }}\n\
             }}\n\
             </style>\n\
             <rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\"/>\n\
             <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{title}</text>\n"
        )
    }

    fn draw_axis(&self, svg: &mut String, axis: &Axis) {
        for line in axis.lines() {
            let y = axis.y(line);
            put(
                svg,
                &format!("<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>", WIDTH - RIGHT),
            );
            let (x, y) = (LEFT - 8.0, y + 4.0);
            put(svg, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>", number(line)));
        }
        let (x, y, unit) = (18.0, f64::midpoint(TOP, HEIGHT - BOTTOM), escaped(self.unit));
        put(
            svg,
            &format!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 {x:.1} \
                 {y:.1})\">{unit}</text>"
            ),
        );
        let (x, y) = (f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 14.0);
        let across = escaped(self.across);
        put(svg, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{across}</text>"));
    }

    /// The numbers are left to be drawn.
    fn draw_bars(&self, svg: &mut String, axis: &Axis) -> Vec<Label> {
        let mut labels = Vec::new();
        let group_width = (WIDTH - LEFT - RIGHT) / as_f64(self.groups.len().max(1));
        let bar_width = (group_width * 0.8) / as_f64(self.series.len().max(1));
        for (group, name) in self.groups.iter().enumerate() {
            let left = LEFT + as_f64(group) * group_width + group_width * 0.1;
            for (index, (_, values)) in self.series.iter().enumerate() {
                let Some(value) = values.get(group) else { continue };
                let (x, y) = (left + as_f64(index) * bar_width, axis.y(*value));
                let (width, height) = (bar_width - 2.0, HEIGHT - BOTTOM - y);
                let colour = COLOURS[index % COLOURS.len()];
                put(
                    svg,
                    &format!(
                        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                         fill=\"{colour}\"/>"
                    ),
                );
                labels.push(Label { x: x + width / 2.0, y: y - 5.0, text: number(*value) });
            }
            let (x, y) = (left + group_width * 0.4, HEIGHT - BOTTOM + 20.0);
            put(
                svg,
                &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>", escaped(name)),
            );
        }
        labels
    }

    fn draw_legend(&self, svg: &mut String) {
        if self.series.len() < 2 {
            return;
        }
        let mut x = LEFT;
        for (index, (name, _)) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            put(svg, &format!("<rect x=\"{x:.1}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"));
            put(svg, &format!("<text x=\"{:.1}\" y=\"46\">{}</text>", x + 18.0, escaped(name)));
            x += 42.0 + 7.0 * as_f64(name.len());
        }
    }
}

fn draw_labels(svg: &mut String, labels: Vec<Label>) {
    for Label { x, y, text } in apart(labels, CEILING) {
        put(
            svg,
            &format!(
                "<text class=\"value\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" \
                 font-size=\"11\">{text}</text>"
            ),
        );
    }
}

fn put(svg: &mut String, element: &str) {
    svg.push_str(element);
    svg.push('\n');
}

struct Axis {
    scale: Scale,
    least: f64,
    most: f64,
}

impl Axis {
    fn over<'v>(scale: Scale, values: impl Iterator<Item = &'v f64> + Clone) -> Self {
        let most = values.clone().copied().fold(f64::MIN_POSITIVE, f64::max);
        match scale {
            Scale::Linear => Self { scale, least: 0.0, most: round_up(most) },
            Scale::Log => {
                let positive = values.copied().filter(|value| *value > 0.0);
                let least = positive.fold(most, f64::min);
                // From a line below the least, so that it has a bar, too.
                let (least, most) = (least.log10().floor(), most.log10().ceil());
                Self { scale, least: 10_f64.powf(least), most: 10_f64.powf(most.max(least + 1.0)) }
            }
        }
    }

    fn lines(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => (0_u8..=4).map(|i| self.most * f64::from(i) / 4.0).collect(),
            Scale::Log => {
                let mut lines = vec![self.least];
                while let Some(last) = lines.last().filter(|last| **last < self.most * 0.99) {
                    lines.push(last * 10.0);
                }
                lines
            }
        }
    }

    fn y(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => value / self.most,
            Scale::Log => (value.max(self.least) / self.least).log10() / (self.most / self.least).log10(),
        };
        HEIGHT - BOTTOM - share.clamp(0.0, 1.0) * (HEIGHT - BOTTOM - TOP)
    }
}

/// The next number whose quarters are short, so that the lines are, too.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 6.0, 8.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= value).unwrap_or(10.0 * power)
}

/// With the digits that a bar's label has room for.
fn number(value: f64) -> String {
    if value >= 100.0 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and rounded")]
        let whole = value.round() as u64;
        return count(whole);
    }
    let digits = if value >= 10.0 { 1 } else { 3 };
    let text = format!("{value:.digits$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() { "0".to_owned() } else { text.to_owned() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

pub(super) fn in_seconds(microseconds: u64) -> f64 {
    ratio(microseconds, 1_000_000)
}

pub(super) fn in_megabytes(kib: u64) -> f64 {
    ratio(bytes(kib), 1_000_000)
}

#[expect(clippy::cast_precision_loss, reason = "a handful of bars")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_bars() {
        for (value, text) in
            [(0.0, "0"), (0.0312, "0.031"), (5.4, "5.4"), (18.04, "18"), (96.31, "96.3"), (5304.2, "5,304")]
        {
            assert_eq!(number(value), text);
        }
        for (value, rounded) in [(1.0, 1.0), (3.1, 3.2), (5304.0, 6000.0), (9000.0, 10000.0)] {
            assert!((round_up(value) - rounded).abs() < 1e-6, "{value}");
        }
    }

    #[test]
    fn ten_times_as_much_is_one_line_higher_on_a_log_scale() {
        let axis = Axis::over(Scale::Log, [0.03, 96.0].iter());
        let lines = axis.lines();
        assert_eq!(lines.len(), 5, "{lines:?}");
        let steps: Vec<f64> = lines.windows(2).map(|pair| axis.y(pair[0]) - axis.y(pair[1])).collect();
        assert!(steps.iter().all(|step| (step - steps[0]).abs() < 1e-6), "{steps:?}");
    }

    #[test]
    fn every_value_has_a_bar_and_every_text_is_escaped() {
        let chart = Chart {
            name: "a-and-b",
            title: "A & B",
            unit: "seconds",
            across: "pods",
            scale: Scale::Log,
            groups: vec!["<1>".to_owned(), "2".to_owned()],
            series: vec![("one".to_owned(), vec![1.0, 0.0]), ("two".to_owned(), vec![10.0, 100.0])],
        };
        let svg = chart.svg();
        assert_eq!(svg.matches("<rect").count(), 1 + 4 + 2, "the ground, the bars, the legend: {svg}");
        assert!(svg.contains("<title id=\"title\">A &amp; B</title>") && svg.contains("&lt;1>"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
