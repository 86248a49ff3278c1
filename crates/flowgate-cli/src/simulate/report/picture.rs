//! The main picture, for documents.

use flowgate_chart::{Picture, PngError};

use super::charts;
use super::comparison::Comparison;

/// Pixels of a PNG file for each unit of the SVG.
const SCALE: f32 = 2.0;

impl Comparison {
    /// Returns the picture as an SVG file that follows light and dark.
    pub(crate) fn to_svg(&self) -> String {
        self.picture().to_string()
    }

    /// Returns the picture as a PNG file.
    ///
    /// # Errors
    ///
    /// Returns an error if the picture has too many policies for an image.
    pub(crate) fn to_png(&self) -> Result<Vec<u8>, PngError> {
        self.picture().to_png(SCALE)
    }

    /// What each policy admitted of what was offered to it, with the same axes.
    fn picture(&self) -> Picture {
        let policies = 0..self.policies.len();
        Picture::new(self.title.as_str())
            .columns(2)
            .charts(policies.filter_map(|index| charts::admitted_by(self, index)))
    }
}
