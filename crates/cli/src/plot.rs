//! Plots of curves as SVG files.

use std::path::Path;

use anyhow::{Context, anyhow};
use meshlock_sim::experiments::{Curve, Plot};
use plotters::prelude::*;

const SIZE: (u32, u32) = (900, 600);

/// Writes `plot` into `folder` as `NAME.svg` and returns the path.
pub(crate) fn write(folder: &Path, plot: &Plot) -> anyhow::Result<std::path::PathBuf> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let path = folder.join(format!("{}.svg", plot.name));
    let svg = draw(plot)?;
    std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Returns the plot as the text of an SVG file.
fn draw(plot: &Plot) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        fill(&root, plot).map_err(|error| anyhow!("cannot draw {}: {error}", plot.name))?;
        root.present().map_err(|error| anyhow!("cannot draw {}: {error}", plot.name))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn fill(root: &Area<'_>, plot: &Plot) -> Result<(), Box<dyn std::error::Error>> {
    root.fill(&WHITE)?;
    let points = || plot.curves.iter().flat_map(|curve| &curve.points);
    let (least, most) = bounds(points().map(|point| point.0));
    let (_, highest) = bounds(points().map(|point| point.1 + point.2));
    let mut chart = ChartBuilder::on(root)
        .caption(&plot.title, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(least..most, 0.0..highest * 1.08)?;
    chart.configure_mesh().x_desc(&plot.x).y_desc(&plot.y).light_line_style(TRANSPARENT).draw()?;
    for (at, curve) in plot.curves.iter().enumerate() {
        draw_curve(&mut chart, at, curve)?;
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    Ok(())
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

fn draw_curve(chart: &mut Chart<'_, '_>, at: usize, curve: &Curve) -> Result<(), Box<dyn std::error::Error>> {
    let colour = Palette99::pick(at).to_rgba();
    let line: Vec<(f64, f64)> = curve.points.iter().map(|&(x, y, _)| (x, y)).collect();
    if curve.published {
        let marks = line.iter().map(|&point| Cross::new(point, 5, colour.stroke_width(2)));
        let drawn = chart.draw_series(marks)?;
        drawn.label(&curve.name).legend(move |(x, y)| Cross::new((x + 10, y), 5, colour.stroke_width(2)));
        return Ok(());
    }
    let high = curve.points.iter().map(|&(x, y, half)| (x, y + half));
    let low = curve.points.iter().rev().map(|&(x, y, half)| (x, (y - half).max(0.0)));
    let band = Polygon::new(high.chain(low).collect::<Vec<_>>(), colour.mix(0.2).filled());
    chart.draw_series(std::iter::once(band))?;
    let drawn = chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
    drawn
        .label(&curve.name)
        .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], colour.stroke_width(2)));
    Ok(())
}

/// Returns the smallest and the largest value, or a default range if they are equal: an axis needs some length.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
    if least < most { (least, most) } else { (0.0, most.max(1.0)) }
}
