//! The clocks alone: a decision cannot cost less than the clock it reads.

use std::time::Instant;

use ::flowgate::Clock;
use ::governor::clock::{Clock as _, QuantaClock};

use super::{Case, Traffic};

pub fn cases() -> Vec<Case> {
    let quanta = QuantaClock::default();
    let first = quanta.now();
    vec![
        #[cfg(target_arch = "x86_64")]
        Case::new("rdtsc", Traffic::Clock, (), |()| crate::tsc::now() != 0),
        Case::new(
            "quanta 0.12 (governor's)",
            Traffic::Clock,
            quanta,
            move |clock| clock.now() != first,
        ),
        Case::new(
            "flowgate default clock",
            Traffic::Clock,
            Clock::system(),
            |clock| clock.now().as_nanos() != 0,
        ),
        Case::new("flowgate OS clock", Traffic::Clock, Clock::os(), |clock| {
            clock.now().as_nanos() != 0
        }),
        Case::new(
            "std Instant::now",
            Traffic::Clock,
            Instant::now(),
            |first| Instant::now() != *first,
        ),
    ]
}
