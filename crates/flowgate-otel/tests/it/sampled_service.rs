//! The example does what it says.

#[path = "../../examples/sampled_service.rs"]
mod example;

#[test]
fn it_samples_at_most_and_about_so_many() {
    let lines = example::run().expect("it runs");
    let (at_most, about) = lines.split_at(4);
    // 100/s, and the burst of 10 once.
    let sampled: Vec<_> = at_most.iter().map(|(_, [traces, ..])| *traces).collect();
    assert_eq!(sampled, [50.0, 100.9, 100.0, 100.0], "{lines:?}");
    // All that come; then about 100, and for the first second or two more, or fewer, than that.
    assert_eq!(about[0].1[0], 50.0, "{lines:?}");
    for (_, [traces, ..]) in &about[1..] {
        assert!((60.0..160.0).contains(traces), "{lines:?}");
    }
    for (_, [traces, reported, dropped]) in &lines {
        assert!(
            (reported + dropped - 2.0 * traces).abs() < 0.05,
            "{lines:?}"
        );
        assert!(*reported <= 165.0, "{lines:?}");
    }
}

#[test]
fn it_is_short() {
    let program = include_str!("../../examples/sampled_service.rs");
    assert!(program.lines().count() <= 60);
}
