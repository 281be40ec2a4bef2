//! A chart of lines as inline SVG.

use std::fmt::Write as _;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 320.0;
/// Room for the names at the left and below, and beside the plot.
const LEFT: f64 = 90.0;
const BELOW: f64 = 30.0;
const MARGIN: f64 = 12.0;
/// Height of a line of the legend.
const LEGEND: f64 = 18.0;
/// Told apart by people who see few colours, on light and dark.
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f",
];

/// An axis: its range and the places that have a name.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    marks: Vec<(f64, String)>,
}

impl Axis {
    /// From the first to the last mark.
    pub(super) fn named(marks: &[(f64, &str)]) -> Self {
        let places = marks.iter().map(|(at, _)| *at);
        Self {
            from: places.clone().fold(f64::INFINITY, f64::min),
            to: places.fold(f64::NEG_INFINITY, f64::max),
            marks: marks
                .iter()
                .map(|(at, name)| (*at, (*name).to_owned()))
                .collect(),
        }
    }

    /// One more at both ends.
    pub(super) fn padded(self) -> Self {
        Self {
            from: self.from - 1.0,
            to: self.to + 1.0,
            ..self
        }
    }

    /// From 0 to a round number above `most`.
    pub(super) fn up_to(most: f64, unit: &str) -> Self {
        let most = if most.is_finite() && most > 0.0 {
            most
        } else {
            1.0
        };
        let power = 10f64.powf(most.log10().floor());
        let step = [0.2, 0.5, 1.0, 2.0].map(|part| part * power);
        let step = step
            .into_iter()
            .find(|step| most / step <= 6.0)
            .unwrap_or(power);
        let to = (most / step).ceil() * step;
        let mut marks = Vec::new();
        let mut at = 0.0;
        while at <= to + step / 2.0 {
            marks.push((at, format!("{}{unit}", short(at))));
            at += step;
        }
        Self {
            from: 0.0,
            to,
            marks,
        }
    }

    /// 0 at the begin, 1 at the end; what lies outside is put at the edge.
    fn share(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

/// A line with its name.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// A picture of lines.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

impl Chart {
    pub(super) fn svg(&self) -> String {
        if self.lines.iter().all(|line| line.points.is_empty()) {
            return "<p>Nothing was counted.</p>".to_owned();
        }
        let mut height = HEIGHT;
        for _ in &self.lines {
            height += LEGEND;
        }
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\">");
        self.grid(&mut svg);
        let mut legend_y = HEIGHT + LEGEND / 2.0;
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            self.line(&mut svg, line, colour);
            let _ = write!(
                svg,
                "<path class=\"line\" stroke=\"{colour}\" d=\"M{LEFT} {:.1}h24\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                legend_y - 4.0,
                LEFT + 32.0,
                legend_y,
                escape(&line.name)
            );
            legend_y += LEGEND;
        }
        svg.push_str("</svg>");
        svg
    }

    fn grid(&self, svg: &mut String) {
        let bottom = HEIGHT - BELOW;
        for (at, name) in &self.x.marks {
            let x = self.place_x(*at);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{x:.1} {MARGIN}V{bottom:.1}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                escape(name)
            );
        }
        for (at, name) in &self.y.marks {
            let y = self.place_y(*at);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - 4.0 * MARGIN,
                LEFT - 8.0,
                y + 4.0,
                escape(name)
            );
        }
    }

    fn line(&self, svg: &mut String, line: &Line, colour: &str) {
        let points = line.points.iter();
        let points = points.filter(|(x, y)| x.is_finite() && y.is_finite());
        let mut path = String::new();
        for (x, y) in points {
            let step = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(
                path,
                "{step}{:.1} {:.1}",
                self.place_x(*x),
                self.place_y(*y)
            );
        }
        let _ = write!(
            svg,
            "<path class=\"line\" stroke=\"{colour}\" stroke-linecap=\"round\" d=\"{path}\"/>"
        );
    }

    fn place_x(&self, value: f64) -> f64 {
        LEFT + self.x.share(value) * (WIDTH - LEFT - 4.0 * MARGIN)
    }

    fn place_y(&self, value: f64) -> f64 {
        let bottom = HEIGHT - BELOW;
        bottom - self.y.share(value) * (bottom - MARGIN)
    }
}

/// Few digits.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", trimmed(value / 1e6)),
        value if value >= 1e3 => format!("{} k", trimmed(value / 1e3)),
        value => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text as it stands in HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{Axis, Chart, Line, escape};

    #[test]
    fn an_axis_ends_at_a_round_number_with_at_most_seven_marks() {
        for most in [0.0, 0.07, 1.0, 3.3, 42.0, 9_999_999.0, f64::NAN] {
            let axis = Axis::up_to(most, "");
            assert!(axis.marks.len() <= 7 && axis.marks.len() >= 2, "{axis:?}");
            assert!(most.is_nan() || axis.to >= most, "{axis:?}");
        }
        let names: Vec<_> = Axis::up_to(42.0, " s")
            .marks
            .into_iter()
            .map(|(_, name)| name)
            .collect();
        assert_eq!(names, ["0 s", "10 s", "20 s", "30 s", "40 s", "50 s"]);
    }

    #[test]
    fn points_outside_stay_inside_and_names_are_text() {
        let chart = Chart {
            x: Axis::up_to(1.0, ""),
            y: Axis::up_to(1.0, ""),
            lines: vec![Line {
                name: "a<b>".to_owned(),
                points: vec![(0.0, 0.0), (9.0, 9.0), (f64::NAN, 1.0)],
            }],
        };
        let svg = chart.svg();
        assert!(svg.contains("d=\"M90.0 290.0L852.0 12.0\""), "{svg}");
        assert!(svg.contains("a&lt;b&gt;") && !svg.contains("<b>"), "{svg}");
        assert_eq!(escape("\"&\""), "&quot;&amp;&quot;");
    }

    #[test]
    fn nothing_counted_says_so() {
        let chart = Chart {
            x: Axis::up_to(1.0, ""),
            y: Axis::up_to(1.0, ""),
            lines: Vec::new(),
        };
        assert_eq!(chart.svg(), "<p>Nothing was counted.</p>");
    }
}
