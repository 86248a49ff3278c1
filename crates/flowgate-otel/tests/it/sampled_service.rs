//! The example does what it says.

#[allow(dead_code, reason = "its `main`")]
#[path = "../../examples/sampled_service.rs"]
mod example;

/// The number after `word` begins, in the line's own words.
fn number_before(line: &str, word: &str) -> f64 {
    let before = line.split(word).next().unwrap_or_default().trim_end();
    let number = before.rsplit(' ').next().unwrap_or_default();
    number.parse().expect(line)
}

#[test]
fn it_samples_at_most_and_about_so_many() {
    let lines = example::run().expect("it runs");
    let sampled: Vec<_> = lines
        .iter()
        .map(|line| number_before(line, "traces/s"))
        .collect();
    // 100/s, and the burst of 10 once.
    assert_eq!(&sampled[..4], [50.0, 100.9, 100.0, 100.0], "{lines:#?}");
    // All that come; then about 100, and for the first second or two more, or fewer, than that.
    assert_eq!(sampled[4], 50.0, "{lines:#?}");
    for about in &sampled[5..] {
        assert!((60.0..160.0).contains(about), "{lines:#?}");
    }
    for line in &lines {
        let reported = number_before(line, "spans/s");
        let dropped = number_before(line, "dropped");
        let spans = 2.0 * number_before(line, "traces/s");
        assert!((reported + dropped - spans).abs() < 0.05, "{line}");
        assert!(reported <= 165.0, "{line}");
    }
}
