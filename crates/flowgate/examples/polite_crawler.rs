//! A crawler that is polite to each host, a page every two seconds, and that spends no more than its own budget of 5000
//! pages a day, over all hosts.
//!
//! ```text
//! cargo run -p flowgate --example polite_crawler
//! ```
//!
//! It crawls some 9000 pages of 20 hosts, some with many more than others, on a clock that is moved by hand: two days
//! in no time.

use flowgate::{FixedWindow, Keyed, ManualClock, Timestamp};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::time::Duration;

const PER_HOST: &str = "1/2s";
const BUDGET: &str = "5000/day";

#[allow(dead_code, reason = "the test calls `run`")]
fn main() -> Result<(), Box<dyn Error>> {
    for line in run()? {
        println!("{line}");
    }
    Ok(())
}

struct Host {
    name: String,
    pages_left: u32,
    pages: u32,
    last: Option<Timestamp>,
    closest: Duration,
}

/// What is printed.
pub fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let time = ManualClock::new();
    let polite = Keyed::leaky_bucket(PER_HOST.parse()?)
        .clock(&time)
        .capacity(1000)?;
    let budget = FixedWindow::builder(BUDGET.parse()?).clock(&time).build()?;
    let mut hosts: Vec<Host> = (1..=20)
        .map(|index| Host::new(index, index * 45 - 22))
        .collect();
    let mut lines = Vec::new();

    // Which host is due next. A host that was asked too early says itself when it is due.
    let mut due: BinaryHeap<_> = (0..hosts.len())
        .map(|index| Reverse((time.now(), index)))
        .collect();
    while let Some(Reverse((at, index))) = due.pop() {
        let host = &mut hosts[index];
        time.advance(at.saturating_duration_since(time.now()));
        if let Err(denied) = polite.try_acquire(&host.name) {
            let wait = denied.retry_after().ok_or(denied)?;
            due.push(Reverse((time.now() + wait, index)));
            continue;
        }
        if let Err(denied) = budget.try_acquire() {
            // Both or neither: the host has not been asked.
            polite.refund(&host.name, 1);
            let wait = denied.retry_after().ok_or(denied)?;
            lines.push(format!("{}: the day's budget is spent", clock(time.now())));
            time.advance(wait);
            due.push(Reverse((time.now(), index)));
            continue;
        }
        host.fetched(time.now());
        if host.pages_left > 0 {
            due.push(Reverse((time.now(), index)));
        }
    }

    let pages: u32 = hosts.iter().map(|host| host.pages).sum();
    lines.push(format!(
        "{}: all {pages} pages are fetched",
        clock(time.now())
    ));
    for host in [&hosts[0], &hosts[9], &hosts[19]] {
        let Host {
            name,
            pages,
            closest,
            ..
        } = host;
        lines.push(format!(
            "{name}: {pages} pages, none within {closest:?} of another"
        ));
    }
    Ok(lines)
}

impl Host {
    fn new(index: u32, pages_left: u32) -> Self {
        Self {
            name: format!("host{index}.example"),
            pages_left,
            pages: 0,
            last: None,
            closest: Duration::MAX,
        }
    }

    fn fetched(&mut self, at: Timestamp) {
        if let Some(last) = self.last {
            self.closest = self.closest.min(at.saturating_duration_since(last));
        }
        self.last = Some(at);
        self.pages += 1;
        self.pages_left -= 1;
    }
}

fn clock(at: Timestamp) -> String {
    let seconds = at.as_nanos() / 1_000_000_000;
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!(
        "day {}, {hours:02}:{minutes:02}:{:02}",
        seconds / 86_400 + 1,
        seconds % 60
    )
}
