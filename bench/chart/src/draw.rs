//! Panels under one another, each with a line for a subject: a dot where the middle is, a bar for the spread.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::record::{Bar, Panel};

const WIDTH: u32 = 960;
/// Of a subject's line.
const LINE: i32 = 20;
/// Above the first subject of a panel: its title.
const HEAD: i32 = 34;
/// Below the last: the axis.
const FOOT: i32 = 34;
const TITLE: i32 = 36;
/// Where names end, and the scale begins and ends; what is right of it is for numbers.
const LEFT: i32 = 270;
const RIGHT: i32 = 830;

const OURS: RGBColor = RGBColor(0x1f, 0x6f, 0xd6);
const OTHERS: RGBColor = RGBColor(0x70, 0x70, 0x70);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Writes the chart.
///
/// # Errors
///
/// A message if the file cannot be written.
pub fn svg(path: &Path, title: &str, panels: &[Panel]) -> Result<(), String> {
    let height = TITLE + panels.iter().map(height).sum::<i32>();
    let area = SVGBackend::new(path, (WIDTH, height.unsigned_abs())).into_drawing_area();
    draw(&area, title, panels).map_err(|error| error.to_string())
}

fn height(panel: &Panel) -> i32 {
    HEAD + LINE * panel.bars.len() as i32 + FOOT
}

fn draw(area: &Area<'_>, title: &str, panels: &[Panel]) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    text(area, title, (12, 18), 15, &BLACK, HPos::Left)?;
    let mut top = TITLE;
    for panel in panels {
        draw_panel(area, panel, top)?;
        top += height(panel);
    }
    area.present()?;
    Ok(())
}

fn draw_panel(area: &Area<'_>, panel: &Panel, top: i32) -> Result<(), Box<dyn std::error::Error>> {
    let scale = Scale::of(&panel.bars);
    let (first, bottom) = (top + HEAD, top + height(panel) - FOOT);
    let heading = format!("{} ({})", panel.title, panel.unit);
    text(area, &heading, (12, top + 16), 14, &BLACK, HPos::Left)?;
    for tick in scale.ticks() {
        let x = scale.x(tick);
        let is_one = tick == 1.0;
        let look = if is_one { OTHERS } else { GRID };
        area.draw(&PathElement::new(vec![(x, first), (x, bottom)], look))?;
        text(
            area,
            &number(tick),
            (x, bottom + 12),
            11,
            &OTHERS,
            HPos::Center,
        )?;
    }
    for (index, bar) in panel.bars.iter().enumerate() {
        let y = first + LINE * index as i32 + LINE / 2;
        let look = if bar.is_ours() { OURS } else { OTHERS };
        text(area, &bar.subject, (LEFT - 12, y), 13, &look, HPos::Right)?;
        let (low, high) = ((scale.x(bar.low), y), (scale.x(bar.high), y));
        area.draw(&PathElement::new(vec![low, high], look.stroke_width(2)))?;
        area.draw(&Circle::new((scale.x(bar.middle), y), 4, look.filled()))?;
        let told = number(bar.middle);
        text(area, &told, (RIGHT + 12, y), 13, &look, HPos::Left)?;
    }
    Ok(())
}

fn text(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    size: u32,
    look: &RGBColor,
    side: HPos,
) -> Result<(), Box<dyn std::error::Error>> {
    let style = ("sans-serif", size)
        .into_text_style(area)
        .color(look)
        .pos(Pos::new(side, VPos::Center));
    area.draw_text(text, &style, at)?;
    Ok(())
}

/// Logarithmic, over whole powers of ten that hold all bars.
struct Scale {
    least: i32,
    most: i32,
}

/// Smaller values are drawn at this value, because a median error may be zero.
const SMALLEST: f64 = 1e-3;

impl Scale {
    fn of(bars: &[Bar]) -> Scale {
        let lows = bars.iter().map(|bar| bar.low.max(SMALLEST));
        let highs = bars.iter().map(|bar| bar.high.max(SMALLEST));
        let least = lows.fold(f64::INFINITY, f64::min).log10().floor() as i32;
        let most = highs.fold(0.0, f64::max).log10().ceil() as i32;
        Scale {
            least,
            most: most.max(least + 1),
        }
    }

    fn x(&self, value: f64) -> i32 {
        let decades = f64::from(self.most - self.least);
        let share = (value.max(SMALLEST).log10() - f64::from(self.least)) / decades;
        LEFT + (share.clamp(0.0, 1.0) * f64::from(RIGHT - LEFT)).round() as i32
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.least..=self.most).map(|power| 10f64.powi(power))
    }
}

/// With three digits that matter.
fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 6) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (0.001, "0.001"),
            (0.07834, "0.0783"),
            (0.5, "0.5"),
            (1.0, "1"),
            (12.345, "12.3"),
            (64_321.0, "64321"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn a_scale_holds_all_of_its_bars() {
        let bar = |low, high| Bar {
            subject: String::new(),
            low,
            middle: low,
            high,
        };
        let scale = Scale::of(&[bar(0.07, 0.2), bar(0.9, 14.0)]);
        assert_eq!(
            scale.ticks().collect::<Vec<_>>(),
            [0.01, 0.1, 1.0, 10.0, 100.0]
        );
        assert_eq!((scale.x(0.01), scale.x(100.0)), (LEFT, RIGHT));
        assert_eq!(scale.x(1.0), (LEFT + RIGHT) / 2);
    }
}
