//! The examples do what they say.

#[path = "../../../examples/database_pool.rs"]
mod database_pool;
#[expect(
    unused_attributes,
    reason = "`no_std` is for the program, which is a crate"
)]
#[path = "../../../examples/no_std.rs"]
mod no_std;
#[path = "../../../examples/polite_crawler.rs"]
mod polite_crawler;
#[path = "../../../examples/shared_bandwidth.rs"]
mod shared_bandwidth;
// Its tests are run here.
#[path = "../../../examples/testing.rs"]
mod testing;
#[path = "../../../examples/threads.rs"]
mod threads;
#[path = "../../../examples/worker_pool.rs"]
mod worker_pool;

use std::time::Duration;

/// The number that comes before `what` in a queue.
fn number(line: &str, what: &str) -> f64 {
    let (before, _) = line.split_once(what).expect(line);
    let word = before.split([' ', '(']).next_back().expect(line);
    word.parse().expect(line)
}

/// The turn of a host, a slot and the budget are taken at one instant, so no page is fetched early.
#[tokio::test(start_paused = true)]
async fn c1_a_crawler_is_polite_to_each_host_and_keeps_its_budget() {
    let (took, distances) = polite_crawler::crawl(3).await.expect("it runs");
    let short = distances.iter().filter(|time| time.as_secs() < 2).count();
    assert_eq!((distances.len(), short), (20_000, 0));
    // 15,000 on the first day, and the others on the second.
    let hours = took.as_secs_f64() / 3600.0;
    assert!((24.0..25.0).contains(&hours), "{hours}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_pool_shrinks_while_it_works() {
    let log = worker_pool::run().await.expect("it runs");
    let starts = |at: u128| -> Vec<&str> {
        let then = log
            .iter()
            .filter(|(ms, what)| *ms == at && what.starts_with("job"));
        then.map(|(_, what)| what.as_str()).collect()
    };
    assert_eq!(
        starts(0),
        [
            "job 1 starts, 1 running",
            "job 2 starts, 2 running",
            "job 3 starts, 3 running",
            "job 4 starts, 4 running"
        ]
    );
    assert_eq!(starts(100).len(), 4);
    // Nobody starts before two of the four have ended, and nobody is lost to the one that gave up.
    assert_eq!(starts(200).len(), 2);
    assert_eq!(
        starts(300),
        ["job 11 starts, 2 running", "job 12 starts, 2 running"]
    );
    let order = log
        .iter()
        .filter_map(|(_, what)| what.strip_prefix("job ")?.split(' ').next());
    let order: Vec<u32> = order
        .map(|number| number.parse().expect("a number"))
        .collect();
    assert_eq!(order, Vec::from_iter(1..=12));
    assert_eq!(log[9].0, 170);
    assert!(log[9].1.starts_with("a hurried job gives up"), "{log:?}");
    assert_eq!(log.last().map(|(ms, _)| *ms), Some(400));
}

#[test]
fn c1_threads_share_a_rate() {
    let (distances, [cancelled, hurried]) = threads::run().expect("it runs");
    assert_eq!(distances.len(), 19);
    let short = distances
        .iter()
        .filter(|time| **time < Duration::from_millis(10));
    assert_eq!(short.count(), 0, "{distances:?}");
    assert_eq!(cancelled, "the wait was cancelled");
    // The rest of the hour, after the minute that it would have waited.
    assert!(hurried.contains("retry after 35"), "{hurried}");
}

#[test]
fn c1_a_device_without_an_operating_system_keeps_its_quota() {
    let expected = [0, 1].into_iter().chain((12..300).step_by(12));
    assert_eq!(no_std::run().expect("a quota"), Vec::from_iter(expected));
}

#[tokio::test]
async fn a_pool_hands_out_no_more_connections_than_it_has() {
    let lines = database_pool::run().await.expect("it runs");
    assert!(
        lines[0].starts_with("a hurried query, by its "),
        "{lines:#?}"
    );
    assert_eq!(number(&lines[1], " queries"), 24.0, "{lines:#?}");
    assert!(number(&lines[1], " connections") <= 3.0, "{lines:#?}");
    // 24 of them at 100 per second after a burst of 5, and three at once of 20 ms each.
    assert!(number(&lines[1], " ms") >= 190.0, "{lines:#?}");
}

#[test]
fn downloads_share_a_bandwidth() {
    let lines = shared_bandwidth::run().expect("it runs");
    let (together, each) = lines.split_last().expect("lines");
    assert_eq!(each.len(), 4);
    for line in each {
        assert_eq!(number(line, " bytes"), 524_288.0, "{lines:#?}");
    }
    // 2 MiB at 4 MiB/s, of which 64 KiB at once: 4 · 32 / 31 is 4.129, which is printed as 4.13.
    assert!(number(together, " MiB/s of") <= 4.13, "{lines:#?}");
}

#[test]
fn the_programs_are_short() {
    let programs = [
        include_str!("../../../examples/no_std.rs"),
        include_str!("../../../examples/polite_crawler.rs"),
        include_str!("../../../examples/testing.rs"),
        include_str!("../../../examples/threads.rs"),
        include_str!("../../../examples/worker_pool.rs"),
    ];
    assert!(programs.iter().all(|program| program.lines().count() <= 60));
}
