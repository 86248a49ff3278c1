//! A walk through the museum of wrong limiters.
//!
//! `cargo run -p flowgate-testkit --example museum [NAME]`

use std::process::ExitCode;

use flowgate_testkit::specimens::{Exhibit, exhibits};

/// Columns of a page.
const WIDTH: usize = 96;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (name, more) = (arguments.next(), arguments.next());
    let mut visited = exhibits();
    if more.is_some() {
        eprintln!("museum: one NAME at most, or none to see all");
        return ExitCode::from(2);
    }
    if let Some(name) = name {
        visited.retain(|exhibit| exhibit.name == name);
        if visited.is_empty() {
            let names: Vec<_> = exhibits().iter().map(|exhibit| exhibit.name).collect();
            eprintln!(
                "museum: there is no '{name}'; there are: {}",
                names.join(", ")
            );
            return ExitCode::from(2);
        }
    }
    let shown: Vec<bool> = visited
        .iter()
        .enumerate()
        .map(|(index, exhibit)| show(index + 1, visited.len(), exhibit))
        .collect();
    if visited.len() > 1 {
        summary(&visited, &shown);
    }
    if shown.iter().all(|convicted| *convicted) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// One page; whether the checker convicts.
fn show(number: usize, of: usize, exhibit: &Exhibit) -> bool {
    println!("{}", "─".repeat(WIDTH));
    let place = format!("{number} of {of}");
    println!("{}{place:>1$}", exhibit.name, WIDTH - exhibit.name.len());
    println!();
    field("what it was", exhibit.origin);
    field("the mistake", exhibit.fault);
    field("found by", &exhibit.checker.to_string());
    let convicted = match exhibit.convict() {
        Ok(conviction) => {
            field("finding", &conviction.what);
            println!();
            for line in conviction.history {
                println!("      {line}");
            }
            println!();
            true
        }
        Err(error) => {
            field("NOT CONVICTED", &error);
            false
        }
    };
    field("instead", &format!("flowgate's {}", exhibit.instead));
    println!();
    convicted
}

/// A name and its text, wrapped beside it.
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

fn summary(exhibits: &[Exhibit], shown: &[bool]) {
    println!("{}", "─".repeat(WIDTH));
    println!("{:<22}{:<34}instead", "specimen", "convicted by");
    for (exhibit, convicted) in exhibits.iter().zip(shown) {
        let checker = if *convicted {
            exhibit.checker.to_string()
        } else {
            "NOT CONVICTED".into()
        };
        println!("{:<22}{checker:<34}{}", exhibit.name, exhibit.instead);
    }
    let convicted = shown.iter().filter(|convicted| **convicted).count();
    println!("\n{convicted} of {} convicted", shown.len());
}
