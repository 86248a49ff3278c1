use flowgate_verify::Findings;
use serde::Serialize;

use crate::target::Target;

/// The number of the layout that [`to_json`] writes.
const SCHEMA: u64 = 1;

#[derive(Serialize)]
struct Written<'a> {
    schema: u64,
    flowgate: &'static str,
    target: String,
    #[serde(flatten)]
    findings: &'a Findings,
}

/// What was found out of `target`, as JSON, indented, with a line end at its end.
///
/// Beside the fields of [`Findings`] it has `schema`, the number of this layout, which grows when a field goes or
/// changes its meaning; `flowgate`, the version that wrote it; and `target`, the URL. Times are in seconds, rates per second.
///
/// # Examples
///
/// ```
/// use flowgate_load::Target;
/// use flowgate_load::verify::to_json;
/// use flowgate_verify::{Investigation, Simulated};
///
/// // One that lets everything through, in process.
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
    // It has no maps with keys that are not text, the only thing that cannot be written.
    serde_json::to_string_pretty(&written).unwrap_or_default() + "\n"
}
