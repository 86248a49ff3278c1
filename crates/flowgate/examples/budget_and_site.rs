//! Two limits of opposite kinds: the budget of a paid API, and the minimum gap of a web site. The API allows 1,000 calls per
//! day, also in one burst. The site bans every client that sends two requests within half a second.
//!
//! ```text
//! cargo run -p flowgate --example budget_and_site
//! ```
//!
//! A crawler fetches 2,500 pages from the site, and looks up each page with the API. This takes two days of a clock that the
//! program moves.

use flowgate::{FixedWindow, LeakyBucket, ManualClock, Timestamp};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let time = ManualClock::new();
    // The program starts at 23:50, and the provider counts from midnight to midnight.
    let midnight = Timestamp::ORIGIN + Duration::from_secs(10 * 60);
    let api = FixedWindow::builder("1000/day".parse()?)
        .clock(&time)
        .align(midnight)
        .build()?;
    let site = LeakyBucket::builder("1/500ms".parse()?)
        .clock(&time)
        .build()?;

    let mut last_fetch: Option<Timestamp> = None;
    let mut closest = Duration::MAX;
    for page in 1..=2500 {
        // The crawler never asks the site early: it waits for the time of its reservation.
        let turn = site.reserve()?.at();
        time.advance(turn.saturating_duration_since(time.now()));
        if let Some(last) = last_fetch {
            closest = closest.min(turn.saturating_duration_since(last));
        }
        last_fetch = Some(turn);

        // The crawler asks the budget. If the budget is spent, it sleeps until midnight.
        while let Err(denied) = api.try_acquire() {
            let wait = denied.retry_after().ok_or("there is no budget at all")?;
            println!(
                "page {page}: the day's budget is spent at {}; asleep for {wait:?}",
                of_day(time.now())
            );
            time.advance(wait);
        }
    }
    println!(
        "page 2500 at {}; {} left of the day's 1000",
        of_day(time.now()),
        api.available()
    );
    println!("no two requests to the site were closer than {closest:?}");
    Ok(())
}

/// Returns the day and the time; the clock's origin is 23:50 of day 0.
fn of_day(at: Timestamp) -> String {
    let seconds = at.as_nanos() / 1_000_000_000 + 23 * 3600 + 50 * 60;
    let (day, seconds) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("day {day}, {hour:02}:{minute:02}:{second:02}")
}
