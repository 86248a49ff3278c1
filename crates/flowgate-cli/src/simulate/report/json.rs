//! A report as JSON.

use serde::Serialize;

/// Version of the layout that `docs/cli/simulate.md` documents. It increases when a field is removed or changed.
pub(super) const SCHEMA: u64 = 1;

#[derive(Serialize)]
struct Written<'a, R> {
    schema: u64,
    flowgate: &'static str,
    #[serde(flatten)]
    report: &'a R,
}

/// Returns the report as indented JSON with a final line end.
pub(super) fn written(report: &impl Serialize) -> String {
    let written = Written {
        schema: SCHEMA,
        flowgate: env!("CARGO_PKG_VERSION"),
        report,
    };
    let mut json = serde_json::to_string_pretty(&written)
        .expect("maps with text as keys, written to memory, cannot fail");
    json.push('\n');
    json
}
