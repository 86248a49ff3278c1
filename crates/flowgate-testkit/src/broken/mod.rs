//! Known-broken rate limiters.
//!
//! Each module is a small re-creation of a defect in a limiter that was shipped or published. They test the checkers: this
//! crate's tests require that each is detected. `cargo run -p flowgate-testkit --example broken_limiters` shows each with
//! its shortest failing history, and the flowgate type to use instead.
//!
//! In the last column, *schedules* means [`interleave`](crate::interleave), *oracle* means
//! [`differential`](crate::differential), and a contract means [`conformance`](crate::conformance).
//!
//! | module | defect | detected by |
//! |---|---|---|
//! | [`two_atomics`], stage 1 | two threads reset the window, and one of their admissions is not counted | schedules, C1 |
//! | [`two_atomics`], stage 2 | the first call wraps the count to 0, and others are admitted before the reset | schedules, C1 |
//! | [`two_atomics`], stage 3 | the winner stalls before it stores 1, and overwrites what is counted meanwhile | schedules, C1 |
//! | [`two_atomics`], stage 4 | two words are not atomic together: while the winner stalls, an empty window refuses every call | schedules, C2 |
//! | [`wrapping_refusals`] | refused calls are counted too, until the counter wraps to 0 and admits | schedules, C1 |
//! | [`stale_anchor`] | the clock is read only when the count is used up, so two limits are admitted in one burst after a rest | C1 |
//! | [`next_window`] | admissions between the swap of the start and the replacement of the count are lost | schedules, C1 |
//! | [`late_trimmer`] | calls are refused needlessly until a background task runs | C2 |
//! | [`old_timestamp`] | a call records a time that it read long ago, and the window immediately forgets it | schedules, C1 |
//! | [`single_writer`] | a single-writer channel loses entries when a hundred threads write | schedules, C1 |
//! | [`share_of_limit`] | the usage of an evicted key is stored as a share of the limit, and shrinks when the limit is lowered and raised | C1 |
//! | [`double_balance`] | the balance is a double, and each addition rounds | C8 |
//! | [`whole_seconds`] | tokens flow in once per second, as soon as the second changes | C1 |
//! | [`double_time`] | at high rates, adding the time of a token changes nothing | C1 |
//! | [`microsecond_bucket`] | it starts empty, drops fractions of a token, and reduces rates above a million per second | C2 |
//! | [`unbounded_slack`] | unused times accumulate without bound | C1 |
//! | [`wrong_unit`] | a timeout in milliseconds is compared with a wait in microseconds | C3 |
//! | [`read_twice`] | the next free time is read twice in one attempt, and the wait belongs to the first reading | schedules, C1 |
//! | [`wrapping_elapsed`] | the elapsed time is unsigned, and a backward clock fills the allowance | C4 |
//! | [`double_clamp`] | two callers clamp the same excess, and it is subtracted twice | schedules, C2 |
//! | [`subtract_below_zero`] | two callers find enough, both subtract, and the result wraps to a full bucket | schedules, C1 |
//! | [`interval_bucket`] | the rest of an interval is forgotten; a new rate is applied to past time | oracle |
//! | [`retroactive_rate`] | a new rate is applied to past time | C1 |
//! | [`stale_refill`] | a time before a change of quota sees the bucket as it was at the change | C4 |
//! | [`dropped_remainder`] | fractions of a token are dropped at each refill | C2 |
//! | [`starts_empty`] | the first caller is refused | C2 |
//! | [`minting_clock`] | a backward clock moves the refill time back, and the time is credited twice | C4 |
//! | [`whole_nanoseconds`] | the interval between tokens is truncated to whole nanoseconds | C8 |
//! | [`wrapping_tolerance`] | interval × burst wraps in 64 bits | C8 |
//! | [`wrong_clamp`] | an idle bucket accumulates twice its burst | C1 |
//! | [`double_credit`] | idle time is credited after the tokens were spent | C1 |
//! | [`oversize_resets`] | a request that can never fit loses the state, and the bucket is full again | C1 |
//! | [`late_retry`] | refusals report when the bucket is full, not when there are enough tokens | C3 |
//! | [`finite_never`] | a request that can never fit gets a retry time | C3 |
//! | [`timeout_keeps_slot`] | a call that gives up keeps its position, and later calls wait longer | oracle |
//! | [`rising_remaining`] | the used tokens are reported as the remaining ones | oracle |
//! | [`blind_cancel`] | a cancelled reservation returns everything, although later ones exist | C5 |
//! | [`check_then_increment`] | processes read a count in a database, and then increment it | schedules, C1 |
//! | [`short_ttl`] | a record in a database expires before its debt is paid | C1 |
//! | [`truncated_expiry`] | a window in a database is truncated to whole milliseconds | C1 |
//! | [`repeated_refund`] | a refund is sent to a database again, because its reply was lost | C5 |

mod broken_limiter;
mod catalogue;

pub mod blind_cancel;
pub mod check_then_increment;
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
pub mod repeated_refund;
pub mod retroactive_rate;
pub mod rising_remaining;
pub mod share_of_limit;
pub mod short_ttl;
pub mod single_writer;
pub mod stale_anchor;
pub mod stale_refill;
pub mod starts_empty;
pub mod subtract_below_zero;
pub mod timeout_keeps_slot;
pub mod truncated_expiry;
pub mod two_atomics;
pub mod unbounded_slack;
pub mod whole_nanoseconds;
pub mod whole_seconds;
pub mod wrapping_elapsed;
pub mod wrapping_refusals;
pub mod wrapping_tolerance;
pub mod wrong_clamp;
pub mod wrong_unit;

pub use broken_limiter::{BrokenLimiter, BuildBroken, Checker, Detection};
pub use catalogue::broken_limiters;

use crate::script::{OperationOutcome, Retry};
use crate::subject::Capabilities;

/// A limiter that only supports [`Op::Try`](crate::script::Op::Try), with any cost.
const TRIES: Capabilities = Capabilities {
    costs: true,
    ..Capabilities::NONE
};

fn verdict(admitted: bool) -> OperationOutcome {
    if admitted {
        OperationOutcome::Admitted
    } else {
        OperationOutcome::Refused(Retry::Untold)
    }
}
