use super::plumbing::{Key, Sharing};
use super::{Draw, Striped};
use crate::store::word::{Centre, Stripe};
use crate::types::fixed_window::FixedWindow;
use crate::types::leaky_bucket::LeakyBucket;
use crate::types::token_bucket::TokenBucket;
use alloc::sync::Arc;

/// A limiter whose state is one word, which can be [`Striped`]. Sealed.
///
/// ```
/// use flowgate::{FixedWindow, Limiter, OneWord, Striped, TokenBucket};
/// use std::sync::Arc;
///
/// /// For a limit that every thread asks all the time, whichever kind it is.
/// fn for_all_threads(limiter: impl OneWord + 'static) -> Arc<dyn Limiter> {
///     Arc::new(Striped::new(limiter))
/// }
///
/// for_all_threads(TokenBucket::new("5000000/s".parse()?)).try_acquire()?;
/// for_all_threads(FixedWindow::new("5000000/s".parse()?)?).try_acquire()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait OneWord: Draw + Sharing {}

macro_rules! one_word {
    ($limiter:ty, $bucket:ident => $word:expr, $clock:expr) => {
        impl OneWord for $limiter {}

        impl Sharing for $limiter {
            fn centre(&self, _: Key) -> &dyn Centre {
                let $bucket = self;
                &$word
            }

            fn share(&mut self, _: Key, stripes: usize) -> Arc<[Stripe]> {
                let $bucket = self;
                let clock = $clock.clone();
                $word.share(stripes, clock)
            }

            fn unshare(&mut self, _: Key) {
                let $bucket = self;
                $word.unshare();
            }
        }

        impl $limiter {
            /// Adds local reserves of tokens, for limits that many threads share.
            ///
            /// It pays off when several threads ask the limiter millions of times per second: see [`Striped`].
            ///
            /// ```
            /// use flowgate::{Quota, TokenBucket};
            ///
            /// let hot = TokenBucket::new(Quota::per_second(5_000_000)).striped();
            /// std::thread::scope(|threads| {
            ///     for _ in 0..4 {
            ///         threads.spawn(|| assert!((0..1000).all(|_| hot.try_acquire().is_ok())));
            ///     }
            /// });
            /// ```
            #[must_use]
            pub fn striped(self) -> Striped<Self> {
                Striped::new(self)
            }
        }
    };
}

one_word!(TokenBucket, bucket => bucket.engine.word, bucket.clock);
one_word!(LeakyBucket, bucket => bucket.engine.word, bucket.clock);
one_word!(FixedWindow, window => window.engine.word, window.clock);
