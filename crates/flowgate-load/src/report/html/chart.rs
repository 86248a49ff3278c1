//! One chart as SVG.
//!
//! ```text
//!  requests/s          ← what y is
//!    1k ┤───────────╮
//!       │           ╰── lines, areas and dots, in the order of their layers
//!     0 ┼────┬────┬──
//!       0   10 s  20 s   time ← what x is
//! ```

use std::fmt;

use crate::report::html::axis::Axis;
use crate::report::html::escape::Escaped;
use crate::report::html::run::Look;

/// Size of a chart and its margins, in units that are pixels if there is enough space.
const WIDTH: f64 = 560.0;
const WIDE: f64 = 1144.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;
/// Approximate width of a character of a label.
const CHARACTER: f64 = 6.8;
/// Maximum number of invisible bands that show the values below the pointer.
const BANDS: usize = 120;

/// A chart with two axes.
pub(super) struct Chart {
    /// Unique on the page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) x_name: &'static str,
    pub(super) y_name: &'static str,
    pub(super) layers: Vec<Layer>,
    /// Whether tooltips show all layers at a position, or each dot separately.
    pub(super) has_bands: bool,
    /// Whether the chart has double width.
    pub(super) is_wide: bool,
    /// Text of a chart without layers.
    pub(super) nothing: &'static str,
}

/// One line, area or row of dots.
pub(super) struct Layer {
    pub(super) look: Look,
    pub(super) name: String,
    pub(super) shape: Shape,
    /// Whether each value holds until the next; the last point of a piece only ends it.
    pub(super) is_stepped: bool,
    /// Pieces with gaps between them.
    pub(super) pieces: Vec<Vec<Point>>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shape {
    Line,
    /// An area down to the lowest value.
    Area,
    /// A line with a dot at each point.
    Dots,
}

/// A point, in the units of the axes.
#[derive(Clone)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Tooltip of this point.
    pub(super) text: Option<String>,
}

impl Point {
    pub(super) fn new(x: f64, y: f64) -> Point {
        Point { x, y, text: None }
    }
}

impl Layer {
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.pieces.iter().flatten()
    }

    /// Returns the lowest and the highest value in a range of x.
    fn range(&self, from: f64, to: f64) -> Option<(f64, f64)> {
        let values = self.pieces.iter().flat_map(|piece| {
            let ends = usize::from(self.is_stepped && piece.len() > 1);
            &piece[..piece.len() - ends]
        });
        let inside = values.filter(|point| (from..to).contains(&point.x));
        inside.fold(None, |range, &Point { y, .. }| match range {
            None => Some((y, y)),
            Some((low, high)) => Some((y.min(low), y.max(high))),
        })
    }
}

impl Chart {
    fn width(&self) -> f64 {
        if self.is_wide { WIDE } else { WIDTH }
    }

    fn x(&self, value: f64) -> f64 {
        tenth(LEFT + (self.width() - LEFT - RIGHT) * self.x.place(value))
    }

    fn y(&self, value: f64) -> f64 {
        tenth(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * self.y.place(value))
    }

    /// Returns the path of a piece, without points at the position of the previous one.
    fn path(&self, piece: &[Point], is_stepped: bool) -> String {
        let mut path = String::new();
        let mut last = None;
        for point in piece {
            let (x, y) = (self.x(point.x), self.y(point.y));
            path += &match last {
                None => format!("M{x} {y}"),
                Some(last) if last == (x, y) => continue,
                Some((_, last_y)) if last_y == y => format!("H{x}"),
                Some((last_x, _)) if last_x == x => format!("V{y}"),
                Some(_) if is_stepped => format!("H{x}V{y}"),
                Some(_) => format!("L{x} {y}"),
            };
            last = Some((x, y));
        }
        // Round ends make a dot of a line without length.
        path + "h0"
    }

    fn layer(&self, layer: &Layer, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let look = layer.look;
        let bottom = HEIGHT - BOTTOM;
        for piece in layer.pieces.iter().filter(|piece| !piece.is_empty()) {
            let path = self.path(piece, layer.is_stepped);
            let ends = (self.x(piece[0].x), self.x(piece[piece.len() - 1].x));
            match layer.shape {
                Shape::Area => {
                    let (first, last) = ends;
                    writeln!(
                        f,
                        "<path class=\"area {look}\" d=\"{path}L{last} {bottom}L{first} {bottom}Z\"/>"
                    )?;
                    writeln!(f, "<path class=\"edge {look}\" d=\"{path}\"/>")?;
                }
                Shape::Line => writeln!(f, "<path class=\"line {look}\" d=\"{path}\"/>")?,
                Shape::Dots => writeln!(f, "<path class=\"line thin {look}\" d=\"{path}\"/>")?,
            }
        }
        for point in layer.points() {
            let Some(text) = &point.text else { continue };
            let (x, y) = (self.x(point.x), self.y(point.y));
            let (class, radius) = if layer.shape == Shape::Dots {
                ("dot", "3.2")
            } else {
                ("spot", "5")
            };
            let text = Escaped(text);
            writeln!(
                f,
                "<circle class=\"{class} {look}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"><title>{text}</title></circle>"
            )?;
        }
        Ok(())
    }

    fn frame(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, right, bottom) = (LEFT, self.width() - RIGHT, HEIGHT - BOTTOM);
        writeln!(
            f,
            "<text class=\"name\" x=\"8\" y=\"15\">{}</text>",
            Escaped(self.y_name)
        )?;
        writeln!(
            f,
            "<text class=\"name end\" x=\"{}\" y=\"{}\">{}</text>",
            right,
            HEIGHT - 6.0,
            Escaped(self.x_name)
        )?;
        for tick in &self.y.ticks {
            let y = self.y(tick.at);
            writeln!(f, "<path class=\"grid\" d=\"M{left} {y}H{right}\"/>")?;
            writeln!(
                f,
                "<text class=\"end\" x=\"{}\" y=\"{}\">{}</text>",
                left - 8.0,
                tenth(y + 4.0),
                Escaped(&tick.label)
            )?;
        }
        // From the right, so that the last label is always present.
        let mut free = f64::INFINITY;
        for tick in self.x.ticks.iter().rev() {
            let x = self.x(tick.at);
            writeln!(f, "<path class=\"tick\" d=\"M{x} {bottom}v5\"/>")?;
            let half = tick.label.chars().count() as f64 * CHARACTER / 2.0;
            if x + half + 10.0 < free {
                writeln!(
                    f,
                    "<text class=\"middle\" x=\"{x}\" y=\"{}\">{}</text>",
                    bottom + 19.0,
                    Escaped(&tick.label)
                )?;
                free = x - half;
            }
        }
        writeln!(f, "<path class=\"base\" d=\"M{left} {bottom}H{right}\"/>")
    }

    /// Draws invisible columns whose tooltips show the values in them.
    fn bands(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut starts: Vec<f64> = self
            .layers
            .iter()
            .flat_map(Layer::points)
            .map(|point| point.x)
            .collect();
        starts.sort_by(f64::total_cmp);
        starts.dedup();
        let step = starts.len().div_ceil(BANDS).max(1);
        let mut starts: Vec<f64> = starts.into_iter().step_by(step).collect();
        starts.push(f64::INFINITY);
        for pair in starts.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let lines = self.layers.iter().filter_map(|layer| {
                let (low, high) = layer.range(from, to)?;
                let (low, high) = (self.y.unit.exact(low), self.y.unit.exact(high));
                Some(match low == high {
                    true => format!("\n{}: {high}", layer.name),
                    false => format!("\n{}: {low} to {high}", layer.name),
                })
            });
            let lines: String = lines.collect();
            let (x, end) = (self.x(from), self.x(to));
            if lines.is_empty() || end - x < 0.1 {
                continue;
            }
            writeln!(
                f,
                "<rect class=\"band\" x=\"{}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"><title>from {}{}</title></rect>",
                x,
                tenth(end - x),
                HEIGHT - BOTTOM - TOP,
                Escaped(&self.x.unit.exact(from)),
                Escaped(&lines),
            )?;
        }
        Ok(())
    }

    /// Returns a description of the chart for screen readers.
    fn description(&self) -> String {
        let described = self.layers.iter().filter_map(|layer| {
            let (low, high) = layer.range(f64::NEG_INFINITY, f64::INFINITY)?;
            Some(format!(
                "{}: from {} to {}. ",
                layer.name,
                self.y.unit.exact(low),
                self.y.unit.exact(high)
            ))
        });
        let described: String = described.collect();
        match described.trim_end() {
            "" => self.nothing.to_owned(),
            described => described.to_owned(),
        }
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, width) = (&self.id, self.width());
        let wide = if self.is_wide { " wide" } else { "" };
        writeln!(
            f,
            "<svg class=\"chart{wide}\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" \
            role=\"img\" aria-labelledby=\"{id}-title {id}-about\">"
        )?;
        writeln!(
            f,
            "<title id=\"{id}-title\">{}</title>",
            Escaped(&self.title)
        )?;
        writeln!(
            f,
            "<desc id=\"{id}-about\">{}</desc>",
            Escaped(&self.description())
        )?;
        self.frame(f)?;
        let is_empty = self
            .layers
            .iter()
            .all(|layer| layer.points().next().is_none());
        if is_empty {
            let (x, y) = (
                (LEFT + self.width() - RIGHT) / 2.0,
                (TOP + HEIGHT - BOTTOM) / 2.0,
            );
            writeln!(
                f,
                "<text class=\"middle nothing\" x=\"{x}\" y=\"{y}\">{}</text>",
                Escaped(self.nothing)
            )?;
        }
        for layer in &self.layers {
            self.layer(layer, f)?;
        }
        if self.has_bands {
            self.bands(f)?;
        }
        f.write_str("</svg>\n")
    }
}

/// Rounds to a tenth of a pixel.
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
