//! What callgrind counts, window by window.

use std::hint::black_box;

/// How often each pair of windows runs. What happens once in a while (the default clock is checked
/// each second) only ever adds instructions, so the least count of each is the operation's own.
const PAIRS: usize = 3;

/// Lets callgrind count `repeat` for `n` and for 2 `n` repetitions, after a warm-up.
///
/// Prints a line for each pair of windows, in their order: `operation clock n`.
pub fn count(operation: &str, clock: &str, n: u64, repeat: &dyn Fn(u64)) {
    // What is done on first use.
    repeat(n / 10);
    for _ in 0..PAIRS {
        println!("{operation} {clock} {n}");
        dumped_window(repeat, n);
        dumped_window(repeat, 2 * n);
    }
}

/// After this function callgrind writes what it has counted to a file. It is not the counted
/// function itself, because callgrind obeys only one order per function name.
#[inline(never)]
fn dumped_window(repeat: &dyn Fn(u64), times: u64) {
    counted_window(repeat, times);
    // Work after the call keeps it from becoming a jump, which callgrind would not see return.
    black_box(times);
}

/// The only function that is counted, with all it calls.
#[inline(never)]
fn counted_window(repeat: &dyn Fn(u64), times: u64) {
    repeat(black_box(times));
    black_box(times);
}
