//! Draws numbers as a row of bars, and a fraction as one bar.

const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const WIDTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Draws the last `width` values as bars. The largest fills the line; zero is blank.
pub(crate) fn line(values: &[u64], width: usize) -> String {
    let shown = &values[values.len().saturating_sub(width)..];
    let largest = shown.iter().copied().max().unwrap_or(0);
    let bar = |&value: &u64| match (value, largest) {
        (0, _) => ' ',
        // Rounded up, so that every value is visible.
        (value, largest) => {
            let eighths = (u128::from(value) * 8).div_ceil(u128::from(largest));
            HEIGHTS[(eighths as usize).clamp(1, 8) - 1]
        }
    };
    shown.iter().map(bar).collect()
}

/// Draws a fraction as a bar between brackets, `width` columns in total.
pub(crate) fn share(share: f64, width: usize) -> String {
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
        assert_eq!(line(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 9), " ▁▂▃▄▅▆▇█");
        assert_eq!(line(&[1000, 1], 9), "█▁");
        assert_eq!(line(&[7, 7, 7], 2), "██");
        assert_eq!(line(&[0, 0], 9), "  ");
        assert_eq!(line(&[u64::MAX, u64::MAX / 2], 9), "█▄");
        assert_eq!(line(&[], 9), "");
        assert_eq!(line(&[5], 0), "");
    }

    #[test]
    fn a_share_fills_its_part() {
        assert_eq!(share(0.0, 6), "[    ]");
        assert_eq!(share(0.5, 6), "[██  ]");
        assert_eq!(share(0.29, 6), "[█▏  ]");
        assert_eq!(share(1.0, 6), "[████]");
        assert_eq!(share(7.0, 6), "[████]");
        assert_eq!(share(f64::NAN, 6), "[    ]");
        assert_eq!(share(0.5, 0), "[]");
    }
}
