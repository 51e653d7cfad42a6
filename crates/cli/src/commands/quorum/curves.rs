//! Draws the analysis: the availability over the probability that a site is down, and the load of each site.

use meshlock_protocol::quorum::analysis::{Analysis, AvailabilityPoint};

use super::svg::{At, Svg};

/// The probabilities for which the curve is computed: from 0 to 1 in steps of 1/50.
pub(super) const PROBABILITIES: [f64; 51] = {
    let mut probabilities = [0.0; 51];
    let mut at = 0;
    while at <= 50 {
        probabilities[at as usize] = at as f64 / 50.0;
        at += 1_u8;
    }
    probabilities
};

const SIZE: At = At(860.0, 420.0);
const TOP: f64 = 92.0;
const BOTTOM: f64 = 360.0;

const STYLE: &str = "\
.title{font-size:19px;font-weight:600;fill:#1f2430}
.sub{font-size:12.5px;fill:#6b7280}
.head{font-size:13px;font-weight:600;fill:#3b4252}
.axis{stroke:#9aa1ad;stroke-width:1}
.rule{stroke:#eceff4;stroke-width:1}
.tick{font-size:11px;fill:#6b7280}
.middle{text-anchor:middle}
.end{text-anchor:end}
.curve{fill:none;stroke:#4f5bd5;stroke-width:2.6;stroke-linejoin:round}
.alone{fill:none;stroke:#9aa1ad;stroke-width:1.4;stroke-dasharray:5 4}
.bar{fill:#4f5bd5;fill-opacity:.85}
.best{stroke:#f2a33a;stroke-width:1.6}
.note{font-size:11px;fill:#6b7280}
.n-best{fill:#b36f10;text-anchor:end}
.n-curve{fill:#4f5bd5;font-weight:600}
";

/// Draws the analysis; `curve` is the availability at [`PROBABILITIES`].
pub(super) fn draw(title: &str, figures: &Analysis, curve: &[AvailabilityPoint]) -> String {
    let mut svg = Svg::new();
    svg.text(At(24.0, 34.0), "title", title);
    let sizes = figures.sizes;
    let asked = if sizes.least == sizes.most {
        sizes.least.to_string()
    } else {
        format!("{} to {}", sizes.least, sizes.most)
    };
    let summary = format!(
        "{} sites · {asked} asked per entry · load {:.4} · any {} failures survived",
        figures.load.of_sites.len(),
        figures.load.best,
        figures.resilience.at_least
    );
    svg.text(At(24.0, 54.0), "sub", &summary);
    draw_availability(&mut svg, curve);
    draw_loads(&mut svg, figures);
    svg.finish(SIZE, title, STYLE)
}

/// The frame of a chart, from `left` to `right`, with values from 0 to `most`.
struct Chart {
    left: f64,
    right: f64,
    most: f64,
}

impl Chart {
    fn at(&self, across: f64, value: f64) -> At {
        At(self.left + across * (self.right - self.left), BOTTOM - value / self.most * (BOTTOM - TOP))
    }

    fn frame(&self, svg: &mut Svg, head: &str, below: &str) {
        svg.text(At(self.left, TOP - 12.0), "head", head);
        for fifth in 0..=5 {
            let value = self.most * f64::from(fifth) / 5.0;
            let class = if fifth == 0 { "axis" } else { "rule" };
            svg.line(self.at(0.0, value), self.at(1.0, value), class);
            let At(x, y) = self.at(0.0, value);
            let digits = if self.most < 0.2 { 3 } else { 2 };
            svg.text(At(x - 8.0, y + 4.0), "tick end", &format!("{value:.digits$}"));
        }
        let At(x, y) = self.at(0.5, 0.0);
        svg.text(At(x, y + 38.0), "tick middle", below);
    }
}

fn draw_availability(svg: &mut Svg, curve: &[AvailabilityPoint]) {
    let chart = Chart { left: 64.0, right: 400.0, most: 1.0 };
    chart.frame(svg, "Availability", "each site down with probability");
    for fifth in 0..=5 {
        let across = f64::from(fifth) / 5.0;
        let At(x, y) = chart.at(across, 0.0);
        svg.text(At(x, y + 18.0), "tick middle", &format!("{across:.1}"));
    }
    svg.polyline(&[chart.at(0.0, 1.0), chart.at(1.0, 0.0)], "alone");
    let points: Vec<At> = curve.iter().map(|point| chart.at(point.failing, point.available)).collect();
    svg.polyline(&points, "curve");
    let At(x, y) = chart.at(0.62, 0.93);
    svg.line(At(x, y), At(x + 22.0, y), "curve");
    svg.text(At(x + 28.0, y + 4.0), "note n-curve", "some quorum up");
    svg.line(At(x, y + 18.0), At(x + 22.0, y + 18.0), "alone");
    svg.text(At(x + 28.0, y + 22.0), "note", "one site alone");
}

fn draw_loads(svg: &mut Svg, figures: &Analysis) {
    let loads = &figures.load.of_sites;
    // The next larger round number, so that the bar of the busiest site does not touch the top.
    let steps = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0];
    let most = steps.into_iter().find(|&step| step >= figures.load.best * 1.05).unwrap_or(1.0);
    let chart = Chart { left: 490.0, right: 826.0, most };
    chart.frame(svg, "Load of each site under the best strategy", "site");
    let (count, width) = (loads.len() as f64, (chart.right - chart.left) / loads.len() as f64);
    for (site, &load) in loads.iter().enumerate() {
        let gap = (width * 0.18).min(6.0);
        let At(x, y) = chart.at(site as f64 / count, load);
        svg.rectangle(At(x + gap / 2.0, y), At(width - gap, BOTTOM - y), 0.0, "bar");
    }
    let every = loads.len().div_ceil(16).max(1);
    for site in (0..loads.len()).step_by(every) {
        let At(x, y) = chart.at((site as f64 + 0.5) / count, 0.0);
        svg.text(At(x, y + 18.0), "tick middle", &site.to_string());
    }
    svg.line(chart.at(0.0, figures.load.best), chart.at(1.0, figures.load.best), "best");
    let At(x, y) = chart.at(1.0, figures.load.best);
    svg.text(At(x, y - 5.0), "note n-best", &format!("load {:.4}", figures.load.best));
}
