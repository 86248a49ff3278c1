//! Shows the known-broken limiters, each with its shortest failing history.
//!
//! `cargo run -p flowgate-testkit --example broken_limiters [NAME]`

use std::process::ExitCode;

use flowgate_testkit::broken::{BrokenLimiter, broken_limiters};

/// Width of the output.
const WIDTH: usize = 96;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (name, more) = (arguments.next(), arguments.next());
    let mut selected = broken_limiters();
    if more.is_some() {
        eprintln!("broken_limiters: write at most one NAME");
        return ExitCode::from(2);
    }
    if let Some(name) = name {
        selected.retain(|limiter| limiter.name == name);
        if selected.is_empty() {
            let names: Vec<_> = broken_limiters()
                .iter()
                .map(|limiter| limiter.name)
                .collect();
            eprintln!(
                "broken_limiters: '{name}' is unknown: write one of {}",
                names.join(", ")
            );
            return ExitCode::from(2);
        }
    }
    let shown: Vec<bool> = selected
        .iter()
        .enumerate()
        .map(|(index, limiter)| show(index + 1, selected.len(), limiter))
        .collect();
    if selected.len() > 1 {
        summary(&selected, &shown);
    }
    if shown.iter().all(|detected| *detected) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints one limiter. Returns whether the checker detects it.
fn show(number: usize, of: usize, limiter: &BrokenLimiter) -> bool {
    println!("{}", "─".repeat(WIDTH));
    let place = format!("{number} of {of}");
    println!("{}{place:>1$}", limiter.name, WIDTH - limiter.name.len());
    println!();
    field("limiter", limiter.origin);
    field("defect", limiter.defect);
    field("detected by", &limiter.checker.to_string());
    let detected = match limiter.detect() {
        Ok(detection) => {
            field("message", &detection.what);
            println!();
            for line in detection.history {
                println!("      {line}");
            }
            println!();
            true
        }
        Err(error) => {
            field("NOT DETECTED", &error);
            false
        }
    };
    field("use instead", &format!("flowgate's {}", limiter.instead));
    println!();
    detected
}

/// Prints a label with wrapped text.
fn field(name: &str, text: &str) {
    const INDENT: usize = 15;
    let mut line = format!("{name:<INDENT$}");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            println!("{}", line.trim_end());
            line = " ".repeat(INDENT);
        }
        if line.chars().count() > INDENT {
            line.push(' ');
        }
        line.push_str(word);
    }
    println!("{line}");
}

fn summary(broken_limiters: &[BrokenLimiter], shown: &[bool]) {
    println!("{}", "─".repeat(WIDTH));
    println!("{:<22}{:<34}use instead", "limiter", "detected by");
    for (limiter, detected) in broken_limiters.iter().zip(shown) {
        let checker = if *detected {
            limiter.checker.to_string()
        } else {
            "NOT DETECTED".into()
        };
        println!("{:<22}{checker:<34}{}", limiter.name, limiter.instead);
    }
    let detected = shown.iter().filter(|detected| **detected).count();
    println!("\n{detected} of {} detected", shown.len());
}
