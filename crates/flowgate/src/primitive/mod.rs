//! The atomics, locks and threads of all code that decides and waits.
//!
//! The crate names them only here, so that loom and shuttle can replace them. The clocks and the threads that sleep use the
//! standard library directly, because neither tool explores them.
//!
//! - `--cfg flowgate_loom`: every type here is loom's. Loom has no 128-bit atomic, so a loom mutex around a `u128` replaces it. It
//!   is as atomic, and explored on every schedule.
//! - `--cfg flowgate_shuttle`: the types are shuttle's, for code that is too large for loom. A weak compare-and-swap sometimes
//!   fails without a reason.
//! - `--cfg flowgate_tsan`: the lock and the once-cell are types that ThreadSanitizer can observe. The standard ones are not
//!   instrumented.
//!
//! Three modules belong to these types: parameters that change while other threads read them ([`versioned`]), the number of a
//! thread ([`thread_number`]), and the pause after a lost swap ([`backoff`]).

pub(crate) mod backoff;
#[cfg(all(test, flowgate_loom))]
mod model;
// Used by the clock over the time stamp counter, which loom does not explore, and by the models.
#[cfg(any(
    all(
        feature = "tsc",
        target_arch = "x86_64",
        target_os = "linux",
        not(flowgate_loom)
    ),
    all(test, flowgate_loom)
))]
pub(crate) mod seqlock;
pub(crate) mod thread_number;
pub(crate) mod versioned;

#[cfg(not(any(flowgate_loom, flowgate_shuttle)))]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(not(flowgate_loom))]
pub(crate) use core::sync::atomic::Ordering;
#[cfg(flowgate_loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(any(flowgate_loom, flowgate_shuttle)))]
pub(crate) use portable_atomic::AtomicU128;

#[cfg(flowgate_loom)]
pub(crate) use modelled::AtomicU128;

#[cfg(flowgate_shuttle)]
pub(crate) use scheduled::{AtomicU64, AtomicU128};

/// A mutex that is held for nanoseconds.
///
/// Foreign code that runs while it is held (a clock, a comparison or copy of a key, the cloning of a waker) may panic. A poisoned
/// lock is then used as it is, because its value is consistent at every such call.
#[derive(Debug)]
pub(crate) struct Lock<T: ?Sized>(lock::Mutex<T>);

pub(crate) type LockGuard<'a, T> = lock::MutexGuard<'a, T>;

impl<T> Lock<T> {
    const_unless_loom! {
        pub(crate) const fn new(value: T) -> Self {
            Self(lock::Mutex::new(value))
        }
    }
}

impl<T: ?Sized> Lock<T> {
    #[cfg(any(
        all(feature = "std", not(flowgate_tsan)),
        flowgate_loom,
        flowgate_shuttle
    ))]
    pub(crate) fn lock(&self) -> LockGuard<'_, T> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    #[cfg(not(any(
        all(feature = "std", not(flowgate_tsan)),
        flowgate_loom,
        flowgate_shuttle
    )))]
    pub(crate) fn lock(&self) -> LockGuard<'_, T> {
        self.0.lock()
    }
}

#[cfg(flowgate_loom)]
use loom::sync as lock;
#[cfg(flowgate_shuttle)]
use shuttle::sync as lock;
#[cfg(not(any(
    all(feature = "std", not(flowgate_tsan)),
    flowgate_loom,
    flowgate_shuttle
)))]
use spin as lock;
#[cfg(all(
    feature = "std",
    not(any(flowgate_loom, flowgate_shuttle, flowgate_tsan))
))]
use std::sync as lock;

/// A value that is created when it is first needed. Shuttle does not explore the creation, and loom does so only if a model asks
/// for it.
#[derive(Debug)]
pub(crate) struct Lazy<T>(once::Once<T>);

#[cfg(all(
    any(all(feature = "std", not(flowgate_tsan)), flowgate_shuttle),
    not(flowgate_loom)
))]
mod once {
    pub(super) use std::sync::OnceLock as Once;
}
#[cfg(flowgate_loom)]
use modelled as once;
#[cfg(not(any(
    all(feature = "std", not(flowgate_tsan)),
    flowgate_loom,
    flowgate_shuttle
)))]
use spin as once;

impl<T> Lazy<T> {
    pub(crate) const fn new() -> Self {
        Self(once::Once::new())
    }

    /// Creates a cell whose creation of the value loom explores.
    #[cfg(all(test, flowgate_loom))]
    pub(crate) fn explored() -> Self {
        Self(once::Once::explored())
    }

    /// Returns the value, if it has been created.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Returns the value, if it has been created, to the owner of the cell.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.get_mut()
    }

    /// Removes the value, if it has been created. It can then be created anew.
    pub(crate) fn take(&mut self) -> Option<T> {
        let made = core::mem::replace(&mut self.0, once::Once::new());
        #[cfg(any(
            all(feature = "std", not(flowgate_tsan)),
            flowgate_loom,
            flowgate_shuttle
        ))]
        return made.into_inner();
        #[cfg(not(any(
            all(feature = "std", not(flowgate_tsan)),
            flowgate_loom,
            flowgate_shuttle
        )))]
        made.try_into_inner()
    }

    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        #[cfg(any(
            all(feature = "std", not(flowgate_tsan)),
            flowgate_loom,
            flowgate_shuttle
        ))]
        return self.0.get_or_init(make);
        #[cfg(not(any(
            all(feature = "std", not(flowgate_tsan)),
            flowgate_loom,
            flowgate_shuttle
        )))]
        self.0.call_once(make)
    }
}

/// Makes a `const fn` plain under loom. Loom's atomics cannot be built in a constant. Shuttle's can.
macro_rules! const_unless_loom {
    ($(#[$attribute:meta])* $visibility:vis const fn $($rest:tt)*) => {
        #[cfg(not(flowgate_loom))]
        $(#[$attribute])* $visibility const fn $($rest)*
        #[cfg(flowgate_loom)]
        $(#[$attribute])* $visibility fn $($rest)*
    };
}
pub(crate) use const_unless_loom;

#[cfg(flowgate_loom)]
mod modelled {
    use super::Ordering;
    use loom::sync::Mutex;
    use loom::sync::atomic::AtomicBool;
    use std::sync::OnceLock;

    /// The standard type. If loom explores the creation, it also publishes the value with Release, and readers use Acquire.
    #[derive(Debug)]
    pub(crate) struct Once<T> {
        value: OnceLock<T>,
        making: Option<Making>,
    }

    #[derive(Debug)]
    struct Making {
        is_made: AtomicBool,
        lock: Mutex<()>,
    }

    impl<T> Once<T> {
        pub(crate) const fn new() -> Self {
            Self {
                value: OnceLock::new(),
                making: None,
            }
        }

        #[cfg(test)]
        pub(crate) fn explored() -> Self {
            Self {
                value: OnceLock::new(),
                making: Some(Making {
                    is_made: AtomicBool::new(false),
                    lock: Mutex::new(()),
                }),
            }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            match &self.making {
                Some(making) if !making.is_made.load(Ordering::Acquire) => None,
                _ => self.value.get(),
            }
        }

        pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
            self.value.get_mut()
        }

        pub(crate) fn into_inner(self) -> Option<T> {
            self.value.into_inner()
        }

        pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            let Some(making) = &self.making else {
                return self.value.get_or_init(make);
            };
            if let Some(value) = self.get() {
                return value;
            }
            let lock = making
                .lock
                .lock()
                .expect("no model panics while it holds this");
            let value = self.value.get_or_init(make);
            making.is_made.store(true, Ordering::Release);
            drop(lock);
            value
        }
    }

    #[derive(Debug)]
    pub(crate) struct AtomicU128(loom::sync::Mutex<u128>);

    impl AtomicU128 {
        pub(crate) fn new(value: u128) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn load(&self, _: Ordering) -> u128 {
            *self.0.lock().expect("no model panics while it holds this")
        }

        pub(crate) fn store(&self, value: u128, _: Ordering) {
            *self.0.lock().expect("no model panics while it holds this") = value;
        }

        pub(crate) fn compare_exchange_weak(
            &self,
            current: u128,
            new: u128,
            _: Ordering,
            _: Ordering,
        ) -> Result<u128, u128> {
            let mut value = self.0.lock().expect("no model panics while it holds this");
            if *value == current {
                *value = new;
                Ok(current)
            } else {
                Err(*value)
            }
        }

        pub(crate) fn fetch_update(
            &self,
            _: Ordering,
            _: Ordering,
            next: impl FnOnce(u128) -> Option<u128>,
        ) -> Result<u128, u128> {
            let mut value = self.0.lock().expect("no model panics while it holds this");
            let before = *value;
            *value = next(before).ok_or(before)?;
            Ok(before)
        }

        pub(crate) fn is_lock_free() -> bool {
            true
        }
    }
}

#[cfg(flowgate_shuttle)]
mod scheduled {
    use super::Ordering;
    use core::ops::Deref;
    use shuttle::rand::{RngCore, thread_rng};
    use shuttle::sync::atomic;

    macro_rules! atomic {
        ($name:ident: $int:ty) => {
            #[derive(Debug, Default)]
            pub(crate) struct $name(atomic::$name);

            impl $name {
                pub(crate) const fn new(value: $int) -> Self {
                    Self(atomic::$name::new(value))
                }

                /// The original of shuttle never fails spuriously.
                pub(crate) fn compare_exchange_weak(
                    &self,
                    current: $int,
                    new: $int,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$int, $int> {
                    if thread_rng().next_u64() % 8 == 0 {
                        return Err(self.0.load(failure));
                    }
                    self.0.compare_exchange(current, new, success, failure)
                }
            }

            impl Deref for $name {
                type Target = atomic::$name;

                fn deref(&self) -> &Self::Target {
                    &self.0
                }
            }
        };
    }

    atomic!(AtomicU64: u64);
    atomic!(AtomicU128: u128);

    impl AtomicU128 {
        pub(crate) fn is_lock_free() -> bool {
            true
        }
    }
}
