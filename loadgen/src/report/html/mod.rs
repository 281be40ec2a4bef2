//! The report as one HTML file that needs nothing else: no script, no font, no network.

mod chart;

use std::fmt::Write as _;
use std::path::Path;

use super::{Latencies, Report, grouped, whole};
use crate::error::Error;
use crate::machine;
use chart::{Axis, Chart, Line, escape};

/// Share of the counts, in the words of the axis, and its place: tens of the inverse of the rest.
const SHARES: [(f64, &str); 6] = [
    (0.0, "min"),
    (1.0, "p90"),
    (2.0, "p99"),
    (3.0, "p99.9"),
    (4.0, "p99.99"),
    (5.0, "p99.999"),
];
/// Points of a percentile curve between two of these.
const POINTS_A_TENTH: u32 = 20;
/// Time axis: powers of ten of nanoseconds and their names.
const TIMES: [(f64, &str); 9] = [
    (2.0, "100 ns"),
    (3.0, "1 us"),
    (4.0, "10 us"),
    (5.0, "100 us"),
    (6.0, "1 ms"),
    (7.0, "10 ms"),
    (8.0, "100 ms"),
    (9.0, "1 s"),
    (10.0, "10 s"),
];
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--grid:#d1d9e0;--page:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--grid:#3d444d;--page:#0d1117}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:60rem;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem 0;text-align:left;
border-bottom:1px solid var(--grid);overflow-wrap:anywhere}td.n,th.n{text-align:right}
svg{width:100%;height:auto}svg text{fill:var(--soft);font:12px system-ui,sans-serif}
.grid{stroke:var(--grid);stroke-width:1}.line{fill:none;stroke-width:2.5}";

impl Report {
    /// Writes [`Report::html`] to a file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_html(&self, path: &Path) -> Result<(), Error> {
        std::fs::write(path, self.html()).map_err(|source| Error::io("write", path, source))
    }

    /// The report as an HTML page.
    pub fn html(&self) -> String {
        let title = escape(&format!("{}: {}", self.command, self.detail.title));
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        );
        let rate = grouped(whole(self.rows_per_second()));
        let (sent, acked) = (grouped(self.rows_sent), grouped(self.rows_acked()));
        let lead = format!(
            "{sent} rows sent, {acked} acked in {:.3} s: {rate} rows/s",
            self.total_time.as_secs_f64()
        );
        section(
            &mut page,
            "Result",
            &format!("<p>{lead}</p>{}", self.percentile_table()),
        );
        section(
            &mut page,
            "Latency by percentile",
            &self.percentile_curves(),
        );
        section(&mut page, "From accepted on, by stage", &self.stage_bars());
        section(&mut page, "Rows acked a second", &self.throughput());
        section(&mut page, "Frames unacked", &self.unacked());
        section(
            &mut page,
            "Configuration",
            &table(&self.detail.configuration),
        );
        let mut machine = vec![("machine".to_owned(), machine::describe())];
        let used = self.detail.lines().into_iter();
        machine.extend(used.map(|(name, value)| (name.to_owned(), value)));
        section(&mut page, "Machine and what was used", &table(&machine));
        page.push_str("</body></html>\n");
        page
    }

    fn counted_latencies(&self) -> Vec<(String, &Latencies)> {
        let named = self.named_latencies().into_iter();
        named
            .filter(|(_, latencies)| !latencies.is_empty())
            .collect()
    }

    fn percentile_table(&self) -> String {
        let mut html = String::from(
            "<table><tr><th>latency<th class=n>count<th class=n>p50<th class=n>p99\
             <th class=n>p99.9<th class=n>p99.99<th class=n>max</tr>",
        );
        for (name, latencies) in self.counted_latencies() {
            html.push_str("<tr>");
            for (index, cell) in latencies.cells(&name).iter().enumerate() {
                let class = if index == 0 { "" } else { " class=n" };
                let _ = write!(html, "<td{class}>{}", escape(cell));
            }
            html.push_str("</tr>");
        }
        html.push_str("</table>");
        html
    }

    fn percentile_curves(&self) -> String {
        let lines = self
            .counted_latencies()
            .into_iter()
            .map(|(name, latencies)| {
                let last = most_nines(latencies);
                let steps = (0..=5 * POINTS_A_TENTH)
                    .map(|step| f64::from(step) / f64::from(POINTS_A_TENTH));
                let points = steps.filter(|nines| *nines <= last).map(|nines| {
                    let percent = 100.0 * (1.0 - 10f64.powf(-nines));
                    (nines, log10_ns(latencies.at(percent)))
                });
                Line {
                    name,
                    points: points.collect(),
                }
            });
        Chart {
            x: Axis::named(&SHARES),
            y: Axis::named(&TIMES),
            lines: lines.collect(),
        }
        .svg()
    }

    /// A line from p50 to p99 for each stage, one below the other.
    fn stage_bars(&self) -> String {
        let stages = [
            ("to written", &self.accept_to_written),
            ("to stable", &self.accept_to_stable),
            ("to acked", &self.accept_to_acked),
        ];
        let stages: Vec<_> = stages
            .into_iter()
            .filter(|(_, all)| !all.is_empty())
            .collect();
        let names: Vec<(f64, &str)> = (1_u32..)
            .zip(&stages)
            .map(|(at, (name, _))| (f64::from(at), *name))
            .collect();
        let lines = names
            .iter()
            .zip(&stages)
            .map(|((at, name), (_, all))| Line {
                name: format!("{name}, p50 to p99"),
                points: vec![(log10_ns(all.at(50.0)), *at), (log10_ns(all.at(99.0)), *at)],
            });
        let lines = lines.collect();
        Chart {
            x: Axis::named(&TIMES),
            y: Axis::named(&names).padded(),
            lines,
        }
        .svg()
    }

    fn throughput(&self) -> String {
        let pairs = self.detail.samples.windows(2).filter_map(|pair| {
            let [from, to] = pair else { return None };
            let seconds = to.at.saturating_sub(from.at).as_secs_f64();
            let rows = float(to.rows_acked.saturating_sub(from.rows_acked));
            (seconds > 0.01).then(|| (to.at.as_secs_f64(), rows / seconds))
        });
        over_time("rows acked a second", pairs.collect())
    }

    fn unacked(&self) -> String {
        let samples = self.detail.samples.iter();
        let points = samples.map(|sample| (sample.at.as_secs_f64(), float(sample.frames_unacked)));
        over_time("frames unacked", points.collect())
    }
}

fn over_time(name: &str, points: Vec<(f64, f64)>) -> String {
    let last = points.last().map_or(1.0, |(at, _)| *at);
    let most = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let name = name.to_owned();
    Chart {
        x: Axis::up_to(last, " s"),
        y: Axis::up_to(most, ""),
        lines: vec![Line { name, points }],
    }
    .svg()
}

/// How far to the right a curve of so many counts means anything.
fn most_nines(latencies: &Latencies) -> f64 {
    float(latencies.counts().len()).log10()
}

fn log10_ns(ns: u64) -> f64 {
    float(ns.max(100)).log10()
}

#[expect(clippy::cast_precision_loss, reason = "a picture")]
fn float(value: u64) -> f64 {
    value as f64
}

fn section(page: &mut String, name: &str, body: &str) {
    let _ = write!(page, "<h2>{name}</h2>\n{body}\n");
}

fn table(lines: &[(String, String)]) -> String {
    let mut html = String::from("<table>");
    for (name, value) in lines {
        let _ = write!(html, "<tr><td>{}<td>{}</tr>", escape(name), escape(value));
    }
    html.push_str("</table>");
    html
}
