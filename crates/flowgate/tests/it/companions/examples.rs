//! The examples do what they say.

#[path = "../../../examples/database_pool.rs"]
mod database_pool;
#[path = "../../../examples/polite_crawler.rs"]
mod polite_crawler;
#[path = "../../../examples/shared_bandwidth.rs"]
mod shared_bandwidth;

use std::time::Duration;

/// The number that comes before `what` in a queue.
fn number(line: &str, what: &str) -> f64 {
    let (before, _) = line.split_once(what).expect(line);
    let word = before.split([' ', '(']).next_back().expect(line);
    word.parse().expect(line)
}

#[tokio::test(start_paused = true)]
async fn a_crawler_is_polite_to_each_host_and_keeps_its_budget() {
    let (took, shortest) = polite_crawler::crawl(20_000).await.expect("it runs");
    assert_eq!(shortest, Duration::from_secs(2));
    // 15,000 on the first day, and the others on the second.
    let hours = took.as_secs_f64() / 3600.0;
    assert!((24.0..25.0).contains(&hours), "{hours}");
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
    // 2 MiB at 4 MiB/s, of which 64 KiB at once: 4 · 32 / 31, rounded.
    assert!(
        number(together, " MiB/s of") <= 4.0 * 32.0 / 31.0,
        "{lines:#?}"
    );
}
