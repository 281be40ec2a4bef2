//! What `limits` prints: the rows of `--json` as a Markdown table, in the form of `versus`.

use super::figures::{Spread, number_text, ratio_text};
use super::json::JsonRow;

const HEAD: &str = "\
| measure | unit | ours min / median / max | yardstick | ratio | target | met |
|---|---|---|---|---|---|---|";

/// Where nothing is asked and nothing is ours.
const PLAIN_HEAD: &str = "\
| measure | unit | min / median / max |
|---|---|---|";

/// The table, with its head and a line end behind each row.
pub(super) fn markdown(rows: &[JsonRow]) -> String {
    let is_plain = rows
        .iter()
        .all(|row| row.target.is_none() && row.of.is_none());
    let head = if is_plain { PLAIN_HEAD } else { HEAD };
    let line = |row| if is_plain { plain(row) } else { full(row) };
    let lines = rows.iter().map(line);
    let lines: Vec<String> = std::iter::once(head.to_owned()).chain(lines).collect();
    lines.join("\n") + "\n"
}

fn plain(row: &JsonRow) -> String {
    let figures = row.spread.with(number_text);
    format!("| {} | {} | {figures} |", row.name, row.unit)
}

fn full(row: &JsonRow) -> String {
    let text = |of: Option<Spread>, text: fn(f64) -> String| {
        of.map_or_else(|| "-".to_owned(), |spread| spread.with(text))
    };
    let ratio = row.is_ratio.then_some(row.spread);
    let ours = match row.of {
        Some([ours, _]) => Some(ours),
        None => (!row.is_ratio).then_some(row.spread),
    };
    let (target, met) = (target_text(row.target), met_text(row.met));
    format!(
        "| {} | {} | {} | {} | {} | {target} | {met} |",
        row.name,
        row.unit,
        text(ours, number_text),
        text(row.of.map(|of| of[1]), number_text),
        text(ratio, ratio_text),
    )
}

/// What is asked: a limit and its kind, in the words of `--json`.
pub(crate) fn target_text(target: Option<(f64, &str)>) -> String {
    let Some((limit, kind)) = target else {
        return "-".to_owned();
    };
    let sign = if kind.ends_with("at_least") {
        ">="
    } else {
        "<="
    };
    if kind.starts_with("ours") {
        format!("ours {sign} {}", number_text(limit))
    } else {
        format!("{sign} {}x", ratio_text(limit))
    }
}

/// Whether that is so.
pub(crate) fn met_text(met: Option<bool>) -> &'static str {
    match met {
        None => "",
        Some(true) => "yes",
        Some(false) => "**no**",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(spread: [f64; 3], target: Option<(f64, &'static str)>) -> JsonRow {
        let [least, median, most] = spread;
        JsonRow {
            name: "writes".to_owned(),
            unit: "MB/s",
            spread: Spread {
                least,
                median,
                most,
            },
            is_ratio: target.is_some_and(|target| target.1.starts_with("ratio")),
            target,
            met: target.map(|target| median >= target.0),
            of: None,
        }
    }

    #[test]
    fn figures_without_targets_are_a_plain_table() {
        let rows = [row([1.0, 20.0, 12_345.0], None)];
        let told = "| writes | MB/s | 1.00 / 20.0 / 12.3 k |\n";
        assert_eq!(markdown(&rows), format!("{PLAIN_HEAD}\n{told}"));
    }

    #[test]
    fn a_row_has_what_is_asked_and_whether_it_is_met() {
        let ratio = row([0.5, 0.75, 1.0], Some((0.8, "ratio_at_least")));
        let of = |median| Spread {
            least: median,
            median,
            most: median,
        };
        let lost = JsonRow {
            of: Some([of(75.0), of(100.0)]),
            ..ratio
        };
        let told = "| writes | MB/s | 75.0 / 75.0 / 75.0 | 100 / 100 / 100 | 0.50 / 0.75 / 1.00 \
                    | >= 0.80x | **no** |\n";
        assert_eq!(markdown(&[lost]), format!("{HEAD}\n{told}"));
        let own = row([1.0, 2.0, 3.0], Some((1.5, "ours_at_least")));
        let told = "| writes | MB/s | 1.00 / 2.00 / 3.00 | - | - | ours >= 1.50 | yes |\n";
        assert_eq!(markdown(&[own]), format!("{HEAD}\n{told}"));
    }
}
