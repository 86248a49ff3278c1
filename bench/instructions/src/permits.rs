//! Permits of concurrency limits, fixed and adaptive: take one and give it back, or be refused.
//!
//! They are counted on a clock that stands still. No window of an adaptive limit ends then, so every call is measured: that is the
//! dearest case.

use flowgate::{AdaptiveLimit, CallOutcome, Clock, ConcurrencyLimit, FineLimit, Gradient};

use crate::{Operation, operation};

const COUNT: u32 = 10;

pub fn operations(clock: &Clock) -> Vec<Operation> {
    let fixed = || {
        let limit = ConcurrencyLimit::builder(COUNT).clock(clock.clone());
        limit.build().expect("the limit is in range")
    };
    let adaptive = || {
        let count = FineLimit::whole(COUNT);
        let limit = AdaptiveLimit::builder(Gradient::default()).bounds(count, count);
        let limit = limit.clock(clock.clone()).build();
        limit.expect("the settings are within their ranges")
    };
    let (used_up, adaptive_used_up) = (fixed(), adaptive());
    std::mem::forget(used_up.try_acquire_n(COUNT.into()));
    std::mem::forget(adaptive_used_up.try_acquire_n(COUNT.into()));
    vec![
        operation("permit_take_and_drop", fixed(), |limit, _| {
            limit.try_acquire().is_ok()
        }),
        operation("permit_refuse", used_up, |limit, _| {
            limit.try_acquire().is_ok()
        }),
        operation("adaptive_permit_finish", adaptive(), |limit, _| {
            let permit = limit.try_acquire();
            permit
                .map(|permit| permit.finish(CallOutcome::Success))
                .is_ok()
        }),
        operation("adaptive_permit_overload", adaptive(), |limit, _| {
            let permit = limit.try_acquire();
            permit
                .map(|permit| permit.finish(CallOutcome::Overload))
                .is_ok()
        }),
        operation("adaptive_permit_drop", adaptive(), |limit, _| {
            limit.try_acquire().is_ok()
        }),
        operation("adaptive_permit_refuse", adaptive_used_up, |limit, _| {
            limit.try_acquire().is_ok()
        }),
    ]
}
