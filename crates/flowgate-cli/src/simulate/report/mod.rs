//! What came of the same traffic under one policy or several, or with several numbers in one.
//!
//! ```text
//!  outcomes ─▶ Comparison ─┬▶ text     a table, and a picture in characters
//!                          ├▶ html     a page          ┐
//!                          ├▶ picture  SVG and PNG     ┴▶ charts ─▶ flowgate_chart::Chart
//!                          ├▶ json
//!                          └▶ csv
//!  suggestion ─▶ SuggestionReport ─▶ the same formats
//! ```

mod charts;
mod comparison;
mod csv;
mod html;
mod json;
mod rows;
mod suggestion;
mod text;

#[cfg(test)]
mod tests;

use flowgate_chart::Picture;

pub(crate) use comparison::{Comparison, Description};
pub(crate) use suggestion::SuggestionReport;
pub(crate) use text::TextStyle;

/// A report, in each format.
pub(crate) trait Report {
    /// Returns the table, and what belongs to it.
    fn to_text(&self, style: TextStyle) -> String;

    /// Returns one page of HTML that loads nothing and runs no script.
    fn to_html(&self) -> String;

    /// Returns the main picture, for documents.
    fn picture(&self) -> Picture;

    /// Returns indented JSON with a final line end.
    fn to_json(&self) -> String;

    /// Returns the numbers as CSV ([RFC 4180](https://www.rfc-editor.org/rfc/rfc4180)).
    fn to_csv(&self) -> String;
}

impl Report for Comparison {
    fn to_text(&self, style: TextStyle) -> String {
        text::text(self, style)
    }

    fn to_html(&self) -> String {
        html::comparison(self)
    }

    fn picture(&self) -> Picture {
        charts::picture(self)
    }

    fn to_json(&self) -> String {
        json::written(self)
    }

    fn to_csv(&self) -> String {
        csv::slots(self)
    }
}
