//! What each SVG file begins with.

use std::fmt;

use crate::escape::Escaped;

/// Beside the style of charts: the card below everything, and titles.
const PICTURE: &str = "\
svg { font-family: system-ui, -apple-system, \"Segoe UI\", Roboto, \"Helvetica Neue\", Arial, sans-serif; }
.card { fill: var(--card); stroke: var(--line); }
.chart .title { font-size: 16px; font-weight: 600; fill: var(--ink); }
.chart .caption { font-size: 13px; font-weight: 500; fill: var(--ink); }
";

/// Writes the beginning of a file: its size, title, style and background.
pub(crate) fn open(
    f: &mut fmt::Formatter<'_>,
    width: f64,
    height: f64,
    title: &str,
) -> fmt::Result {
    writeln!(
        f,
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"picture-title\">\n\
         <title id=\"picture-title\">{}</title>\n\
         <style>\n{}{}{PICTURE}</style>\n\
         <rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\"/>",
        Escaped(title),
        include_str!("theme.css"),
        include_str!("chart.css"),
        width - 1.0,
        height - 1.0,
    )
}
