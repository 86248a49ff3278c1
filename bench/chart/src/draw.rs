//! One chart for each panel: a dot where a subject's middle is, a line for its spread.

use flowgate_chart::{Axis, Chart, Layer, Look, Picture, Point, Unit, significant};

use crate::record::{Bar, Panel};

/// Of a subject's line, and of what a chart has above and below them, in pixels.
const LINE: usize = 20;
const FRAME: usize = 74;
/// Smaller values are drawn at this value, because a median error may be zero.
const SMALLEST: f64 = 1e-3;

/// Returns the charts as one SVG file.
pub fn svg(title: &str, panels: &[Panel]) -> String {
    let charts = panels
        .iter()
        .enumerate()
        .map(|(index, panel)| chart(index, panel));
    Picture::new(title).charts(charts).to_string()
}

fn chart(index: usize, panel: &Panel) -> Chart {
    let values = || {
        panel
            .bars
            .iter()
            .flat_map(|bar| [bar.low, bar.high])
            .map(drawn)
    };
    let lowest = values().fold(f64::INFINITY, f64::min);
    let x = Axis::log(Unit::Count, lowest, values().fold(0.0, f64::max));
    let names = panel
        .bars
        .iter()
        .map(|bar| format!("{}: {}", bar.subject, significant(bar.middle, 3)));
    let ends = [-0.5, panel.bars.len() as f64 - 0.5];
    let one = ends.map(|line| Point::new(1.0, line)).to_vec();
    let title = format!("{} ({})", panel.title, panel.unit);
    let mut chart = Chart::new(format!("panel-{index}"), title, x, Axis::names(names))
        .names(&panel.unit, "")
        .wide()
        .height((FRAME + LINE * panel.bars.len()) as u32);
    if panel.unit.starts_with('×') {
        chart = chart.layer(Layer::line("", Look::GRAY, [one]));
    }
    chart
        .layer(Layer::dots("flowgate", Look::BLUE, spreads(panel, true)))
        .layer(Layer::dots("others", Look::GRAY, spreads(panel, false)))
}

/// The spread of each subject that is one of flowgate's, or is not.
fn spreads(panel: &Panel, are_ours: bool) -> Vec<Vec<Point>> {
    let lines = panel.bars.iter().enumerate();
    lines
        .filter(|(_, bar)| bar.is_ours() == are_ours)
        .map(|(line, bar)| spread(line as f64, bar))
        .collect()
}

fn spread(line: f64, bar: &Bar) -> Vec<Point> {
    let [low, middle, high] =
        [bar.low, bar.middle, bar.high].map(|value| Point::new(drawn(value), line));
    let text = [bar.middle, bar.low, bar.high].map(|value| significant(value, 3));
    vec![
        low,
        middle.text(format!("{} ({} to {})", text[0], text[1], text[2])),
        high,
    ]
}

fn drawn(value: f64) -> f64 {
    value.max(SMALLEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_has_a_line_with_its_numbers() {
        let bar = |subject: &str, middle| Bar {
            subject: subject.to_owned(),
            low: middle / 2.0,
            middle,
            high: middle * 3.0,
        };
        let panel = Panel {
            title: "admit full, 1 thread".to_owned(),
            unit: "× governor".to_owned(),
            bars: vec![bar("governor", 1.0), bar("flowgate", 0.0734)],
        };
        let svg = svg("single", &[panel]);
        for text in [
            "admit full, 1 thread (× governor)",
            "governor: 1<",
            "flowgate: 0.0734<",
            "0.0734 (0.0367 to 0.22)",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn an_error_of_zero_is_drawn_at_the_edge() {
        let bar = Bar {
            subject: "flowgate".to_owned(),
            low: 0.0,
            middle: 0.0,
            high: 10.0,
        };
        assert_eq!(
            spread(2.0, &bar).iter().map(Point::x).collect::<Vec<_>>(),
            [SMALLEST, SMALLEST, 10.0]
        );
    }
}
