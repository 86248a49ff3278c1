//! Prints how many bytes each limiter takes: `cargo run -p flowgate --example bytes`.

use flowgate::{
    ApproximateWindow, ConcurrencyLimit, DecayingBucket, FixedWindow, LeakyBucket, Leased,
    SegmentedWindow, SlidingWindow, TokenBucket, WarmUp,
};

/// Prints `size_of` of each type. What a limiter allocates when it is built is not counted.
macro_rules! print_bytes {
    ($($limiter:ty)*) => {
        $(println!("{:<20} {:>5} bytes", stringify!($limiter), size_of::<$limiter>());)*
    };
}

fn main() {
    print_bytes! {
        TokenBucket LeakyBucket FixedWindow SlidingWindow SegmentedWindow ApproximateWindow WarmUp DecayingBucket
        Leased ConcurrencyLimit
    }
}
