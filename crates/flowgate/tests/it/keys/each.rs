//! Many keys in one call: the answers of one call for each.

use flowgate::{AsKey, Denied, KeyNames, Keyed, KeyedBuilder, ManualClock, TokenBucket};
use std::time::Duration;

/// A table of this size is asked for the lines of several keys together.
const LARGE: usize = 300_000;
const SMALL: usize = 1_000;

fn buckets(clock: &ManualClock) -> KeyedBuilder<TokenBucket> {
    Keyed::token_bucket("3/s burst 4".parse().unwrap())
        .clock(clock)
        .seed([3, 4])
}

/// Asks one table in calls of random lengths, and its twin key by key, as time goes by.
fn assert_same<N: KeyNames>(build: impl Fn(&ManualClock) -> Keyed<TokenBucket, N>)
where
    u64: AsKey<N>,
{
    let clock = ManualClock::new();
    let [together, one_by_one] = [(); 2].map(|()| build(&clock));
    let mut random = fastrand::Rng::with_seed(5);
    let mut refused = 0;
    for _ in 0..2_000 {
        let keys: Vec<u64> = (0..random.usize(..40)).map(|_| random.u64(..50)).collect();
        let told: Vec<Result<(), Denied>> = together.try_acquire_each(&keys).collect();
        let expected: Vec<_> = keys.iter().map(|key| one_by_one.try_acquire(key)).collect();
        assert_eq!(told, expected, "{keys:?}");
        refused += told.iter().filter(|answer| answer.is_err()).count();
        clock.advance(Duration::from_millis(random.u64(..400)));
    }
    assert!(refused > 1_000, "{refused} were refused");
}

#[test]
fn keys_in_one_call_get_the_answers_of_one_call_for_each() {
    assert_same(|clock| buckets(clock).capacity(SMALL).unwrap());
    assert_same(|clock| buckets(clock).capacity(LARGE).unwrap());
    assert_same(|clock| buckets(clock).exact::<u64>().capacity(SMALL).unwrap());
    assert_same(|clock| buckets(clock).exact::<u64>().capacity(LARGE).unwrap());
}

#[test]
fn keys_that_are_not_iterated_over_pay_nothing() {
    for capacity in [SMALL, LARGE] {
        let limits = buckets(&ManualClock::new()).capacity(capacity).unwrap();
        let keys: Vec<u64> = (0..20).collect();
        let mut answers = limits.try_acquire_each(&keys);
        assert_eq!((answers.len(), answers.next()), (20, Some(Ok(()))));
        assert_eq!((answers.len(), answers.nth(1)), (19, Some(Ok(()))));
        drop(answers);
        let available = keys.iter().map(|key| limits.available(key));
        assert!(available.eq([[3; 3].as_slice(), &[4; 17]].concat()));
    }
}

#[test]
fn keys_may_be_references_and_no_keys_are_no_answers() {
    let limits = buckets(&ManualClock::new()).capacity(SMALL).unwrap();
    let names = ["alice".to_owned(), "bob".to_owned()];
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(limits.try_acquire_each(&keys).all(|answer| answer.is_ok()));
    assert_eq!(limits.available("alice"), 3);
    assert_eq!(limits.try_acquire_each::<&str>(&[]).count(), 0);
}
