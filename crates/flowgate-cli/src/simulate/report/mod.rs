//! What came of the same traffic under one policy or several.
//!
//! ```text
//!  outcomes ─▶ Comparison ─┬▶ text     a table, and a picture in characters
//!                          ├▶ html     a page          ┐
//!                          ├▶ picture  SVG and PNG     ┴▶ charts ─▶ flowgate_chart::Chart
//!                          ├▶ json
//!                          └▶ csv
//! ```

mod charts;
mod comparison;
mod csv;
mod html;
mod json;
mod picture;
mod rows;
mod text;

#[cfg(test)]
mod tests;

pub(crate) use comparison::{Comparison, Description};
pub(crate) use text::TextStyle;
