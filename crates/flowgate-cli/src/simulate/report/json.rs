//! A comparison as JSON.

use serde::Serialize;

use super::comparison::Comparison;

/// Version of the layout that `docs/cli/simulate.md` documents. It increases when a field is removed or changed.
pub(super) const SCHEMA: u64 = 1;

#[derive(Serialize)]
struct Written<'a> {
    schema: u64,
    flowgate: &'static str,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

impl Comparison {
    /// Returns the comparison as indented JSON with a final line end.
    pub(crate) fn to_json(&self) -> String {
        let written = Written {
            schema: SCHEMA,
            flowgate: env!("CARGO_PKG_VERSION"),
            comparison: self,
        };
        let mut json = serde_json::to_string_pretty(&written)
            .expect("maps with text as keys, written to memory, cannot fail");
        json.push('\n');
        json
    }
}
