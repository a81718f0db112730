//! What is typed: cases of a file, each a name and its steps.

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

pub(crate) enum Step {
    /// `$ kubectl ...`: what it prints is compared.
    Run { line: String, input: String },
    /// `~ kubectl ...`: tried until it succeeds, and what it prints is not compared.
    Quietly { line: String, input: String },
    /// `& kubectl ...`: goes on beside what follows.
    Begin { line: String },
    /// `= 3`: what the last that was begun has printed, once that is three lines.
    End { lines: usize },
}

impl Case {
    /// With the namespace in place of `{ns}`.
    pub(crate) fn filled_in(&self, namespace: &str) -> Self {
        let fill = |text: &String| text.replace("{ns}", namespace);
        let steps = self.steps.iter().map(|step| match step {
            Step::Run { line, input } => Step::Run { line: fill(line), input: fill(input) },
            Step::Quietly { line, input } => Step::Quietly { line: fill(line), input: fill(input) },
            Step::Begin { line } => Step::Begin { line: fill(line) },
            Step::End { lines } => Step::End { lines: *lines },
        });
        Self { name: self.name.clone(), steps: steps.collect() }
    }

    /// A case begins with `# name`, a step with its sign; what follows is its standard input.
    pub(crate) fn all(text: &str) -> Vec<Self> {
        let mut cases: Vec<Self> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Some(name) = line.strip_prefix("# ") {
                cases.push(Self { name: name.to_owned(), steps: Vec::new() });
                continue;
            }
            let case = cases.last_mut().unwrap_or_else(|| panic!("no case before: {line}"));
            let step = match line.split_once(' ') {
                Some(("$", line)) => Step::Run { line: line.to_owned(), input: String::new() },
                Some(("~", line)) => Step::Quietly { line: line.to_owned(), input: String::new() },
                Some(("&", line)) => Step::Begin { line: line.to_owned() },
                Some(("=", lines)) => Step::End { lines: lines.parse().unwrap() },
                _ => {
                    match case.steps.last_mut() {
                        Some(Step::Run { input, .. } | Step::Quietly { input, .. }) => {
                            input.push_str(line);
                            input.push('\n');
                        }
                        _ => panic!("nobody reads: {line}"),
                    }
                    continue;
                }
            };
            case.steps.push(step);
        }
        cases
    }
}
