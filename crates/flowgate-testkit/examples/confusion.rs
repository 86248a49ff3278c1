//! What each limiter looks like from outside, at several rates, and the findings about the known-broken limiters.
//!
//! `cargo run --release -p flowgate-testkit --example confusion` uses one seed. `… --example confusion 20 approximate` uses 20 seeds,
//! and only the types whose names contain a text. Equal results of several seeds are printed once.

use std::collections::BTreeMap;
use std::error::Error;

use flowgate::Quota;
use flowgate_testkit::verify::Findings;
use flowgate_testkit::verify::matrix::{QUOTAS, broken, limiters, look};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let named = arguments.next().unwrap_or_default();
    for entry in limiters() {
        if !entry.0.contains(&named) {
            continue;
        }
        println!("{}", entry.0);
        for text in QUOTAS {
            let quota: Quota = text.parse()?;
            let found = (0..seeds).filter_map(|seed| look(entry, quota, seed));
            for (name, (times, example)) in summary(found) {
                println!("    {text:<16} {times:>3} {name}: {example}");
            }
        }
    }
    if named.is_empty() {
        println!("\nbroken limiters, with the expected limit 5/s burst 3");
        for (name, findings) in broken("5/s burst 3".parse()?) {
            println!("{name:<20} {}", findings.detected);
            for defect in &findings.defects {
                println!("{:<20}   {defect:?}", "");
            }
        }
    }
    Ok(())
}

/// How often each kind was found, and with how many others that it could be; and the last such finding.
fn summary(all: impl Iterator<Item = Findings>) -> BTreeMap<String, (u32, String)> {
    let mut summary: BTreeMap<String, (u32, String)> = BTreeMap::new();
    for findings in all {
        let detected = &findings.detected;
        let doubts = if detected.alternatives.is_empty() {
            ""
        } else {
            "?"
        };
        let name = format!("{}{doubts}", detected.kind);
        let entry = summary.entry(name).or_default();
        entry.0 += 1;
        entry.1 = format!("{detected} [{} s]", findings.seconds as u64);
        for defect in &findings.defects {
            entry.1 += &format!("; {defect}");
        }
    }
    summary
}
