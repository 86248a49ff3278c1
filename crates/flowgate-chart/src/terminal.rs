//! The text of a terminal as a picture.

use std::fmt;

use crate::chart::tenth;
use crate::escape::Escaped;
use crate::svg;

/// The text of a terminal as an SVG file, for documents. It follows the reader's choice of light or dark.
///
/// Lines that begin with `$ ` are commands, and are shown in bold type.
///
/// ```
/// let svg = flowgate_chart::Terminal::new("pace", "$ flowgate pace 2/s\none\ntwo")
///     .good("two")
///     .to_string();
/// assert!(svg.contains("class=\"good\""));
/// ```
#[derive(Clone, Debug)]
pub struct Terminal {
    title: String,
    text: String,
    good: Vec<String>,
    bad: Vec<String>,
}

const MARGIN: f64 = 18.0;
/// Of the bar above the text.
const BAR: f64 = 30.0;
const LINE: f64 = 18.0;
/// The width of a character of 13 pixels in most fonts; text is stretched to it.
const CHARACTER: f64 = 7.8;
/// The least number of columns.
const COLUMNS: usize = 60;

const STYLE: &str = "\
.line-of-text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, \"DejaVu Sans Mono\", monospace; fill: var(--ink) !important; white-space: pre; }
.command { font-weight: 700; }
.good { fill: var(--good); font-weight: 700; }
.bad { fill: var(--bad); font-weight: 700; }
.bar { stroke: var(--line); }
.light { fill: var(--line); }
";

impl Terminal {
    /// Creates a picture of `text`, line by line. `title` is read aloud, and stands above the text.
    pub fn new(title: impl Into<String>, text: impl Into<String>) -> Terminal {
        Terminal {
            title: title.into(),
            text: text.into(),
            good: Vec::new(),
            bad: Vec::new(),
        }
    }

    /// Shows each occurrence of `words` in green.
    pub fn good(mut self, words: impl Into<String>) -> Terminal {
        self.good.push(words.into());
        self
    }

    /// Shows each occurrence of `words` in red.
    pub fn bad(mut self, words: impl Into<String>) -> Terminal {
        self.bad.push(words.into());
        self
    }

    /// A line, with what is good or bad in it marked.
    fn marked(&self, line: &str) -> String {
        let words = |class| move |words: &String| (words.clone(), class);
        let marks = self.good.iter().map(words("good"));
        let marks = marks.chain(self.bad.iter().map(words("bad")));
        let found = marks
            .filter(|(words, _)| !words.is_empty())
            .filter_map(|(words, class)| Some((line.find(&words)?, words.len(), class)))
            .min_by_key(|&(at, length, _)| (at, usize::MAX - length));
        match found {
            None => Escaped(line).to_string(),
            Some((at, length, class)) => format!(
                "{}<tspan class=\"{class}\">{}</tspan>{}",
                Escaped(&line[..at]),
                Escaped(&line[at..at + length]),
                self.marked(&line[at + length..])
            ),
        }
    }
}

impl fmt::Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || self.text.lines().map(str::trim_end);
        let columns = lines().map(|line| line.chars().count());
        let columns = columns.max().unwrap_or(0).max(COLUMNS);
        let width = (2.0 * MARGIN + columns as f64 * CHARACTER).ceil();
        let height = BAR + MARGIN + lines().count() as f64 * LINE + MARGIN / 2.0;
        svg::open(f, width, height, &self.title)?;
        writeln!(f, "<style>\n{STYLE}</style>")?;
        writeln!(f, "<path class=\"bar\" d=\"M0.5 {BAR}H{}\"/>", width - 0.5)?;
        for index in 0..3 {
            let x = MARGIN + f64::from(index) * 16.0;
            writeln!(
                f,
                "<circle class=\"light\" cx=\"{x}\" cy=\"{}\" r=\"5\"/>",
                BAR / 2.0
            )?;
        }
        writeln!(
            f,
            "<text class=\"middle\" x=\"{}\" y=\"{}\">{}</text>",
            width / 2.0,
            BAR / 2.0 + 4.0,
            Escaped(&self.title)
        )?;
        let mut y = BAR + MARGIN + 4.0;
        for line in lines() {
            if !line.is_empty() {
                let class = match line.starts_with("$ ") {
                    true => "line-of-text command",
                    false => "line-of-text",
                };
                let length = tenth(line.chars().count() as f64 * CHARACTER);
                writeln!(
                    f,
                    "<text class=\"{class}\" x=\"{MARGIN}\" y=\"{y}\" textLength=\"{length}\" \
                     lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\">{}</text>",
                    self.marked(line)
                )?;
            }
            y += LINE;
        }
        f.write_str("</svg>\n")
    }
}
