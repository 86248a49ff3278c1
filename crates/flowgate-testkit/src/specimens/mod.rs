//! A museum of rate limiters that are known to be wrong.
//!
//! Each is a small re-creation, in our own code, of a mistake that was made in earnest and shipped
//! or published. They are here to keep the checkers honest: each is caught, by name, in this crate's
//! tests. And they are worth a visit before writing a limiter of your own:
//! `cargo run -p flowgate-testkit --example museum` shows each with its shortest failing history, and
//! says which flowgate type to use instead.
//!
//! Schedules means [`interleave`](crate::interleave); the oracle, [`differential`](crate::differential);
//! contracts, [`conformance`](crate::conformance).
//!
//! | specimen | the mistake | caught by |
//! |---|---|---|
//! | [`two_atomics`], stage 1 | two threads reset the window, and one of their admissions is not counted | schedules, C1 |
//! | [`two_atomics`], stage 2 | the first call wraps the count to 0, and others are admitted before it is reset | schedules, C1 |
//! | [`two_atomics`], stage 3 | the winner stalls before it stores 1; what is counted meanwhile is wiped | schedules, C1 |
//! | [`two_atomics`], stage 4 | no ordering makes two words one: while the winner stalls, an empty window refuses everybody | schedules, C2 |
//! | [`wrapping_refusals`] | refused calls are counted too, until the counter wraps to 0 and admits | schedules, C1 |
//! | [`stale_anchor`] | the clock is read only when the count is used up, so two limits go at once after a rest | C1 |
//! | [`next_window`] | what is admitted between the swap of the start and the exchange of the count is wiped | schedules, C1 |
//! | [`late_trimmer`] | until the task gets round to it, calls are refused that would fit | C2 |
//! | [`old_timestamp`] | a call enters a time that it read long ago, and the window forgets it at once | schedules, C1 |
//! | [`single_writer`] | a channel declared to have a single writer loses entries when it has a hundred | schedules, C1 |
//! | [`share_of_limit`] | what an evicted key has used is kept as a share of the limit, and forgotten when that goes down and up | C1 |
//! | [`double_balance`] | the balance is a double, and each addition rounds | C8 |
//! | [`whole_seconds`] | what flows in comes in gulps, at once when the second changes | C1 |
//! | [`double_time`] | at high rates adding the time of a token changes nothing | C1 |
//! | [`microsecond_bucket`] | it starts empty, drops fractions of a token, and cuts rates above a million per second | C2 |
//! | [`unbounded_slack`] | slots that nobody used are saved up without bound | C1 |
//! | [`wrong_unit`] | a timeout in milliseconds is compared with a wait in microseconds | C3 |
//! | [`read_twice`] | the next slot is read twice in one round, and the wait belongs to the first reading | schedules, C1 |
//! | [`wrapping_elapsed`] | now minus last is unsigned, and a clock that goes back fills the allowance | C4 |
//! | [`double_clamp`] | two callers clamp the same excess, and it is taken off twice | schedules, C2 |
//! | [`subtract_below_zero`] | two callers see enough, both subtract, and the rest wraps to a full bucket | schedules, C1 |
//! | [`interval_bucket`] | what remains of an interval is forgotten; a new rate is applied to time that has passed | oracle |
//! | [`retroactive_rate`] | a new rate is applied to time that has passed | C1 |
//! | [`stale_refill`] | a time before a change of quota sees the bucket as the change found it | C4 |
//! | [`dropped_remainder`] | what is less than a token is thrown away at each refill | C2 |
//! | [`starts_empty`] | the first caller is refused | C2 |
//! | [`minting_clock`] | a backward clock moves the refill time back, and the time is paid twice | C4 |
//! | [`whole_nanoseconds`] | the interval between tokens is cut to whole nanoseconds | C8 |
//! | [`wrapping_tolerance`] | interval times burst wraps in 64 bits | C8 |
//! | [`wrong_clamp`] | an idle bucket saves up twice its burst | C1 |
//! | [`double_credit`] | idle time is counted after the stock was spent | C1 |
//! | [`oversize_resets`] | a request that can never fit loses the state, and the bucket is full again | C1 |
//! | [`late_retry`] | the time when the bucket is full is told, not when there is enough | C3 |
//! | [`finite_never`] | a request that can never fit is told a time to come back | C3 |
//! | [`timeout_keeps_slot`] | who gives up waiting keeps the place, and the others wait behind nobody | oracle |
//! | [`rising_remaining`] | what was used is told as what remains | oracle |
//! | [`blind_cancel`] | a cancelled reservation gives all back, though later grants stand | C5 |

mod catalogue;
mod exhibit;

pub mod blind_cancel;
pub mod double_balance;
pub mod double_clamp;
pub mod double_credit;
pub mod double_time;
pub mod dropped_remainder;
pub mod finite_never;
pub mod interval_bucket;
pub mod late_retry;
pub mod late_trimmer;
pub mod microsecond_bucket;
pub mod minting_clock;
pub mod next_window;
pub mod old_timestamp;
pub mod oversize_resets;
pub mod read_twice;
pub mod retroactive_rate;
pub mod rising_remaining;
pub mod share_of_limit;
pub mod single_writer;
pub mod stale_anchor;
pub mod stale_refill;
pub mod starts_empty;
pub mod subtract_below_zero;
pub mod timeout_keeps_slot;
pub mod two_atomics;
pub mod unbounded_slack;
pub mod whole_nanoseconds;
pub mod whole_seconds;
pub mod wrapping_elapsed;
pub mod wrapping_refusals;
pub mod wrapping_tolerance;
pub mod wrong_clamp;
pub mod wrong_unit;

pub use catalogue::exhibits;
pub use exhibit::{Builder, Checker, Conviction, Exhibit};

use crate::script::{Outcome, Retry};
use crate::subject::Capabilities;

/// A limiter that can only try, with any cost.
const TRIES: Capabilities = Capabilities {
    costs: true,
    ..Capabilities::NONE
};

fn verdict(admitted: bool) -> Outcome {
    if admitted {
        Outcome::Admitted
    } else {
        Outcome::Refused(Retry::Untold)
    }
}
