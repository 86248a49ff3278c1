//! A museum of rate limiters that are known to be wrong.
//!
//! Each is a small re-creation, in our own code, of a mistake that was made in earnest and shipped.
//! They are here to keep the checkers honest: each is caught, by name, in this crate's tests. And
//! they are worth a visit before writing a limiter of your own; each page says which flowgate type
//! to use instead.
//!
//! Schedules means [`interleave`](crate::interleave); contracts, [`conformance`](crate::conformance).
//!
//! | specimen | the mistake | caught by |
//! |---|---|---|
//! | [`late_store`] | a reset in two stores, the second one late | schedules |
//! | [`subtract_below_zero`] | both see enough, both subtract, the rest wraps | schedules |
//! | [`dropped_remainder`] | what is less than a token is thrown away at each refill | C2, C8 |
//! | [`starts_empty`] | the first caller is refused | C2 |
//! | [`minting_clock`] | a backward clock moves the refill time back | C4 |
//! | [`retroactive_rate`] | a new rate is applied to time that has passed | C1 |
//! | [`whole_nanoseconds`] | the interval is cut to whole nanoseconds | C1, C8 |
//! | [`wrong_clamp`] | an idle bucket saves up twice its burst | C1 |
//! | [`double_credit`] | idle time is counted after the stock was spent | C1 |
//! | [`oversize_resets`] | a request that can never fit resets the bucket | C1 |
//! | [`late_retry`] | the time when the bucket is full is told, not when there is enough | C3 |
//! | [`blind_cancel`] | a cancelled reservation gives all back, though later ones stand | C5 |

pub mod blind_cancel;
pub mod double_credit;
pub mod dropped_remainder;
pub mod late_retry;
pub mod late_store;
pub mod minting_clock;
pub mod oversize_resets;
pub mod retroactive_rate;
pub mod starts_empty;
pub mod subtract_below_zero;
pub mod whole_nanoseconds;
pub mod wrong_clamp;

use crate::script::{Outcome, Retry, Setup};
use crate::subject::{Build, Capabilities, Subject};

/// A limiter that can only try, with any cost.
const TRIES: Capabilities = Capabilities {
    costs: true,
    take_up_to: false,
    overdraw: false,
    reserve: false,
    refund: false,
    available: false,
    set_quota: false,
    retry_after: false,
};

fn verdict(admitted: bool) -> Outcome {
    if admitted {
        Outcome::Admitted
    } else {
        Outcome::Refused(Retry::Untold)
    }
}

/// Every specimen that takes part in the conformance suite, by name.
pub fn subjects() -> Vec<(&'static str, Build<'static>)> {
    fn lend(mut subject: impl Subject, test: &mut dyn FnMut(&mut dyn Subject)) {
        test(&mut subject);
    }
    type Test<'a> = &'a mut dyn FnMut(&mut dyn Subject);
    vec![
        ("dropped_remainder", &|s: &Setup, t: Test<'_>| {
            lend(dropped_remainder::DroppedRemainder::new(s.quota), t);
        }),
        ("starts_empty", &|s: &Setup, t: Test<'_>| {
            lend(starts_empty::StartsEmpty::new(s.quota), t)
        }),
        ("minting_clock", &|s: &Setup, t: Test<'_>| {
            lend(minting_clock::MintingClock::new(s.quota), t);
        }),
        ("retroactive_rate", &|s: &Setup, t: Test<'_>| {
            lend(retroactive_rate::RetroactiveRate::new(s.quota), t);
        }),
        ("whole_nanoseconds", &|s: &Setup, t: Test<'_>| {
            lend(whole_nanoseconds::WholeNanoseconds::new(s.quota), t);
        }),
        ("wrong_clamp", &|s: &Setup, t: Test<'_>| {
            lend(wrong_clamp::WrongClamp::new(s.quota), t)
        }),
        ("double_credit", &|s: &Setup, t: Test<'_>| {
            lend(double_credit::DoubleCredit::new(s.quota), t);
        }),
        ("oversize_resets", &|s: &Setup, t: Test<'_>| {
            lend(oversize_resets::OversizeResets::new(s.quota), t);
        }),
        ("late_retry", &|s: &Setup, t: Test<'_>| {
            lend(late_retry::LateRetry::new(s.quota), t)
        }),
        ("blind_cancel", &|s: &Setup, t: Test<'_>| {
            lend(blind_cancel::BlindCancel::new(s.quota), t);
        }),
    ]
}
