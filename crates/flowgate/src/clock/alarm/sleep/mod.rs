//! Sleeping until a time that other threads may bring forward.

#[cfg(target_os = "linux")]
mod linux;
mod portable;

#[cfg(not(target_os = "linux"))]
pub(super) use crate::clock::os_now_ns as now_ns;
#[cfg(target_os = "linux")]
pub(super) use linux::now_ns;

/// What one thread sleeps on, and any thread sets.
///
/// Callers set it under a lock of their own, and the sleeping thread sets it before each sleep.
#[derive(Debug)]
pub(super) enum Sleeper {
    #[cfg(target_os = "linux")]
    Descriptor(linux::Descriptor),
    Condition(portable::Condition),
}

impl Sleeper {
    /// Creates the most precise sleeper that is available.
    pub(super) fn new() -> Self {
        // For example, if too many files are open. To be late by tens of microseconds is better than not to wake.
        #[cfg(target_os = "linux")]
        if let Ok(descriptor) = linux::Descriptor::new() {
            return Self::Descriptor(descriptor);
        }
        Self::portable()
    }

    /// Creates a sleeper that is as precise as the standard library allows.
    pub(super) fn portable() -> Self {
        Self::Condition(portable::Condition::new())
    }

    /// Sets the end of the present or the next sleep to `at_ns` of [`now_ns`]. All times set before are void.
    pub(super) fn arm(&self, at_ns: u64) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Descriptor(descriptor) => descriptor.arm(at_ns),
            Self::Condition(condition) => condition.arm(at_ns),
        }
    }

    /// Returns at the time that is set, or earlier for no reason.
    pub(super) fn sleep(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Descriptor(descriptor) => descriptor.sleep(),
            Self::Condition(condition) => condition.sleep(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Sleeper, now_ns};
    use crate::clock::alarm::tests::hears;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::vec::Vec;

    fn both() -> Vec<Arc<Sleeper>> {
        let precise = Sleeper::new();
        #[cfg(target_os = "linux")]
        assert!(matches!(precise, Sleeper::Descriptor(_)));
        [precise, Sleeper::portable()].map(Arc::new).into()
    }

    #[test]
    fn a_sleep_ends_at_its_time_and_not_before() {
        for sleeper in both() {
            for wait_ns in [0, 1, 50_000, 2_000_000] {
                let at_ns = now_ns() + wait_ns;
                sleeper.arm(at_ns);
                while now_ns() < at_ns {
                    sleeper.sleep();
                }
            }
        }
    }

    #[test]
    fn a_time_in_the_past_ends_the_sleep_at_once() {
        for sleeper in both() {
            for at_ns in [0, 1, now_ns()] {
                sleeper.arm(at_ns);
                sleeper.sleep();
            }
        }
    }

    #[test]
    fn an_earlier_time_ends_a_sleep_that_has_begun() {
        for sleeper in both() {
            sleeper.arm(u64::MAX);
            let (awake, heard) = channel();
            std::thread::spawn({
                let sleeper = Arc::clone(&sleeper);
                move || {
                    sleeper.sleep();
                    awake.send(()).expect("somebody listens");
                }
            });
            // Whether the other has fallen asleep yet or not.
            for _ in 0..100 {
                std::thread::yield_now();
            }
            sleeper.arm(now_ns() + 1_000);
            hears(&heard).expect("it wakes");
        }
    }
}
