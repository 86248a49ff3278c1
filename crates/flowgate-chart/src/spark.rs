//! One line of a terminal: numbers as a row of bars, and a share as one bar.

use crate::bars::EIGHTHS;

/// Parts of a column that a character can show.
const WIDTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Draws the last `width` values as a row of bars, in one line of text.
///
/// The largest value fills the line, and zero is blank.
///
/// ```
/// assert_eq!(flowgate_chart::sparkline(&[9, 0, 1, 2, 4], 4), " ▂▄█");
/// ```
pub fn sparkline(values: &[u64], width: usize) -> String {
    let shown = &values[values.len().saturating_sub(width)..];
    let largest = shown.iter().copied().max().unwrap_or(0);
    let bar = |&value: &u64| match (value, largest) {
        (0, _) => ' ',
        // Rounded up, so that every value is visible.
        (value, largest) => {
            let eighths = (u128::from(value) * 8).div_ceil(u128::from(largest));
            EIGHTHS[(eighths as usize).clamp(1, 8) - 1]
        }
    };
    shown.iter().map(bar).collect()
}

/// Draws a share, from 0 to 1, as a bar between brackets.
///
/// The text has `width` columns, and at least the two brackets.
///
/// ```
/// assert_eq!(flowgate_chart::share_bar(0.5, 6), "[██  ]");
/// ```
pub fn share_bar(share: f64, width: usize) -> String {
    let inner = width.saturating_sub(2);
    let eighths = (share.clamp(0.0, 1.0) * (inner * 8) as f64) as usize;
    let mut bar: String = std::iter::repeat_n('█', eighths / 8).collect();
    if eighths / 8 < inner {
        bar.push(WIDTHS[eighths % 8]);
    }
    format!("[{bar:<inner$}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_fills_the_line() {
        assert_eq!(sparkline(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 9), " ▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[1000, 1], 9), "█▁");
        assert_eq!(sparkline(&[7, 7, 7], 2), "██");
        assert_eq!(sparkline(&[0, 0], 9), "  ");
        assert_eq!(sparkline(&[u64::MAX, u64::MAX / 2], 9), "█▄");
        assert_eq!(sparkline(&[], 9), "");
        assert_eq!(sparkline(&[5], 0), "");
    }

    #[test]
    fn a_share_fills_its_part() {
        assert_eq!(share_bar(0.0, 6), "[    ]");
        assert_eq!(share_bar(0.5, 6), "[██  ]");
        assert_eq!(share_bar(0.29, 6), "[█▏  ]");
        assert_eq!(share_bar(1.0, 6), "[████]");
        assert_eq!(share_bar(7.0, 6), "[████]");
        assert_eq!(share_bar(f64::NAN, 6), "[    ]");
        assert_eq!(share_bar(0.5, 0), "[]");
    }
}
