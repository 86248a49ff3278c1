//! Charts as SVG and HTML that follow light and dark.
//!
//! The reports of `flowgate load` and `flowgate verify` and the pictures in flowgate's documentation are made with this crate.
//! It draws lines, areas and dots over linear, logarithmic, time and percentile axes. What it writes loads nothing, runs no
//! script, prints well, and has a description for screen readers.
//!
//! ```
//! use flowgate_chart::{Axis, Chart, Layer, Look, Picture, Point, Unit};
//!
//! let sent: Vec<Point> = (0..10).map(|s| Point::new(f64::from(s), 100.0)).collect();
//! let chart = Chart::new("sent", "Requests sent", Axis::time(9.0), Axis::from_zero(Unit::Rate, [100.0]))
//!     .names("time since the start", "requests/s")
//!     .layer(Layer::line("sent", Look::BLUE, [sent]));
//! let svg = Picture::new("One run").chart(chart).to_string();
//! assert!(svg.starts_with("<svg"));
//! ```
//!
//! - [`Chart`], [`Layer`], [`Point`], [`Look`]: what is drawn. [`Axis`], [`Unit`]: where.
//! - [`page`], [`Figure`], [`Key`]: a page of HTML. [`Picture`], [`Terminal`]: an SVG file.
//! - [`Bars`]: a chart in characters, for a terminal. [`sparkline`], [`share_bar`]: one line of it.
//! - [`Escaped`], [`duration`], [`significant`] and others: text for both.
//!
//! Feature `png` adds `Picture::to_png`, which needs no fonts of the system.
//!
//! The SVG is written without a plotting library: these draw with fixed colors. A page that follows light and dark needs its
//! lines as classes and its charts with descriptions.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/flowgate-chart/0.1.0")]

mod axis;
mod bars;
mod chart;
mod escape;
mod look;
mod number;
mod page;
mod picture;
#[cfg(feature = "png")]
mod png;
mod spark;
mod svg;
mod terminal;

pub use axis::{Axis, share};
pub use bars::Bars;
pub use chart::{Chart, Layer, Point};
pub use escape::Escaped;
pub use look::{Key, Look, keys};
pub use number::{Unit, bytes, duration, grouped, significant};
pub use page::{Figure, STYLE, page};
pub use picture::Picture;
#[cfg(feature = "png")]
pub use png::PngError;
pub use spark::{share_bar, sparkline};
pub use terminal::Terminal;

/// The examples of the README are tested, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
