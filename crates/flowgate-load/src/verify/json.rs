use flowgate_verify::Findings;
use serde::Serialize;

use crate::target::Target;

/// Version of the layout that [`to_json`] writes.
const SCHEMA: u64 = 2;

#[derive(Serialize)]
struct Written<'a> {
    schema: u64,
    flowgate: &'static str,
    target: String,
    #[serde(flatten)]
    findings: &'a Findings,
}

/// Returns the findings as indented JSON with a final line end.
///
/// In addition to the fields of [`Findings`] it has:
///
/// - `schema`: the version of this layout. It increases when a field is removed or changes its meaning.
/// - `flowgate`: the version of flowgate that wrote it.
/// - `target`: the URL.
///
/// Times are in seconds, rates in requests per second.
///
/// # Examples
///
/// ```
/// use flowgate_load::Target;
/// use flowgate_load::verify::to_json;
/// use flowgate_verify::{Investigation, Simulated};
///
/// // A limiter in the same process that admits every request.
/// let mut limiter = Simulated::new(|_| true.into());
/// let Ok(findings) = Investigation::new().run(&mut limiter, &mut |_| {});
/// let json = to_json(&Target::parse("http://localhost:8080/")?, &findings);
/// let read: serde_json::Value = serde_json::from_str(&json)?;
/// assert_eq!(read["target"], "http://localhost:8080/");
/// assert_eq!(read["admitted"], findings.admitted);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn to_json(target: &Target, findings: &Findings) -> String {
    let written = Written {
        schema: SCHEMA,
        flowgate: env!("CARGO_PKG_VERSION"),
        target: target.to_string(),
        findings,
    };
    // Only maps with keys that are not text cannot be written, and there are none.
    serde_json::to_string_pretty(&written).unwrap_or_default() + "\n"
}
