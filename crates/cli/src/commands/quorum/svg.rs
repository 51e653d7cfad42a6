//! Writes the SVG elements of the pictures. Numbers are written with one decimal.

use std::fmt::{Display, Write};

/// A picture that is being written.
pub(super) struct Svg {
    body: String,
}

/// A point, or a width and a height.
#[derive(Clone, Copy, Debug)]
pub(super) struct At(pub(super) f64, pub(super) f64);

impl Svg {
    pub(super) fn new() -> Self {
        Svg { body: String::new() }
    }

    /// Writes an element with its attributes and the text inside it.
    fn element(&mut self, name: &str, attributes: impl Display, inside: &str) {
        let written = if inside.is_empty() {
            writeln!(self.body, "<{name} {attributes}/>")
        } else {
            writeln!(self.body, "<{name} {attributes}>{}</{name}>", escaped(inside))
        };
        written.expect("a string takes everything");
    }

    /// Draws a circle of the style class `class`.
    pub(super) fn circle(&mut self, At(x, y): At, radius: f64, class: &str) {
        self.element(
            "circle",
            format_args!(r#"class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius:.1}""#),
            "",
        );
    }

    /// Draws a rectangle with rounded corners.
    pub(super) fn rectangle(&mut self, At(x, y): At, At(width, height): At, round: f64, class: &str) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        let attributes = format_args!(
            r#"class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="{round:.1}""#
        );
        self.element("rect", attributes, "");
    }

    /// Draws a straight line.
    pub(super) fn line(&mut self, At(x1, y1): At, At(x2, y2): At, class: &str) {
        let attributes =
            format_args!(r#"class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}""#);
        self.element("line", attributes, "");
    }

    /// Draws a closed polygon.
    pub(super) fn polygon(&mut self, corners: &[At], class: &str) {
        self.element("polygon", format_args!(r#"class="{class}" points="{}""#, list(corners)), "");
    }

    /// Draws a line through all points.
    pub(super) fn polyline(&mut self, points: &[At], class: &str) {
        self.element("polyline", format_args!(r#"class="{class}" points="{}""#, list(points)), "");
    }

    /// Writes text. Its class says where its anchor is.
    pub(super) fn text(&mut self, At(x, y): At, class: &str, text: &str) {
        self.element("text", format_args!(r#"class="{class}" x="{x:.1}" y="{y:.1}""#), text);
    }

    /// Returns the whole document, with its title and the style of its classes.
    pub(super) fn finish(self, At(width, height): At, title: &str, style: &str) -> String {
        let body = self.body;
        let title = escaped(title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\">\n<title>{title}</title>\n\
             <style>\n{style}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }
}

fn list(points: &[At]) -> String {
    points.iter().map(|At(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
