//! A comparison as text: the table, and a picture in characters.

use std::fmt;

use console::{Style, Term, colors_enabled};
use flowgate_chart::{Axis, Bars, Look, Unit, grouped};

use super::comparison::{Comparison, PolicyRun, Slot};
use super::rows::{percent, rows, seconds};

/// Width where the terminal's is unknown, and the range of widths that are used.
const USUAL: usize = 80;
const NARROWEST: usize = 60;
const WIDEST: usize = 120;
/// Width of a policy's name in the table, in its lines. A longer cell makes the column wider.
const NAME: usize = 16;
const GAP: &str = "   ";

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextStyle {
    pub(crate) width: usize,
    pub(crate) is_ascii: bool,
    pub(crate) has_color: bool,
}

impl TextStyle {
    /// Returns the style of standard output.
    ///
    /// Colors follow `NO_COLOR` and whether it is a terminal. A locale without UTF-8 gets ASCII.
    pub(crate) fn of_stdout() -> TextStyle {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        TextStyle {
            width: Term::stdout()
                .size_checked()
                .map_or(USUAL, |(_, columns)| usize::from(columns)),
            is_ascii: locale.is_some_and(|locale| {
                let locale = locale.to_ascii_lowercase();
                !locale.contains("utf-8") && !locale.contains("utf8")
            }),
            has_color: colors_enabled(),
        }
    }

    fn columns(self) -> usize {
        self.width.clamp(NARROWEST, WIDEST)
    }

    fn colored(self, look: Look, text: &str) -> String {
        match self.has_color {
            true => look.in_terminal(text),
            false => text.to_owned(),
        }
    }

    pub(super) fn bold(self, text: &str) -> String {
        let style = Style::new().bold().force_styling(self.has_color);
        style.apply_to(text).to_string()
    }
}

/// Returns the table, the keys that were refused most, and the picture.
pub(super) fn text(comparison: &Comparison, style: TextStyle) -> String {
    let text = Text { comparison, style }.to_string();
    match style.is_ascii {
        true => text
            .replace('µ', "u")
            .replace('…', "...")
            .replace('≥', ">="),
        false => text,
    }
}

struct Text<'a> {
    comparison: &'a Comparison,
    style: TextStyle,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comparison = self.comparison;
        let title = printable(&comparison.title);
        if !title.is_empty() {
            writeln!(f, "{}", self.style.bold(&title))?;
        }
        writeln!(
            f,
            "{} of traffic, seed {}\n",
            seconds(comparison.duration_ns),
            comparison.seed
        )?;
        self.table(f)?;
        self.most_refused(f)?;
        self.picture(f)
    }
}

impl Text<'_> {
    fn runs(&self) -> impl Iterator<Item = (Look, &PolicyRun)> {
        let runs = self.comparison.policies.iter().enumerate();
        runs.map(|(index, run)| (Look::of(index), run))
    }

    /// Writes a column per policy, in as many tables as the width needs.
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = rows(self.comparison);
        let label = rows
            .iter()
            .map(|row| printable(&row.name).chars().count())
            .max()
            .unwrap_or(0);
        let columns: Vec<Column> = self
            .runs()
            .enumerate()
            .map(|(index, (look, run))| {
                let cells = rows.iter().map(|row| row.cells[index].as_deref());
                Column::new(look, &run.policy, cells)
            })
            .collect();
        let mut rest = columns.as_slice();
        while !rest.is_empty() {
            let mut width = label;
            let fitting = rest.iter().take_while(|column| {
                width += GAP.len() + column.width;
                width <= self.style.columns()
            });
            let (shown, after) = rest.split_at(fitting.count().max(1));
            rest = after;
            let lines = shown.iter().map(|column| column.name.len()).max();
            let lines = lines.unwrap_or(0);
            for line in 0..lines {
                let mut space = label;
                for column in shown {
                    space += GAP.len() + column.width;
                    // Names of fewer lines stand at the bottom.
                    let above = lines - column.name.len();
                    if let Some(line) = line.checked_sub(above) {
                        let name = &column.name[line];
                        space -= name.chars().count();
                        let name = self.style.colored(column.look, name);
                        write!(f, "{:space$}{name}", "")?;
                        space = 0;
                    }
                }
                writeln!(f)?;
            }
            for (index, row) in rows.iter().enumerate() {
                write!(f, "{:label$}", printable(&row.name))?;
                for column in shown {
                    write!(f, "{GAP}{:>1$}", column.cells[index], column.width)?;
                }
                writeln!(f)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    /// Writes a line per policy, if there are several keys.
    fn most_refused(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = || self.runs().filter(|(_, run)| has_refused_keys(run));
        if refused().next().is_none() {
            return Ok(());
        }
        let width = self.style.columns();
        writeln!(f, "refused most, by key")?;
        for (look, run) in refused() {
            let name = cut(&printable(&run.policy), width - 2);
            writeln!(f, "  {}", self.style.colored(look, &name))?;
            let mut line = String::new();
            for key in &run.keys.most_refused {
                let refused = grouped(key.refused).replace('\u{202f}', ",");
                let share = percent(key.refused_share());
                let item = format!("{}: {refused} ({share})", printable(&key.key));
                let gap = if line.is_empty() { "    " } else { GAP };
                if [&line, gap, &item]
                    .map(|part| part.chars().count())
                    .iter()
                    .sum::<usize>()
                    > width
                {
                    break;
                }
                line = line + gap + &item;
            }
            writeln!(f, "{line}")?;
        }
        writeln!(f)
    }

    /// Writes what each policy admitted over time, with the same axes.
    fn picture(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = self.comparison.slot_seconds();
        let used = |run: &PolicyRun| {
            let is_used = |slot: &Slot| slot.attempts + slot.admitted > 0;
            let last = run.slots.iter().rposition(is_used);
            last.map_or(0.0, |last| (last + 1) as f64 * slot)
        };
        let ends = self.comparison.policies.iter().map(used);
        let end = ends.fold(self.comparison.duration_ns as f64 / 1e9, f64::max);
        let columns = self.style.columns() - Bars::MARGIN;
        let rates = |run: &PolicyRun, count: fn(&Slot) -> u64| {
            let counts: Vec<u64> = run.slots.iter().map(count).collect();
            per_second(&counts, slot, end / columns as f64, columns)
        };
        let pictures: Vec<_> = self
            .runs()
            .map(|(look, run)| {
                let offered = rates(run, |slot| slot.attempts);
                (look, run, offered, rates(run, |slot| slot.admitted))
            })
            .collect();
        let all = pictures
            .iter()
            .flat_map(|(_, _, offered, admitted)| offered.iter().chain(admitted));
        let y = Axis::from_zero(Unit::Rate, all.copied());
        if end <= 0.0 || pictures.iter().all(|(_, run, ..)| run.counts.attempts == 0) {
            return writeln!(f, "no requests");
        }
        let (bar, behind) = Bars::characters(self.style.is_ascii);
        writeln!(f, "requests/s: {bar} admitted, {behind} not admitted")?;
        for (look, run, offered, admitted) in pictures {
            let name = cut(&printable(&run.policy), columns);
            let name = self.style.colored(look, &name);
            let bars = Bars::new(Axis::time(end), y.clone(), admitted, look)
                .behind(offered)
                .ascii(self.style.is_ascii)
                .color(self.style.has_color);
            write!(f, "\n{:1$}{name}\n{bars}", "", Bars::MARGIN)?;
        }
        Ok(())
    }
}

/// Whether the keys that were refused most tell more than the counts.
pub(super) fn has_refused_keys(run: &PolicyRun) -> bool {
    run.keys.count > 1 && !run.keys.most_refused.is_empty()
}

/// A policy's part of the table.
struct Column {
    look: Look,
    name: Vec<String>,
    cells: Vec<String>,
    width: usize,
}

impl Column {
    fn new<'a>(look: Look, policy: &str, cells: impl Iterator<Item = Option<&'a str>>) -> Column {
        let cells = cells.map(|cell| cell.unwrap_or("-").replace('\u{202f}', ","));
        let cells: Vec<String> = cells.collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max();
        let name = wrapped(&printable(policy), NAME.max(width.unwrap_or(0)));
        let names = name.iter().map(|line| line.chars().count());
        Column {
            look,
            width: names.chain(width).max().unwrap_or(0),
            name,
            cells,
        }
    }
}

/// Breaks text at spaces, and words that are too long where the line ends.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for part in letters.chunks(width) {
            let line = lines.last_mut().expect("there is one line");
            let length = line.chars().count();
            match length {
                0 => {}
                _ if length + 1 + part.len() <= width => line.push(' '),
                _ => lines.push(String::new()),
            }
            let line = lines.last_mut().expect("there is one line");
            line.extend(part);
        }
    }
    lines
}

/// Rates in columns of equal length, from counts in slots of equal length.
fn per_second(counts: &[u64], slot: f64, column: f64, columns: usize) -> Vec<f64> {
    let mut sums = vec![0.0; columns];
    for (index, count) in counts.iter().enumerate() {
        let (from, to) = (index as f64 * slot, (index + 1) as f64 * slot);
        let first = (from / column) as usize;
        for (at, sum) in sums.iter_mut().enumerate().skip(first) {
            let start = at as f64 * column;
            let overlap = (to.min(start + column) - from.max(start)).max(0.0);
            *sum += *count as f64 * overlap / slot;
            if start + column >= to {
                break;
            }
        }
    }
    sums.into_iter().map(|sum| sum / column).collect()
}

/// Replaces control characters, which a terminal would obey.
pub(super) fn printable(text: &str) -> String {
    let printable = |letter: char| match letter.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => letter,
    };
    text.chars().map(printable).collect()
}

fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => {
            let kept: String = text.chars().take(width.saturating_sub(1)).collect();
            kept + "…"
        }
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_broken_at_spaces_and_long_words_where_the_line_ends() {
        assert_eq!(
            wrapped("token 100/s burst 20", 11),
            ["token 100/s", "burst 20"]
        );
        assert_eq!(wrapped("abcdefgh ij", 5), ["abcde", "fgh", "ij"]);
        assert_eq!(wrapped("", 5), [""]);
    }

    #[test]
    fn columns_have_the_requests_of_the_slots() {
        // Four slots of 1 s in eight columns, and in three of 4/3 s.
        let counts = [10, 0, 30, 20];
        let fine = per_second(&counts, 1.0, 0.5, 8);
        assert_eq!(fine, [10.0, 10.0, 0.0, 0.0, 30.0, 30.0, 20.0, 20.0]);
        let coarse = per_second(&counts, 1.0, 4.0 / 3.0, 3);
        let all: f64 = coarse.iter().map(|rate| rate * 4.0 / 3.0).sum();
        assert!((all - 60.0).abs() < 1e-9, "{coarse:?}");
    }
}
