use super::Observed;
use crate::concurrency::limit::ConcurrencyLimit;
use crate::concurrency::permit::{Lender, Permit, Permits};
use crate::gate::Gate;
use crate::queue::Acquire;
use crate::verdict::Denied;
use alloc::sync::Arc;

/// Gives an observed limit the verbs that grant permits.
macro_rules! counts_permits {
    ($limit:ty) => {
        impl Lender for Observed<$limit> {}

        impl Observed<$limit> {
            /// Lets one operation through, or says why not.
            ///
            /// # Errors
            ///
            /// [`Denied`], as the limit's own.
            #[inline]
            pub fn try_acquire(&self) -> Result<Permit<&Self>, Denied> {
                self.try_acquire_n(1)
            }

            /// Lets `n` operations through, all or none.
            ///
            /// # Errors
            ///
            /// [`Denied`], as the limit's own.
            #[inline]
            pub fn try_acquire_n(&self, n: u64) -> Result<Permit<&Self>, Denied> {
                self.take(n)?;
                Ok(Permit::new(self, n))
            }

            /// [`try_acquire`](Self::try_acquire) with a permit that may go anywhere.
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
            /// As there.
            #[inline]
            pub fn try_acquire_owned(self: &Arc<Self>) -> Result<Permit<Arc<Self>>, Denied> {
                self.try_acquire_n_owned(1)
            }

            /// [`try_acquire_n`](Self::try_acquire_n) with a permit that may go anywhere.
            ///
            /// # Errors
            ///
            /// As there.
            #[inline]
            pub fn try_acquire_n_owned(
                self: &Arc<Self>,
                n: u64,
            ) -> Result<Permit<Arc<Self>>, Denied> {
                self.take(n)?;
                Ok(Permit::new(Arc::clone(self), n))
            }

            /// Waits in turn until one operation may go through: a future that is also a builder.
            pub fn acquire(&self) -> Acquire<Permits<&Self>> {
                Acquire::new(Permits(self))
            }

            /// [`acquire`](Self::acquire) of a permit that may go anywhere.
            pub fn acquire_owned(self: &Arc<Self>) -> Acquire<Permits<Arc<Self>>> {
                Acquire::new(Permits(Arc::clone(self)))
            }

            #[inline]
            fn take(&self, n: u64) -> Result<(), Denied> {
                let taken = self.limiter.try_acquire_n(n);
                // Its operations are over when those of the permit made from it are.
                self.count(n, taken.map(core::mem::forget))
            }
        }
    };
}

counts_permits!(ConcurrencyLimit);
counts_permits!(Gate);
