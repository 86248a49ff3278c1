//! A picture as PNG, for documents that do not take SVG.
//!
//! resvg has no CSS variables and no media queries, so the colors of the light theme are put in before it reads the file.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use crate::picture::Picture;

const FONT: &[u8] = include_bytes!("../fonts/DejaVuSansCondensed-subset.ttf");
/// As its table of names has it; condensed is its width.
const FAMILY: &str = "DejaVu Sans";
const THEME: &str = include_str!("theme.css");
/// The most pixels of a file: 256 MiB of memory while it is drawn.
const MOST_PIXELS: f32 = 64.0 * 1024.0 * 1024.0;

impl Picture {
    /// Returns the picture as a PNG file in light colors.
    ///
    /// Each unit of the SVG has `scale` pixels. Text is drawn with a font that is part of this crate. It has Latin, Greek and Cyrillic letters.
    ///
    /// # Errors
    ///
    /// Returns an error if `scale` is not positive, or the file would have more than 64 million pixels.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_chart::Picture;
    ///
    /// let png = Picture::new("Nothing yet").to_png(2.0)?;
    /// assert!(png.starts_with(b"\x89PNG"));
    /// # Ok::<(), flowgate_chart::PngError>(())
    /// ```
    pub fn to_png(&self, scale: f32) -> Result<Vec<u8>, PngError> {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(FONT.to_vec());
        fonts.set_sans_serif_family(FAMILY);
        let options = Options {
            font_family: FAMILY.to_owned(),
            fontdb: Arc::new(fonts),
            ..Options::default()
        };
        let tree = Tree::from_str(&in_light(&self.to_string()), &options).map_err(PngError::of)?;
        let size = tree.size();
        let (width, height) = (size.width() * scale, size.height() * scale);
        if !(scale > 0.0 && width * height <= MOST_PIXELS) {
            return Err(PngError(format!(
                "cannot draw {width} by {height} pixels: the most are 64 million"
            )));
        }
        let mut pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32)
            .ok_or_else(|| PngError("no memory for the picture".to_owned()))?;
        resvg::render(
            &tree,
            Transform::from_scale(scale, scale),
            &mut pixels.as_mut(),
        );
        pixels.encode_png().map_err(PngError::of)
    }
}

/// Error of drawing a PNG file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PngError(String);

impl PngError {
    fn of(error: impl fmt::Display) -> PngError {
        PngError(error.to_string())
    }
}

impl fmt::Display for PngError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for PngError {}

/// The file with colors in place of variables.
fn in_light(svg: &str) -> String {
    let (light, _) = THEME.split_once('}').unwrap_or((THEME, ""));
    let colors = light.split(['{', ';']).filter_map(|declaration| {
        let (name, color) = declaration.trim().split_once(':')?;
        name.starts_with("--").then_some((name, color.trim()))
    });
    // Text of the reader cannot change the style: it is escaped, and has no `<style>`.
    colors.fold(svg.replacen(THEME, "", 1), |svg, (name, color)| {
        svg.replace(&format!("var({name})"), color)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_is_left() {
        let svg = in_light(&Picture::new("one").to_string());
        assert!(!svg.contains("var(") && !svg.contains("@media"), "{svg}");
        assert!(svg.contains("fill: #ffffff"), "{svg}");
    }

    #[test]
    fn a_scale_without_sense_is_an_error() {
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e6] {
            let error = Picture::new("one").to_png(scale).unwrap_err();
            assert!(error.to_string().starts_with("cannot draw"), "{error}");
        }
    }
}
