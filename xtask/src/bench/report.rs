//! What a benchmark found out: on the terminal, and as its part of `docs/benchmarks.md`, which is rewritten by
//! itself.

use std::fs;

use super::bar::Bar;
use super::chart::Chart;
use super::form::Form;
use super::machine;
use super::table::Table;
use crate::step::{StepError, check};
use berth_control_plane::workspace;

const REPORT: &str = "docs/benchmarks.md";
const CHARTS: &str = "docs/charts";
const TITLE: &str = "# Benchmarks\n";

pub(super) struct Report {
    /// The name of its part.
    pub(super) part: &'static str,
    pub(super) title: &'static str,
    pub(super) command: &'static str,
    /// What the numbers depend on beside the machine.
    pub(super) besides: Option<String>,
    /// How the numbers came about.
    pub(super) method: String,
    pub(super) bars: Vec<Bar>,
    pub(super) sections: Vec<Section>,
}

/// The answer to one question: a table, and charts of it.
pub(super) struct Section {
    text: String,
    charts: Vec<Chart>,
}

impl Section {
    pub(super) fn new(table: &Table, charts: Vec<Chart>) -> Self {
        Self { text: table.to_string(), charts }
    }

    pub(super) fn left_out(title: &str, why: &str) -> Self {
        Self { text: format!("### {title}\n\nLeft out: {why}.\n"), charts: Vec::new() }
    }

    fn with_images(&self) -> String {
        let images =
            self.charts.iter().map(|chart| format!("\n![{}](charts/{}.svg)\n", chart.title, chart.name));
        [self.text.clone()].into_iter().chain(images).collect()
    }
}

impl Report {
    /// Prints it, writes it if that is asked for, and fails if a bar is missed.
    pub(super) fn finish(&self, form: Form) -> Result<(), StepError> {
        let tables: Vec<&str> = self.sections.iter().map(|section| section.text.as_str()).collect();
        println!("## {}\n\n{}\n\n{}", self.title, self.method, tables.join("\n"));
        if form.quick {
            println!("quick: the bars are not judged");
            return Ok(());
        }
        if form.write {
            self.write()?;
        }
        check("bars", self.command, || {
            println!("{}", self.bar_list());
            Ok(self.bars.iter().filter(|bar| !bar.holds).map(ToString::to_string).collect())
        })
    }

    fn bar_list(&self) -> String {
        self.bars.iter().map(|bar| format!("- {bar}")).collect::<Vec<_>>().join("\n")
    }

    fn text(&self) -> String {
        let besides = self.besides.as_ref().map_or_else(String::new, |besides| format!(", {besides}"));
        let sections: Vec<String> = self.sections.iter().map(Section::with_images).collect();
        format!(
            "## {}\n\nWritten by `{} --write` on {}{besides}. {}\n\n### Bars\n\n{}\n\n{}",
            self.title,
            self.command,
            machine::description(),
            self.method,
            self.bar_list(),
            sections.join("\n"),
        )
    }

    fn write(&self) -> Result<(), StepError> {
        let failed = |source| StepError::File { path: CHARTS.to_owned(), source };
        fs::create_dir_all(workspace().join(CHARTS)).map_err(failed)?;
        for chart in self.sections.iter().flat_map(|section| &section.charts) {
            let path = workspace().join(CHARTS).join(format!("{}.svg", chart.name));
            fs::write(path, chart.svg()).map_err(failed)?;
        }
        let path = workspace().join(REPORT);
        let failed = |source| StepError::File { path: REPORT.to_owned(), source };
        let report = fs::read_to_string(&path).map_err(failed)?;
        fs::write(&path, replaced(&report, self.part, &self.text())).map_err(failed)?;
        println!("wrote {REPORT}");
        Ok(())
    }
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
    use super::super::chart::Scale;
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

    #[test]
    fn a_part_has_the_command_the_bars_the_tables_and_their_charts() {
        let mut table = Table::new("Growth", "About.", vec!["pods"]);
        table.row(vec!["1".to_owned()]);
        let chart = Chart {
            name: "growth",
            title: "Time, by pods",
            unit: "seconds",
            across: "pods",
            scale: Scale::Linear,
            groups: vec!["1".to_owned()],
            series: vec![("Berth".to_owned(), vec![1.0])],
        };
        let report = Report {
            part: "provision",
            title: "Provisioning",
            command: "cargo xtask bench provision",
            besides: Some("go1.27".to_owned()),
            method: "Once.".to_owned(),
            bars: vec![Bar { text: "fast".to_owned(), holds: true }, Bar::not_measured("cheap")],
            sections: vec![Section::new(&table, vec![chart]), Section::left_out("Real pods", "no file")],
        };
        let text = report.text();
        let (head, rest) = text.split_once("\n\n### Bars\n\n").unwrap();
        assert!(head.starts_with("## Provisioning\n\nWritten by `cargo xtask bench provision --write` on "));
        assert!(head.ends_with(", go1.27. Once."), "{head}");
        assert_eq!(
            rest,
            "- holds: fast\n- MISSED: cheap: not measured\n\n\
             ### Growth\n\nAbout.\n\n| pods |\n|-----:|\n|    1 |\n\n![Time, by pods](charts/growth.svg)\n\n\
             ### Real pods\n\nLeft out: no file.\n"
        );
    }
}
