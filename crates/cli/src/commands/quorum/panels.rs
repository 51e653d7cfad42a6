//! Draws the sets of a family as small panels side by side: each shows all sites and marks one set.

use meshlock_protocol::quorum::Tree;
use meshlock_protocol::quorum::grid::Grid;
use meshlock_protocol::{SiteId, SiteSet};

use super::source::QuorumFamily;
use super::svg::{At, Svg};

/// How the sites are arranged in a panel.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// In a circle, with the first site at the top.
    Circle,
    /// In rows.
    Grid,
    /// As a binary tree in the order of a heap, with the sites that failed.
    Tree { failed: SiteSet },
}

/// Maximum number of panels; of large ones at most [`MAX_LARGE_PANELS`]. More would not show more.
const MAX_PANELS: usize = 60;
const MAX_LARGE_PANELS: usize = 12;
/// Maximum number of sites that are drawn with their numbers; more have no room for them.
const MAX_LABELS: usize = 64;
/// Minimum width of the picture: the title needs about this.
const MIN_WIDTH: f64 = 600.0;
const MARGIN: f64 = 24.0;
const HEAD: f64 = 64.0;
const GAP: f64 = 14.0;
const CAPTION: f64 = 20.0;
const PADDING: f64 = 14.0;

const STYLE: &str = "\
.title{font-size:19px;font-weight:600;fill:#1f2430}
.sub{font-size:12.5px;fill:#6b7280}
.panel{fill:#fbfbfd;stroke:#e3e6ec}
.panel-bad{fill:#fff7f6;stroke:#f1b5ae}
.caption{font-size:12px;font-weight:600;fill:#3b4252}
.edge{stroke:#d5d9e2;stroke-width:1.2}
.in-edge{stroke:#4f5bd5;stroke-width:2.4}
.bad-edge{stroke:#d4483b;stroke-width:2.4}
.hull{fill:#4f5bd5;fill-opacity:.13;stroke:#4f5bd5;stroke-opacity:.55;stroke-width:1.4;stroke-linejoin:round}
.bad-hull{fill:#d4483b;fill-opacity:.13;stroke:#d4483b;stroke-opacity:.55;stroke-width:1.4;stroke-linejoin:round}
.out{fill:#eceff4;stroke:#d5d9e2}
.in{fill:#4f5bd5;stroke:#3d47b3}
.bad{fill:#d4483b;stroke:#b0372c}
.failed{fill:#ffffff;stroke:#9aa1ad;stroke-dasharray:2.5 2}
.own{fill:none;stroke:#f2a33a;stroke-width:2.2}
.label{text-anchor:middle;font-size:9px}
.l-out{fill:#8a91a0}
.l-in{fill:#ffffff;font-weight:600}
.l-failed{fill:#b0372c}
";

/// The positions of the sites in a panel, and their size.
struct PanelLayout<'a> {
    shape: &'a Shape,
    places: Vec<At>,
    radius: f64,
    size: At,
}

/// Draws the family, with the sets `blamed` marked as violating a property.
pub(super) fn draw(family: &QuorumFamily, blamed: &[usize]) -> String {
    let sets = family.system.quorums();
    let layout = PanelLayout::new(&family.shape, family.system.sites());
    let most = if family.system.sites() <= 3 * MAX_LABELS { MAX_PANELS } else { MAX_LARGE_PANELS };
    // The sets that violate a property are always shown, even if they are not among the first.
    let mut shown: Vec<usize> = blamed.iter().copied().chain(0..sets.len().min(most)).collect();
    shown.sort_unstable();
    shown.dedup();
    let columns = columns(shown.len(), layout.size);
    let (width, height) = (layout.size.0 + GAP, layout.size.1 + CAPTION + GAP);
    let mut svg = Svg::new();
    let own = sets.len() == family.system.sites() && !matches!(family.shape, Shape::Tree { .. });
    svg.text(At(MARGIN, 34.0), "title", &family.title);
    let subtitle = subtitle(family, shown.len(), own);
    svg.text(At(MARGIN, 54.0), "sub", &subtitle);
    for (at, &index) in shown.iter().enumerate() {
        let corner = At(MARGIN + (at % columns) as f64 * width, HEAD + 8.0 + (at / columns) as f64 * height);
        let panel = Panel {
            set: &sets[index],
            own: own.then(|| SiteId::new(index)),
            is_bad: blamed.contains(&index),
        };
        let name = if own { format!("site {index}") } else { format!("set {index}") };
        layout.draw(&mut svg, corner, &panel, &format!("{name}: {}", counted(panel.set.len())));
    }
    let rows = shown.len().div_ceil(columns);
    let text_width = |text: &str, each: f64| each * text.chars().count() as f64;
    let least = text_width(&family.title, 12.0).max(text_width(&subtitle, 7.2)) + 2.0 * MARGIN;
    let total = At(
        (2.0 * MARGIN + columns as f64 * width - GAP).max(least),
        HEAD + 8.0 + rows as f64 * height - GAP + MARGIN,
    );
    svg.finish(total, &family.title, STYLE)
}

fn subtitle(family: &QuorumFamily, shown: usize, own: bool) -> String {
    let (sites, sets) = (family.system.sites(), family.system.quorums().len());
    let ringed = if own { ", and the site that asks it is ringed" } else { "" };
    let part = if shown < sets { format!("; {shown} of them are shown") } else { String::new() };
    format!("{sites} sites, {sets} sets; in each picture one set is marked{ringed}{part}")
}

fn counted(sites: usize) -> String {
    if sites == 1 { "1 site".to_owned() } else { format!("{sites} sites") }
}

/// Returns how many panels to put side by side, so that the picture is a little wider than high.
fn columns(panels: usize, size: At) -> usize {
    let fits = |columns: usize| {
        let (rows, width) = (panels.div_ceil(columns), columns as f64 * (size.0 + GAP));
        width >= MIN_WIDTH && width >= 1.25 * rows as f64 * (size.1 + CAPTION + GAP)
    };
    (1..=panels).find(|&columns| fits(columns)).unwrap_or(panels.max(1))
}

/// A panel: one set among the sites.
struct Panel<'a> {
    set: &'a SiteSet,
    own: Option<SiteId>,
    is_bad: bool,
}

impl<'a> PanelLayout<'a> {
    fn new(shape: &'a Shape, sites: usize) -> Self {
        let (places, radius, inner) = match shape {
            Shape::Circle => circle(sites),
            Shape::Grid => grid(sites),
            Shape::Tree { .. } => tree(sites),
        };
        let places = places.into_iter().map(|At(x, y)| At(x + PADDING, y + PADDING)).collect();
        PanelLayout { shape, places, radius, size: At(inner.0 + 2.0 * PADDING, inner.1 + 2.0 * PADDING) }
    }

    fn draw(&self, svg: &mut Svg, At(left, top): At, panel: &Panel<'_>, caption: &str) {
        let size = At(self.size.0, self.size.1 + CAPTION);
        svg.rectangle(At(left, top), size, 8.0, if panel.is_bad { "panel-bad" } else { "panel" });
        svg.text(At(left + 12.0, top + 20.0), "caption", caption);
        let place = |site: SiteId| {
            let At(x, y) = self.places[site.index()];
            At(left + x, top + CAPTION + y)
        };
        self.draw_links(svg, panel, &place);
        for site in SiteId::all(self.places.len()) {
            self.draw_site(svg, panel, site, place(site));
        }
    }

    fn draw_links(&self, svg: &mut Svg, panel: &Panel<'_>, place: &impl Fn(SiteId) -> At) {
        let (hull, in_edge) = if panel.is_bad { ("bad-hull", "bad-edge") } else { ("hull", "in-edge") };
        match self.shape {
            Shape::Circle => {
                let corners: Vec<At> = panel.set.iter().map(place).collect();
                svg.polygon(&corners, hull);
            }
            Shape::Grid => {}
            Shape::Tree { .. } => {
                let tree = Tree::new(self.places.len());
                let links =
                    SiteId::all(self.places.len()).filter_map(|site| Some((site, tree.parent(site)?)));
                for (site, above) in links {
                    let inside = panel.set.contains(site) && panel.set.contains(above);
                    svg.line(place(above), place(site), if inside { in_edge } else { "edge" });
                }
            }
        }
    }

    fn draw_site(&self, svg: &mut Svg, panel: &Panel<'_>, site: SiteId, at: At) {
        let failed = matches!(self.shape, Shape::Tree { failed } if failed.contains(site));
        let (class, label) = match (failed, panel.set.contains(site), panel.is_bad) {
            (true, _, _) => ("failed", "label l-failed"),
            (false, true, true) => ("bad", "label l-in"),
            (false, true, false) => ("in", "label l-in"),
            (false, false, _) => ("out", "label l-out"),
        };
        self.draw_mark(svg, at, self.radius, class);
        if panel.own == Some(site) {
            self.draw_mark(svg, at, self.radius + 2.0, "own");
        }
        if self.places.len() <= MAX_LABELS {
            let text = if failed { "×".to_owned() } else { site.index().to_string() };
            // A little lower, so that the digits are centred.
            svg.text(At(at.0, at.1 + 3.2), label, &text);
        }
    }

    /// Draws a site: a square in a grid, a circle elsewhere.
    fn draw_mark(&self, svg: &mut Svg, At(x, y): At, radius: f64, class: &str) {
        if matches!(self.shape, Shape::Grid) {
            svg.rectangle(At(x - radius, y - radius), At(2.0 * radius, 2.0 * radius), radius / 3.0, class);
        } else {
            svg.circle(At(x, y), radius, class);
        }
    }
}

/// Returns the radius of a site: with room for its number, or small if there are many sites.
fn dot(sites: usize) -> f64 {
    if sites <= MAX_LABELS { 8.5 } else { 3.0 }
}

fn circle(sites: usize) -> (Vec<At>, f64, At) {
    let dot = dot(sites);
    // So large that neighbours do not touch.
    let ring = (sites as f64 * (2.0 * dot + 2.5) / std::f64::consts::TAU).clamp(46.0, 400.0);
    let dot = dot.min(ring * std::f64::consts::PI / sites as f64 * 0.85);
    let place = |site: usize| {
        let angle = std::f64::consts::TAU * site as f64 / sites as f64;
        At(ring + dot + ring * angle.sin(), ring + dot - ring * angle.cos())
    };
    let side = 2.0 * (ring + dot);
    ((0..sites).map(place).collect(), dot, At(side, side))
}

fn grid(sites: usize) -> (Vec<At>, f64, At) {
    let (half, grid) = (if sites <= MAX_LABELS { 9.5 } else { 4.0 }, Grid::new(sites));
    let step = 2.0 * half + 4.0;
    let place = |site: SiteId| {
        let (row, column) = grid.place(site);
        At(column as f64 * step + half, row as f64 * step + half)
    };
    let columns = grid.columns();
    let size = |count: usize| (count as f64 * step - 4.0).max(70.0);
    (SiteId::all(sites).map(place).collect(), half, At(size(columns), size(sites.div_ceil(columns))))
}

fn tree(sites: usize) -> (Vec<At>, f64, At) {
    let (dot, tree) = (dot(sites), Tree::new(sites));
    let depth = tree.depth(SiteId::new(sites - 1));
    let leaves = f64::from(1_u32 << depth.min(20));
    let width = (leaves * (2.0 * dot + 3.0)).max(90.0);
    let level = if sites <= MAX_LABELS { 34.0 } else { 22.0 };
    let place = |site: SiteId| {
        let on_level = f64::from(1_u32 << tree.depth(site).min(20));
        let from_left = (site.index() + 1) as f64 - on_level;
        At((from_left + 0.5) * width / on_level, dot + f64::from(tree.depth(site)) * level)
    };
    (SiteId::all(sites).map(place).collect(), dot, At(width, f64::from(depth) * level + 2.0 * dot))
}
