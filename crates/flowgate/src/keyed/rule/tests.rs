//! What the trait promises of its methods, of all rules and at the ends of their ranges.

use super::super::entry::{MOST_STATE, Reading, TICK_BITS};
use super::terms::MOST_SPAN;
use super::{Bucket, Change, FixedWindow, Rule, SegmentedWindow, Terms, fixed_window, tally};
use crate::quota::Quota;
use core::time::Duration;

/// What the end of a cell is rounded to, and more.
const CELL: u128 = 1 << 26;

fn ns(ns: u64) -> u128 {
    u128::from(ns) << TICK_BITS
}

fn quota(limit: u64, period_ns: u64) -> Quota {
    Quota::new(limit, Duration::from_nanos(period_ns)).unwrap()
}

fn per_second<R: Rule<Quota = Quota>>(limit: u64) -> Terms {
    R::terms(&Quota::per_second(limit)).unwrap()
}

/// The state after `n` units at each of these times.
fn after<R: Rule<Quota = Quota>>(terms: &Terms, taken: &[(u128, u64)]) -> u128 {
    taken.iter().fold(0, |state, &(now, n)| {
        R::take(state, now, n, terms).expect("it is there")
    })
}

fn cells_hold_no_less_than_states_and_hardly_more<R: Rule<Quota = Quota>>() {
    for limit in [1, 10, 200, 1_000, 70_000] {
        let terms = per_second::<R>(limit);
        let none = R::from_cell(R::to_cell(0, &terms), 0, &terms, &terms);
        assert_eq!(R::left(none, 0, &terms), limit, "of nothing");
        for (now, n) in [
            (0, 1),
            (7 * terms.span + 5, limit.div_ceil(3)),
            (ns(1 << 62), limit),
        ] {
            let state = after::<R>(&terms, &[(now, n)]);
            let cell = R::to_cell(state, &terms);
            let whole_at = now + R::whole_after(state, now, &terms);
            let free_at = R::free_at(cell, &terms);
            assert!(
                (whole_at..whole_at + CELL).contains(&free_at),
                "{n} of {limit}"
            );
            let known = R::from_cell(cell, now, &terms, &terms);
            let left = R::left(state, now, &terms);
            assert!(
                R::left(known, now, &terms) + limit / 255 + 1 >= left,
                "{n} of {limit}"
            );
            for later in [
                0,
                terms.span / 3,
                terms.span - 1,
                terms.span,
                2 * terms.span,
            ] {
                let [known, left] = [known, state].map(|state| R::left(state, now + later, &terms));
                assert!(known <= left, "{n} of {limit}, {later} ticks later");
            }
        }
    }
}

#[test]
fn c1_c7_the_cell_of_a_bucket_holds_no_less_and_hardly_more() {
    cells_hold_no_less_than_states_and_hardly_more::<Bucket>();
}

#[test]
fn c1_c7_the_cell_of_a_fixed_window_holds_no_less_and_hardly_more() {
    cells_hold_no_less_than_states_and_hardly_more::<FixedWindow>();
}

#[test]
fn c1_c7_the_cell_of_a_segmented_window_holds_no_less_and_hardly_more() {
    cells_hold_no_less_than_states_and_hardly_more::<SegmentedWindow>();
}

fn cells_of_windows_join_and_meet_in_both_their_parts<R: Rule<Quota = Quota>>() {
    let terms = per_second::<R>(10);
    let now = 7 * terms.span;
    let much = R::to_cell(after::<R>(&terms, &[(now, 7)]), &terms);
    let late = R::to_cell(after::<R>(&terms, &[(now + terms.span, 2)]), &terms);
    let left = |cell| R::left(R::from_cell(cell, now, &terms, &terms), now, &terms);
    assert!(R::free_at(much, &terms) < R::free_at(late, &terms) && left(much) < left(late));
    for (one, other) in [(much, late), (late, much)] {
        let (join, meet) = (R::join(one, other, &terms), R::meet(one, other, &terms));
        assert_eq!(
            (R::free_at(join, &terms), left(join)),
            (R::free_at(late, &terms), left(much))
        );
        assert_eq!(
            (R::free_at(meet, &terms), left(meet)),
            (R::free_at(much, &terms), left(late))
        );
    }
    assert_eq!(
        (R::join(much, much, &terms), R::meet(much, much, &terms)),
        (much, much)
    );
    assert_eq!(
        (R::join(much, 0, &terms), R::meet(much, 0, &terms)),
        (much, 0)
    );
    // It stands for the same by every limit.
    let change = Change {
        from: terms,
        to: per_second::<R>(3),
        at: now,
    };
    assert!(R::is_current(much, &change.to) && R::is_in(much, &change.to));
    assert_eq!(R::updated(much, &change, now), much);
}

#[test]
fn c7_cells_of_fixed_windows_join_and_meet() {
    cells_of_windows_join_and_meet_in_both_their_parts::<FixedWindow>();
}

#[test]
fn c7_cells_of_segmented_windows_join_and_meet() {
    cells_of_windows_join_and_meet_in_both_their_parts::<SegmentedWindow>();
}

fn what_is_carried_lasts_as_long_and_is_as_much<R: Rule<Quota = Quota>>() {
    let terms = per_second::<R>(10);
    let now = 7 * terms.span;
    for then in [0, 3 * terms.span + 5, 20 * terms.span] {
        let cell = R::to_cell(after::<R>(&terms, &[(now, 4)]), &terms);
        let carried = R::carry_cell(cell, now, then, &terms);
        let left = R::free_at(cell, &terms) - now;
        assert!((left..=left + CELL).contains(&(R::free_at(carried, &terms) - then)));
        let units = |cell, now| R::left(R::from_cell(cell, now, &terms, &terms), now, &terms);
        assert!(units(carried, then).abs_diff(units(cell, now)) <= 1);
        assert!(units(carried, then) < 10);
        assert_eq!(
            R::carry_cell(cell, R::free_at(cell, &terms), then, &terms),
            0,
            "it is whole"
        );
    }
}

#[test]
fn c7_cells_of_buckets_are_carried() {
    what_is_carried_lasts_as_long_and_is_as_much::<Bucket>();
}

#[test]
fn c7_cells_of_fixed_windows_are_carried() {
    what_is_carried_lasts_as_long_and_is_as_much::<FixedWindow>();
}

#[test]
fn c7_cells_of_segmented_windows_are_carried() {
    what_is_carried_lasts_as_long_and_is_as_much::<SegmentedWindow>();
}

#[test]
fn c4_a_window_that_ends_with_the_clock_outlasts_it() {
    let last = ns(u64::MAX);
    let free_at = tally::end(tally::pack(MOST_STATE, 1));
    assert!((last + 1..=MOST_STATE).contains(&free_at));
    let just_before = tally::end(tally::pack(last - 2 * CELL, 1));
    assert!((last - 2 * CELL..last).contains(&just_before));
}

fn nothing_is_left_until<R: Rule<Quota = Quota>>() {
    for free in [
        2 * ns(1_000_000_000),
        5 * ns(1_000_000_000),
        ns(1 << 40) + 1,
    ] {
        let terms = per_second::<R>(10);
        let state = R::unknown_until(0, free, &terms);
        assert_eq!(R::left(state, free - 1, &terms), 0, "until {free}");
        assert_eq!(
            R::left(state, free + terms.span, &terms),
            10,
            "after {free}"
        );
    }
}

#[test]
fn c1_c7_of_an_unknown_fixed_window_nothing_is_left() {
    nothing_is_left_until::<FixedWindow>();
}

#[test]
fn c1_c7_of_an_unknown_segmented_window_nothing_is_left() {
    nothing_is_left_until::<SegmentedWindow>();
}

fn a_window_does_not_tell_who_is_ahead<R: Rule<Quota = Quota>>() {
    let terms = per_second::<R>(10);
    let state = after::<R>(&terms, &[(terms.span, 4)]);
    assert_eq!(R::behind(state, terms.span, 3, &terms), state);
}

/// What it says is a lower bound.
#[test]
fn c3_windows_count_nobody_ahead() {
    a_window_does_not_tell_who_is_ahead::<FixedWindow>();
    a_window_does_not_tell_who_is_ahead::<SegmentedWindow>();
}

#[test]
fn c3_a_bucket_behind_others_is_as_if_they_had_taken() {
    let terms = per_second::<Bucket>(10);
    let now = 7 * terms.span;
    let state = after::<Bucket>(&terms, &[(now, 4)]);
    assert_eq!(Bucket::behind(state, now, 0, &terms), state);
    assert_eq!(
        Bucket::behind(state, now, 3, &terms),
        state + 3 * terms.unit
    );
    // Long after: nobody is ahead of a state that does not matter any longer.
    assert_eq!(Bucket::behind(state, 2 * now, 0, &terms), state);
    assert_eq!(
        Bucket::behind(state, 2 * now, 3, &terms),
        2 * now + 3 * terms.unit
    );
}

#[test]
fn c1_a_bucket_that_was_full_by_then_stays_as_it_is() {
    let [from, to] = [10, 20].map(per_second::<Bucket>);
    let state = after::<Bucket>(&from, &[(0, 5)]);
    assert_eq!(Bucket::restate(state, &from, &to, from.span), state);
    assert_eq!(Bucket::restate(state, &from, &to, state), state);
    // Half of the time at twice the rate.
    let at = state / 2;
    assert_eq!(
        Bucket::restate(state, &from, &to, at),
        at + (state - at) / 2
    );
}

fn the_class_of_a_window_has_as_many_bits<R: Rule<Quota = Quota>>() {
    let table = per_second::<R>(10);
    for limit in [1, 2, 3, 63, 64, 65, 1_000, 4_095, 4_096, 500_000] {
        let own = per_second::<R>(limit);
        let class = R::class(&own);
        assert!(R::has_class(class, &table), "{limit}");
        assert_eq!(R::of_class(class, &table).count_bits, own.count_bits);
    }
    assert!(!R::has_class(11, &table) && !R::has_class(65, &table));
}

#[test]
fn c1_the_class_of_a_window_has_as_many_bits() {
    the_class_of_a_window_has_as_many_bits::<FixedWindow>();
    the_class_of_a_window_has_as_many_bits::<SegmentedWindow>();
}

#[test]
fn c1_the_class_of_a_bucket_costs_no_more_and_hardly_less() {
    let table = per_second::<Bucket>(10);
    let class = |unit| Bucket::of_class(Bucket::class(&Terms { unit, ..table }), &table).unit;
    // They share the lowest class.
    for unit in [1, 2, 63, 64, 67] {
        assert_eq!(class(unit), 1, "{unit}");
    }
    let least = |exponent: u32, sixteenths: u128| (16 + sixteenths) << (exponent - 4);
    for (exponent, sixteenths) in (6..70)
        .flat_map(|exponent| (0..16).map(move |n| (exponent, n)))
        .skip(1)
    {
        let (first, next) = (least(exponent, sixteenths), least(exponent, sixteenths + 1));
        assert_eq!(
            [class(first), class(next - 1)],
            [first; 2],
            "{sixteenths}/16 more than 2^{exponent}"
        );
    }
    assert_eq!(
        [class(1 << 70), class(1 << 76)],
        [least(69, 15); 2],
        "all in the highest"
    );
}

#[test]
fn c5_a_turn_that_nobody_saw_is_taken_out_of_its_fixed_window_only() {
    let terms = per_second::<FixedWindow>(10);
    let (span, then) = (terms.span, 7 * terms.span);
    let first = after::<FixedWindow>(&terms, &[(then, 3)]);
    let both = after::<FixedWindow>(&terms, &[(then, 3), (then + span / 2, 2)]);
    let left = |state, then, n, terms: &Terms| {
        let now = then + span / 4;
        FixedWindow::left(
            FixedWindow::take_back(state, then, now, n, terms),
            now,
            terms,
        )
    };
    // The one that opened it has its full length ahead.
    assert_eq!(left(first, then, 3, &terms), 10);
    assert_eq!(left(both, then + span / 2, 2, &terms), 7);
    let next = after::<FixedWindow>(&terms, &[(then, 3), (then + span + span / 8, 2)]);
    let now = then + span + span / 4;
    assert_eq!(
        FixedWindow::take_back(next, then, now, 3, &terms),
        next,
        "of another"
    );
    let own = Terms {
        reading: Reading::own(FixedWindow::class(&terms)),
        ..terms
    };
    assert_eq!(
        left(both, then + span / 2, 2, &own),
        5,
        "nobody knows how long it is"
    );
}

#[test]
fn c5_a_turn_that_nobody_saw_is_taken_out_of_its_segment_while_that_counts() {
    type R = SegmentedWindow;
    let terms = per_second::<R>(10);
    let segment = |index: u128| index * terms.span + terms.span / 3;
    let both = after::<R>(&terms, &[(segment(7), 3), (segment(8), 2)]);
    let back = |then, now, n| R::take_back(both, segment(then), segment(now), n, &terms);
    let left = |state, now| R::left(state, segment(now), &terms);
    // The newest, now and in the segment after.
    assert_eq!(left(back(8, 8, 1), 8), 6);
    assert_eq!(left(back(8, 8, 9), 8), 7, "no more than there is");
    assert_eq!(left(back(8, 9, 1), 9), 9);
    assert_eq!(back(8, 10, 1), both);
    // What is before it, while it is that.
    assert_eq!(left(back(7, 8, 1), 8), 6);
    assert_eq!(left(back(7, 8, 9), 8), 8);
    assert_eq!(left(back(7, 8, 1), 9), 8, "only the newest counts there");
    assert_eq!(back(7, 9, 1), both);
    // Of neither.
    for then in [5, 6, 9] {
        assert_eq!(back(then, 9, 1), both);
        assert_eq!(back(then, 8, 1), both);
    }
    assert_eq!(R::take_back(0, segment(7), segment(7), 1, &terms), 0);
}

#[test]
fn c5_a_segmented_window_gives_back_what_counts_the_newest_first() {
    type R = SegmentedWindow;
    let terms = per_second::<R>(10);
    let segment = |index: u128| index * terms.span + terms.span / 3;
    let both = after::<R>(&terms, &[(segment(7), 3), (segment(8), 2)]);
    let back = |now, n| {
        let (state, n) = R::give_back(both, segment(now), n, &terms);
        (n, R::left(state, segment(now), &terms))
    };
    assert_eq!(
        [back(8, 1), back(8, 2), back(8, 4), back(8, 9)],
        [(1, 6), (2, 7), (4, 9), (5, 10)]
    );
    // The newest is what is before, and what was before does not count any longer.
    assert_eq!([back(9, 1), back(9, 9)], [(1, 9), (2, 10)]);
    assert_eq!(back(10, 9), (0, 10));
    let (newest_gone, _) = R::give_back(both, segment(8), 2, &terms);
    assert_eq!(
        R::whole_after(newest_gone, segment(8), &terms),
        9 * terms.span - segment(8)
    );
}

#[test]
fn c3_a_segmented_window_tells_the_segment_in_which_there_is_room() {
    type R = SegmentedWindow;
    let terms = per_second::<R>(10);
    let segment = |index: u128| index * terms.span + terms.span / 3;
    let both = after::<R>(&terms, &[(segment(7), 6), (segment(8), 4)]);
    let (now, to_next) = (segment(8), 9 * terms.span - segment(8));
    assert_eq!(R::take(both, now, 1, &terms), Err(to_next));
    assert_eq!(R::take(both, now, 6, &terms), Err(to_next));
    assert_eq!(R::take(both, now, 7, &terms), Err(to_next + terms.span));
    assert_eq!(R::whole_after(both, now, &terms), to_next + terms.span);
    assert_eq!(
        R::whole_after(both, segment(9), &terms),
        10 * terms.span - segment(9)
    );
    assert_eq!(R::whole_after(both, segment(10), &terms), 0);
}

/// The count has as many bits as there are below the end, so that nothing is to spare.
#[test]
fn c1_c2_a_segmented_window_of_the_largest_limit_counts_and_forgets() {
    type R = SegmentedWindow;
    for window_ns in [1 << 20, (1 << 20) + 1, (1 << 21) - 1] {
        let terms = R::terms(&quota(65_535, window_ns)).unwrap();
        for (now, n) in [
            (0, 65_535),
            (9 * terms.span, 65_535),
            (9 * terms.span - 1, 40_000),
        ] {
            let state = after::<R>(&terms, &[(now, n)]);
            let left = |segments: u128| R::left(state, now + segments * terms.span, &terms);
            assert_eq!(
                [left(0), left(1), left(2)],
                [65_535 - n, 65_535 - n, 65_535]
            );
        }
    }
}

fn a_count_beyond_the_limit_stays_beyond<R: Rule<Quota = Quota>>() {
    let [small, most, large] = [10, 30, 1 << 19].map(per_second::<R>);
    let now = 7 * small.span + small.span / 3;
    // There and back again, nothing is forgiven.
    let used = after::<R>(&most, &[(now, 30)]);
    let there = R::restate(used, &most, &small, now);
    assert_eq!(R::left(there, now, &small), 0);
    assert_eq!(
        R::left(R::restate(there, &small, &most, now), now, &most),
        0
    );
    // More than the smaller one can tell.
    let used = after::<R>(&large, &[(now, 1 << 19)]);
    let there = R::restate(used, &large, &small, now);
    assert_eq!(R::left(there, now, &small), 0);
    let [before, after] =
        [(used, large), (there, small)].map(|(state, terms)| R::whole_after(state, now, &terms));
    assert!((before..before + CELL).contains(&after), "it lasts as long");
}

#[test]
fn c1_what_a_fixed_window_counted_stays_counted() {
    a_count_beyond_the_limit_stays_beyond::<FixedWindow>();
}

#[test]
fn c1_what_a_segmented_window_counted_stays_counted() {
    a_count_beyond_the_limit_stays_beyond::<SegmentedWindow>();
}

#[test]
fn c9_a_bucket_refuses_a_burst_that_it_could_not_count_to() {
    // 2^76 - 1 ticks in all, which is the most that there is.
    let unit = (1 << 57) + (1 << 38) + (1 << 19) + 1;
    let burst = (1 << 19) - 1;
    let quota = quota(4_096, unit);
    let terms = Bucket::terms(&quota.try_burst(burst).unwrap()).unwrap();
    assert_eq!(terms.span, MOST_SPAN);
    let error = Bucket::terms(&quota.try_burst(burst + 1).unwrap()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("of 524288 is out of range: 1 to 524287"),
        "{error}"
    );
}

/// No quota reaches that far.
#[test]
fn c9_the_end_of_a_window_leaves_room_for_its_count() {
    for bits in [TICK_BITS, 32, 64] {
        let longest_ns = u64::MAX - (1 << (bits - TICK_BITS));
        assert_eq!(
            fixed_window::span(longest_ns, bits).unwrap(),
            ns(longest_ns)
        );
        let error = fixed_window::span(longest_ns + 1, bits)
            .unwrap_err()
            .to_string();
        let said = format!("of {} is out of range: 1 to {longest_ns}", longest_ns + 1);
        assert!(error.ends_with(&said), "{error}");
    }
}

#[test]
fn c9_a_segmented_window_refuses_a_limit_that_it_could_not_count_to() {
    // 2^32 ticks, so 16 bits for each of two counts.
    assert!(SegmentedWindow::terms(&quota(65_535, 1 << 20)).is_ok());
    let error = SegmentedWindow::terms(&quota(65_536, 1 << 20)).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("of 65536 is out of range: 1 to 65535"),
        "{error}"
    );
}
