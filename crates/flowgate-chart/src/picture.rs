//! Charts as an SVG file of its own.

use std::fmt;

use crate::chart::{CHARACTER, Chart, Shape, tenth};
use crate::escape::Escaped;
use crate::look::{Look, Swatch};
use crate::svg;

/// Charts in one SVG file, with a title and a legend. It follows the reader's choice of light or dark.
///
/// ```
/// use flowgate_chart::{Axis, Chart, Layer, Look, Picture, Point, Unit};
///
/// let line = Layer::line("sent", Look::BLUE, [vec![Point::new(0.0, 1.0), Point::new(9.0, 2.0)]]);
/// let chart = Chart::new("sent", "Sent", Axis::time(9.0), Axis::from_zero(Unit::Count, [2.0])).layer(line);
/// let svg = Picture::new("Requests").chart(chart).to_string();
/// assert!(svg.contains("prefers-color-scheme: dark"));
/// ```
#[derive(Clone, Debug)]
pub struct Picture {
    title: String,
    columns: usize,
    charts: Vec<Chart>,
}

/// Around the charts, and between them.
const MARGIN: f64 = 16.0;
/// Of the title, and of a line of the legend.
const TITLE: f64 = 30.0;
const LEGEND: f64 = 22.0;
/// Of the title of each chart, where there are several.
const CAPTION: f64 = 22.0;

impl Picture {
    /// Creates a picture without charts, in one column.
    pub fn new(title: impl Into<String>) -> Picture {
        Picture {
            title: title.into(),
            columns: 1,
            charts: Vec::new(),
        }
    }

    /// Sets the number of columns (default: 1). Wide charts need one column.
    pub fn columns(mut self, columns: usize) -> Picture {
        self.columns = columns.max(1);
        self
    }

    /// Adds a chart after those that the picture has.
    pub fn chart(mut self, chart: Chart) -> Picture {
        self.charts.push(chart);
        self
    }

    /// Adds several charts.
    pub fn charts(mut self, charts: impl IntoIterator<Item = Chart>) -> Picture {
        self.charts.extend(charts);
        self
    }

    /// Each name once, in the order of the layers.
    fn legend(&self) -> Vec<(Look, bool, &str)> {
        let mut legend: Vec<(Look, bool, &str)> = Vec::new();
        for layer in self.charts.iter().flat_map(Chart::all_layers) {
            let entry = (layer.look, layer.shape == Shape::Area, layer.name.as_str());
            if !entry.2.is_empty() && !legend.contains(&entry) {
                legend.push(entry);
            }
        }
        legend
    }
}

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns.min(self.charts.len()).max(1);
        let (mut cell_width, mut cell_height) = (320.0_f64, 0.0_f64);
        for (width, height) in self.charts.iter().map(Chart::size) {
            cell_width = cell_width.max(width);
            cell_height = cell_height.max(height);
        }
        let is_captioned = self.charts.len() > 1;
        if is_captioned {
            cell_height += CAPTION;
        }
        let rows = self.charts.len().div_ceil(columns);
        let width = MARGIN + columns as f64 * (cell_width + MARGIN);

        // The legend, broken into lines.
        let (mut x, mut y) = (MARGIN, MARGIN + TITLE);
        let mut entries = String::new();
        for (look, is_area, name) in self.legend() {
            let length = 42.0 + name.chars().count() as f64 * CHARACTER + 18.0;
            if x > MARGIN && x + length > width - MARGIN {
                (x, y) = (MARGIN, y + LEGEND);
            }
            let swatch = Swatch { look, is_area };
            entries += &format!(
                "<g transform=\"translate({} {})\">{swatch}<text x=\"42\" y=\"10\">{}</text></g>\n",
                tenth(x),
                tenth(y),
                Escaped(name)
            );
            x += length;
        }
        let top = if entries.is_empty() { y } else { y + LEGEND };
        let height = top + rows as f64 * (cell_height + MARGIN);

        svg::open(f, width, height, &self.title)?;
        writeln!(
            f,
            "<text class=\"title\" x=\"{MARGIN}\" y=\"{}\">{}</text>\n{entries}",
            MARGIN + 14.0,
            Escaped(&self.title)
        )?;
        for (index, chart) in self.charts.iter().enumerate() {
            let x = MARGIN + (index % columns) as f64 * (cell_width + MARGIN);
            let mut y = top + (index / columns) as f64 * (cell_height + MARGIN);
            if is_captioned {
                writeln!(
                    f,
                    "<text class=\"caption\" x=\"{x}\" y=\"{}\">{}</text>",
                    y + 14.0,
                    Escaped(chart.title())
                )?;
                y += CAPTION;
            }
            let (chart_width, chart_height) = chart.size();
            write!(
                f,
                "<svg x=\"{x}\" y=\"{y}\" width=\"{chart_width}\" height=\"{chart_height}\">\n{chart}</svg>\n"
            )?;
        }
        f.write_str("</svg>\n")
    }
}
