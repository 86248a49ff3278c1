//! What each limiter looks like from outside, at several rates, and what is found in the museum's specimens.
//!
//! `cargo run --release -p flowgate-testkit --example confusion`

use flowgate::{Quota, QuotaError};
use flowgate_testkit::verify::matrix::{QUOTAS, limiters, look, specimens};

fn main() -> Result<(), QuotaError> {
    for entry in limiters() {
        println!("{}", entry.0);
        for text in QUOTAS {
            let quota: Quota = text.parse()?;
            if let Some(findings) = look(entry, quota, 0) {
                println!("    {text:<16} {}", findings.likeness);
            }
        }
    }
    println!("\nspecimens, against the claim that they keep 5/s burst 3");
    for (name, findings) in specimens("5/s burst 3".parse()?) {
        println!("{name:<20} {}", findings.likeness);
        for fault in &findings.faults {
            println!("{:<20}   {fault:?}", "");
        }
    }
    Ok(())
}
