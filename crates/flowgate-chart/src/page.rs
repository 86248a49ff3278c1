//! A page of HTML: one file that loads nothing and runs no script.

use std::fmt::{self, Display};

use crate::chart::Chart;
use crate::escape::Escaped;

/// The style of a page and of the charts in it, as CSS. Colors follow the reader's choice of light or dark.
pub const STYLE: &str = concat!(
    include_str!("theme.css"),
    include_str!("page.css"),
    include_str!("chart.css")
);

/// Returns a page of HTML.
///
/// The page is a single file that loads nothing and runs no script. `product` is the name in its title, and `version` that in
/// its last line. `content` is HTML; escape text in it with [`Escaped`].
///
/// ```
/// let page = flowgate_chart::page("a & b", "flowgate load", "0.1.0", &"<p>hello</p>");
/// assert!(page.contains("<title>a &amp; b · flowgate load</title>"));
/// ```
pub fn page(title: &str, product: &str, version: &str, content: &dyn Display) -> String {
    format!(
        "<!DOCTYPE html>\n\
        <html lang=\"en\">\n\
        <head>\n\
        <meta charset=\"utf-8\"/>\n\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
        <title>{} · {product}</title>\n\
        <style>\n{STYLE}</style>\n\
        </head>\n\
        <body>\n\
        <main>\n\
        {content}</main>\n\
        <footer>flowgate {version}</footer>\n\
        </body>\n\
        </html>\n",
        Escaped(title),
    )
}

/// Charts that belong together, with a title, a caption and a legend, as HTML.
#[derive(Clone, Debug)]
pub struct Figure {
    title: String,
    caption: String,
    keys: String,
    charts: Vec<Chart>,
}

impl Figure {
    /// Creates a figure. `caption` tells how to read it.
    pub fn new(title: impl Into<String>, caption: impl Into<String>) -> Figure {
        Figure {
            title: title.into(),
            caption: caption.into(),
            keys: String::new(),
            charts: Vec::new(),
        }
    }

    /// Sets the legend, as HTML: [`Key`](crate::Key)s.
    pub fn keys(mut self, keys: impl Into<String>) -> Figure {
        self.keys = keys.into();
        self
    }

    /// Adds charts.
    pub fn charts(mut self, charts: impl IntoIterator<Item = Chart>) -> Figure {
        self.charts.extend(charts);
        self
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_half = matches!(self.charts.as_slice(), [chart] if !chart.is_wide());
        let class = if is_half { "half" } else { "full" };
        writeln!(f, "<section class=\"{class}\">")?;
        writeln!(f, "<h2>{}</h2>", Escaped(&self.title))?;
        writeln!(f, "<p class=\"caption\">{}</p>", Escaped(&self.caption))?;
        writeln!(f, "<p class=\"keys\">{}</p>", self.keys)?;
        f.write_str("<div class=\"charts\">\n")?;
        for chart in &self.charts {
            f.write_str("<figure>\n")?;
            if self.charts.len() > 1 {
                writeln!(f, "<figcaption>{}</figcaption>", Escaped(chart.title()))?;
            }
            writeln!(f, "{chart}</figure>")?;
        }
        f.write_str("</div>\n</section>\n")
    }
}
