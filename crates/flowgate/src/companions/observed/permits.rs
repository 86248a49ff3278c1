use super::Observed;
use crate::concurrency::limit::ConcurrencyLimit;
use crate::concurrency::permit::{Lender, Permit, Permits, permit_verbs};
use crate::gate::Gate;
use crate::queue::Acquire;
use crate::verdict::Denied;
use alloc::sync::Arc;

/// Defines the methods of an observed limit that grant permits.
macro_rules! counts_permits {
    ($limit:ty) => {
        impl Lender for Observed<$limit> {}

        impl Observed<$limit> {
            permit_verbs! {
                /// Admits one operation.
                ///
                /// # Errors
                ///
                /// Returns the [`Denied`] of the limit, and counts it.
                try_acquire;

                /// Admits `n` operations, all or none.
                ///
                /// # Errors
                ///
                /// Returns the [`Denied`] of the limit, and counts it.
                try_acquire_n;

                /// Admits one operation, with a permit that keeps the limit alive.
                ///
                /// ```
                /// use flowgate::{ConcurrencyLimit, Observed};
                /// use std::sync::Arc;
                ///
                /// let workers = Arc::new(Observed::new(ConcurrencyLimit::new(1)));
                /// let permit = workers.try_acquire_owned()?;
                /// let worker = std::thread::spawn(move || drop(permit)); // … after its work
                /// assert!(worker.join().is_ok());
                /// assert_eq!(workers.counts().admitted, 1);
                /// # Ok::<(), flowgate::Denied>(())
                /// ```
                ///
                /// # Errors
                ///
                /// Returns the [`Denied`] of the limit, as [`try_acquire`](Self::try_acquire) does, and counts it.
                try_acquire_owned;

                /// Admits `n` operations, all or none, with a permit that keeps the limit alive.
                ///
                /// # Errors
                ///
                /// Returns the [`Denied`] of the limit, as [`try_acquire_n`](Self::try_acquire_n) does, and counts it.
                try_acquire_n_owned;

                /// Waits in FIFO order for one permit. The returned future is also a builder.
                acquire;

                /// Waits as [`acquire`](Self::acquire), for a permit that keeps the limit alive.
                acquire_owned;
            }

            #[inline]
            fn take(&self, n: u64) -> Result<(), Denied> {
                let taken = self.limiter.try_acquire_n(n);
                // The operations end when those of the permit that is made from it end.
                self.count(n, taken.map(core::mem::forget))
            }
        }
    };
}

counts_permits!(ConcurrencyLimit);
counts_permits!(Gate);
