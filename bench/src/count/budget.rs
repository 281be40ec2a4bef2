//! The figures that were agreed on, in a file under version control.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::callgrind::Figure;

/// How far a figure may lie above its budget, in per cent.
pub const TOLERANCE_PERCENT: f64 = 3.0;

const HEAD: &str = "\
# Instructions per unit that the hot paths may take, counted by `forebay-count` (callgrind).
# `forebay-count --check` fails above these by more than 3 %; `forebay-count --write` sets them.
# docs/performance.md says when to do that.

";

/// Instructions by the case's name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budget(BTreeMap<String, f64>);

impl Budget {
    /// Reads lines of `\"name\" = number`; comments begin with #.
    ///
    /// # Errors
    /// The first line that is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim);
        let entry = |line: &str| {
            let (name, value) = line.split_once('=')?;
            let name = name.trim().strip_prefix('"')?.strip_suffix('"')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| entry(line).ok_or_else(|| format!("not a line of a budget: {line}")))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The file that holds these figures.
    pub fn text(figures: &[Figure]) -> String {
        figures.iter().fold(HEAD.to_owned(), |mut text, figure| {
            let Figure {
                name, instructions, ..
            } = figure;
            // Writing into a string does not fail.
            let _ = writeln!(text, "\"{name}\" = {instructions:.1}");
            text
        })
    }

    /// What was agreed on for this case.
    pub fn of(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// What is wrong with the figures: one above its budget, one without, a budget for nothing.
    pub fn complaints(&self, figures: &[Figure]) -> Vec<String> {
        let mut complaints = Vec::new();
        for figure in figures {
            match self.of(figure.name) {
                None => complaints.push(format!("{}: has no budget", figure.name)),
                Some(most) => {
                    let above = 100.0 * (figure.instructions / most - 1.0);
                    if above > TOLERANCE_PERCENT {
                        complaints.push(format!(
                            "{}: {:.1} instructions per {}, {above:.1} % above its budget of {most:.1}",
                            figure.name, figure.instructions, figure.unit
                        ));
                    }
                }
            }
        }
        for name in self.0.keys() {
            if !figures.iter().any(|figure| figure.name == name) {
                complaints.push(format!("{name}: in the budget, and nothing counts it"));
            }
        }
        complaints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &'static str, instructions: f64) -> Figure {
        Figure {
            name,
            unit: "row",
            instructions,
            spread_percent: 0.0,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let figures = [figure("row by name", 612.34), figure("idle turn", 80.0)];
        let budget = Budget::parse(&Budget::text(&figures)).expect("a budget");
        assert_eq!(budget.of("row by name"), Some(612.3));
        assert_eq!(budget.of("idle turn"), Some(80.0));
        assert_eq!(budget.complaints(&figures), Vec::<String>::new());
        assert!(Budget::parse("row by name = 3").is_err());
        assert!(Budget::parse("\"row\" = three").is_err());
    }

    #[test]
    fn three_per_cent_more_pass_and_four_do_not() {
        let budget = Budget::parse("\"a\" = 100.0\n\"b\" = 100.0").expect("a budget");
        assert!(
            budget
                .complaints(&[figure("a", 102.9), figure("b", 50.0)])
                .is_empty()
        );
        let complaints = budget.complaints(&[figure("a", 104.0), figure("c", 1.0)]);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(complaints[0].contains("4.0 % above its budget of 100.0"));
        assert!(complaints[1].starts_with("c: has no budget"));
        assert!(complaints[2].starts_with("b: in the budget"));
    }

    #[test]
    fn the_file_has_a_budget_for_every_case() {
        let budget = Budget::parse(include_str!("../../budget.toml")).expect("a budget");
        for case in super::super::cases() {
            assert!(budget.of(case.name).is_some(), "{}", case.name);
        }
    }
}
