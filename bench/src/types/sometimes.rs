//! `Sometimes` where it is silent: as when it keeps a line out of a log.

use std::time::Duration;

use flowgate::Sometimes;
use flowgate_bench::cases::{Case, Traffic};

pub fn cases() -> Vec<Case> {
    let hour = Duration::from_secs(3_600);
    vec![
        silent("Sometimes, first", || Sometimes::builder().build()),
        silent("Sometimes, every", || {
            Sometimes::builder().every(u64::MAX).build()
        }),
        silent("Sometimes, interval", move || {
            Sometimes::builder().interval(hour).build()
        }),
    ]
}

fn silent(subject: &'static str, build: impl Fn() -> Sometimes) -> Case {
    let silenced = || {
        let sometimes = build();
        // The first call speaks.
        sometimes.check();
        sometimes
    };
    Case::built(subject, Traffic::RefuseFull, silenced, |sometimes| {
        sometimes.check().is_some()
    })
}
