//! What each limiter looks like from outside, at several rates, and what is found in the museum's specimens.
//!
//! `cargo run --release -p flowgate-testkit --example confusion`, and with more seeds than one, and only for types whose
//! names contain a text: `… --example confusion 20 approximate`. What several seeds lead to alike is said once.

use std::collections::BTreeMap;
use std::error::Error;

use flowgate::Quota;
use flowgate_testkit::verify::Findings;
use flowgate_testkit::verify::matrix::{QUOTAS, limiters, look, specimens};

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
        println!("\nspecimens, against the claim that they keep 5/s burst 3");
        for (name, findings) in specimens("5/s burst 3".parse()?) {
            println!("{name:<20} {}", findings.likeness);
            for fault in &findings.faults {
                println!("{:<20}   {fault:?}", "");
            }
        }
    }
    Ok(())
}

/// How often each kind was found, and with how many others that it could be; and the last such finding.
fn summary(all: impl Iterator<Item = Findings>) -> BTreeMap<String, (u32, String)> {
    let mut summary: BTreeMap<String, (u32, String)> = BTreeMap::new();
    for findings in all {
        let likeness = &findings.likeness;
        let doubts = if likeness.or.is_empty() { "" } else { "?" };
        let name = format!("{}{doubts}", likeness.kind);
        let entry = summary.entry(name).or_default();
        entry.0 += 1;
        entry.1 = format!("{likeness} [{} s]", findings.seconds as u64);
        for fault in &findings.faults {
            entry.1 += &format!("; {fault}");
        }
    }
    summary
}
