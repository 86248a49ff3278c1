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

use crate::axis::Axis;
use crate::escape::Escaped;
use crate::look::Look;

/// The size of a chart, and of its edges, in units that are pixels where there is room.
const WIDTH: f64 = 560.0;
const WIDE: f64 = 1144.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;
/// How wide a character of a label is, about.
pub(crate) const CHARACTER: f64 = 6.8;
/// The most bands that are laid over a chart to say what is below the pointer.
const BANDS: usize = 120;

/// Lines, areas and dots over two axes, as SVG.
///
/// `to_string()` returns an `<svg>` element for an HTML page that has [`STYLE`](crate::STYLE). A [`Picture`](crate::Picture)
/// makes a file of its own of it.
///
/// ```
/// use flowgate_chart::{Axis, Chart, Layer, Look, Point, Unit};
///
/// let points = [(0.0, 10.0), (1.0, 15.0), (2.0, 12.0)].map(|(x, y)| Point::new(x, y));
/// let chart = Chart::new("rate", "Requests per second", Axis::time(2.0), Axis::from_zero(Unit::Rate, [15.0]))
///     .names("time since the start", "requests/s")
///     .layer(Layer::line("sent", Look::BLUE, [points.to_vec()]));
/// assert!(chart.to_string().starts_with("<svg"));
/// ```
#[derive(Clone, Debug)]
pub struct Chart {
    id: String,
    title: String,
    x: Axis,
    y: Axis,
    x_name: String,
    y_name: String,
    layers: Vec<Layer>,
    has_bands: bool,
    is_wide: bool,
    height: f64,
    empty_text: String,
}

/// One line, area or row of dots of a [`Chart`].
#[derive(Clone, Debug)]
pub struct Layer {
    pub(crate) look: Look,
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// Whether each value holds until the next; the last of a piece only ends it.
    is_stepped: bool,
    /// Pieces of it, with gaps between them.
    pieces: Vec<Vec<Point>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    Line,
    /// Down to the lowest value.
    Area,
    /// A line with a dot at each point.
    Dots,
}

/// A point of a [`Layer`], in the units of the axes.
#[derive(Clone, Debug)]
pub struct Point {
    x: f64,
    y: f64,
    text: Option<String>,
}

impl Point {
    /// Creates a point.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, text: None }
    }

    /// Returns the value on the horizontal axis.
    pub fn x(&self) -> f64 {
        self.x
    }

    /// Returns the value on the vertical axis.
    pub fn y(&self) -> f64 {
        self.y
    }

    /// Sets the text that the point shows under the pointer.
    pub fn text(mut self, text: impl Into<String>) -> Point {
        self.text = Some(text.into());
        self
    }
}

impl Layer {
    /// Creates a line through the points of each piece, with gaps between the pieces.
    pub fn line(
        name: impl Into<String>,
        look: Look,
        pieces: impl IntoIterator<Item = Vec<Point>>,
    ) -> Layer {
        Layer::new(name, look, Shape::Line, pieces)
    }

    /// Creates a shaded area below the points of each piece.
    pub fn area(
        name: impl Into<String>,
        look: Look,
        pieces: impl IntoIterator<Item = Vec<Point>>,
    ) -> Layer {
        Layer::new(name, look, Shape::Area, pieces)
    }

    /// Creates a thin line with a dot at each point.
    pub fn dots(
        name: impl Into<String>,
        look: Look,
        pieces: impl IntoIterator<Item = Vec<Point>>,
    ) -> Layer {
        Layer::new(name, look, Shape::Dots, pieces)
    }

    /// Lets each value hold until the next point, as in a staircase. The last point of a piece only ends it.
    pub fn stepped(mut self) -> Layer {
        self.is_stepped = true;
        self
    }

    fn new(
        name: impl Into<String>,
        look: Look,
        shape: Shape,
        pieces: impl IntoIterator<Item = Vec<Point>>,
    ) -> Layer {
        Layer {
            look,
            name: name.into(),
            shape,
            is_stepped: false,
            pieces: pieces.into_iter().collect(),
        }
    }

    /// Returns the values on the vertical axis.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.points().map(Point::y)
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.pieces.iter().flatten()
    }

    /// The lowest and the highest value in a range of x.
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
    /// Creates a chart without layers. `id` has to be different for each chart of a page.
    pub fn new(id: impl Into<String>, title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart {
            id: id.into(),
            title: title.into(),
            x,
            y,
            x_name: String::new(),
            y_name: String::new(),
            layers: Vec::new(),
            has_bands: false,
            is_wide: false,
            height: HEIGHT,
            empty_text: "no data".to_owned(),
        }
    }

    /// Sets the names of the axes.
    pub fn names(mut self, x: impl Into<String>, y: impl Into<String>) -> Chart {
        (self.x_name, self.y_name) = (x.into(), y.into());
        self
    }

    /// Adds a layer above those that the chart has.
    pub fn layer(mut self, layer: Layer) -> Chart {
        self.layers.push(layer);
        self
    }

    /// Adds several layers, in this order from the bottom to the top.
    pub fn layers(mut self, layers: impl IntoIterator<Item = Layer>) -> Chart {
        self.layers.extend(layers);
        self
    }

    /// Makes the chart as wide as two.
    pub fn wide(mut self) -> Chart {
        self.is_wide = true;
        self
    }

    /// Sets the height in pixels (default: 300; at least 120).
    pub fn height(mut self, pixels: u32) -> Chart {
        self.height = f64::from(pixels.max(120));
        self
    }

    /// Shows the values of all layers under the pointer, instead of those of one point.
    pub fn with_bands(mut self) -> Chart {
        self.has_bands = true;
        self
    }

    /// Sets the text that the chart shows if its layers have no points (default: "no data").
    pub fn empty_text(mut self, text: impl Into<String>) -> Chart {
        self.empty_text = text.into();
        self
    }

    /// Returns the title.
    pub fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn is_wide(&self) -> bool {
        self.is_wide
    }

    pub(crate) fn all_layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Its width and height, in pixels.
    pub(crate) fn size(&self) -> (f64, f64) {
        (self.width(), self.height)
    }

    fn width(&self) -> f64 {
        if self.is_wide { WIDE } else { WIDTH }
    }

    fn x(&self, value: f64) -> f64 {
        tenth(self.left() + (self.width() - self.left() - RIGHT) * self.x.place(value))
    }

    /// Where the plot begins: right of the labels.
    fn left(&self) -> f64 {
        let lengths = self.y.ticks.iter().map(|tick| tick.label.chars().count());
        LEFT.max(tenth(lengths.max().unwrap_or(0) as f64 * CHARACTER + 14.0))
    }

    fn y(&self, value: f64) -> f64 {
        tenth(self.height - BOTTOM - (self.height - BOTTOM - TOP) * self.y.place(value))
    }

    /// A piece of a layer, without the points that would be drawn where the one before is.
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
        // Of a line of no length, round ends make a dot.
        path + "h0"
    }

    fn draw(&self, layer: &Layer, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let look = layer.look;
        let bottom = self.height - BOTTOM;
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
        let (left, right, bottom) = (self.left(), self.width() - RIGHT, self.height - BOTTOM);
        writeln!(
            f,
            "<text class=\"name\" x=\"8\" y=\"15\">{}</text>",
            Escaped(&self.y_name)
        )?;
        writeln!(
            f,
            "<text class=\"name end\" x=\"{}\" y=\"{}\">{}</text>",
            right,
            self.height - 6.0,
            Escaped(&self.x_name)
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
        // From the right, so that the last label is there in any case.
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

    /// Invisible columns that say what lies in them.
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
                self.height - BOTTOM - TOP,
                Escaped(&self.x.unit.exact(from)),
                Escaped(&lines),
            )?;
        }
        Ok(())
    }

    /// What the chart shows, for those who hear it.
    fn description(&self) -> String {
        if self.y.is_named {
            let lines = self.layers.iter().flat_map(Layer::points);
            let lines = lines.filter_map(|point| {
                let name = &self.y.ticks.get(point.y as usize)?.label;
                Some(format!("{name}: {}. ", point.text.as_ref()?))
            });
            return lines.collect::<String>().trim_end().to_owned();
        }
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
            "" => self.empty_text.to_owned(),
            described => described.to_owned(),
        }
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, (width, height)) = (&self.id, self.size());
        let wide = if self.is_wide { " wide" } else { "" };
        writeln!(
            f,
            "<svg class=\"chart{wide}\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
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
                (self.left() + self.width() - RIGHT) / 2.0,
                (TOP + self.height - BOTTOM) / 2.0,
            );
            writeln!(
                f,
                "<text class=\"middle nothing\" x=\"{x}\" y=\"{y}\">{}</text>",
                Escaped(&self.empty_text)
            )?;
        }
        for layer in &self.layers {
            self.draw(layer, f)?;
        }
        if self.has_bands {
            self.bands(f)?;
        }
        f.write_str("</svg>\n")
    }
}

/// Rounds to a tenth of a pixel.
pub(crate) fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
