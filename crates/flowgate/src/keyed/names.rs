use crate::primitive::{Lock, LockGuard};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;

/// Keys are known by their hashes, and not kept: any type, and different ones in one limiter.
///
/// ```
/// use flowgate::{Hashed, Keyed, TokenBucket};
///
/// let limits: Keyed<TokenBucket, Hashed> = Keyed::token_bucket("10/h".parse()?).capacity(100)?;
/// limits.try_acquire("alice")?;
/// limits.try_acquire(&("alice", 443))?; // another key
/// assert_eq!(limits.available("alice"), 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Hashed;

/// Keys are kept and compared, so that no two ever share a limit: `Q`, such as `str`, `u64` or `IpAddr`, of which the owned
/// form is kept.
///
/// ```
/// use flowgate::{Exact, Keyed, TokenBucket};
///
/// struct Api {
///     per_user: Keyed<TokenBucket, Exact<str>>,
/// }
///
/// let per_user = Keyed::token_bucket("10/h".parse()?).exact::<str>().capacity(100)?;
/// let api = Api { per_user };
/// api.per_user.try_acquire("alice")?;
/// assert_eq!(api.per_user.most_used(1)[0].key, "alice");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Exact<Q: ToOwned + ?Sized> {
    /// By slot. Whoever changes a slot, or decides by it, holds its lock.
    names: Box<[Lock<Option<Q::Owned>>]>,
}

/// How a [`Keyed`](super::Keyed) limiter tells keys apart: [`Hashed`] or [`Exact`]. Sealed.
///
/// ```
/// use flowgate::{KeyNames, Keyed, KeyedAlgorithm};
///
/// /// For a health page, whatever the limiter is and however it tells keys apart.
/// fn fullness<A: KeyedAlgorithm, N: KeyNames>(limits: &Keyed<A, N>) -> f64 {
///     limits.len() as f64 / limits.capacity() as f64
/// }
///
/// let limits = Keyed::leaky_bucket("1/h".parse()?).exact::<u64>().capacity(200)?;
/// limits.try_acquire(&7)?;
/// assert_eq!(fullness(&limits), 0.005);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeyNames: sealed::Sealed {}

impl<N: sealed::Sealed> KeyNames for N {}

/// Keys of the type `K` can be told apart by it. Sealed.
///
/// ```
/// use flowgate::{Denied, KeyNames, Keyed, Names, TokenBucket};
///
/// /// By name, whether names are kept or not.
/// fn admit<N>(limits: &Keyed<TokenBucket, N>, user: &str) -> Result<(), Denied>
/// where
///     N: KeyNames + Names<str>,
/// {
///     limits.try_acquire(user)
/// }
///
/// let quota = "10/h".parse()?;
/// admit(&Keyed::token_bucket(quota).capacity(100)?, "alice")?;
/// admit(&Keyed::token_bucket(quota).exact::<str>().capacity(100)?, "alice")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Names<K: ?Sized>: sealed::Sealed {
    #[doc(hidden)]
    fn key(key: &K) -> &Self::Key;
}

pub(crate) mod sealed {
    use super::{Borrow, TryReserveError};

    pub trait Sealed: Sized + Send + Sync + core::fmt::Debug + 'static {
        /// Whether keys are kept, and may have changed while a slot was not held.
        const KEEPS: bool;
        /// What is kept beside each slot.
        const BYTES_PER_SLOT: usize;
        /// What is compared.
        type Key: Eq + Sync + ?Sized;
        /// What is kept of it by those who come back.
        type Owned: Borrow<Self::Key> + Send + Sync;
        /// A slot that is this key's for now.
        type Held<'a>
        where
            Self: 'a;

        fn new(slots: usize) -> Result<Self, TryReserveError>;

        fn own(key: &Self::Key) -> Self::Owned;

        /// The slot at `index`, if it is `key`'s.
        fn hold(&self, index: usize, key: &Self::Key) -> Option<Self::Held<'_>>;

        /// The slot at `index`, whosever it is.
        fn claim(&self, index: usize) -> Self::Held<'_>;

        /// Makes it `name`'s.
        fn rename(held: Self::Held<'_>, name: Self::Owned);

        /// Whose the slot at `index` is, if that is still the one that is meant.
        fn name(&self, index: usize, is_meant: impl FnOnce() -> bool) -> Option<Self::Owned>;
    }
}

impl sealed::Sealed for Hashed {
    const KEEPS: bool = false;
    const BYTES_PER_SLOT: usize = 0;
    type Key = ();
    type Owned = ();
    type Held<'a> = ();

    fn new(_: usize) -> Result<Self, TryReserveError> {
        Ok(Self)
    }

    fn own((): &()) {}

    #[inline(always)]
    fn hold(&self, _: usize, (): &()) -> Option<()> {
        Some(())
    }

    fn claim(&self, _: usize) {}

    fn rename((): (), (): ()) {}

    fn name(&self, _: usize, _: impl FnOnce() -> bool) -> Option<()> {
        Some(())
    }
}

impl<K: ?Sized> Names<K> for Hashed {
    fn key(_: &K) -> &() {
        &()
    }
}

impl<Q> sealed::Sealed for Exact<Q>
where
    Q: Eq + Hash + Sync + ToOwned<Owned: Send + Sync> + ?Sized + 'static,
{
    const KEEPS: bool = true;
    const BYTES_PER_SLOT: usize = size_of::<Lock<Option<Q::Owned>>>();
    type Key = Q;
    type Owned = Q::Owned;
    type Held<'a>
        = LockGuard<'a, Option<Q::Owned>>
    where
        Self: 'a;

    fn new(slots: usize) -> Result<Self, TryReserveError> {
        let mut names = Vec::new();
        names.try_reserve_exact(slots)?;
        names.extend((0..slots).map(|_| Lock::new(None)));
        Ok(Self {
            names: names.into_boxed_slice(),
        })
    }

    fn own(key: &Q) -> Q::Owned {
        key.to_owned()
    }

    fn hold(&self, index: usize, key: &Q) -> Option<Self::Held<'_>> {
        let name = self.names[index].lock();
        let is_it = name.as_ref().is_some_and(|name| name.borrow() == key);
        is_it.then_some(name)
    }

    fn claim(&self, index: usize) -> Self::Held<'_> {
        self.names[index].lock()
    }

    fn rename(mut held: Self::Held<'_>, name: Q::Owned) {
        *held = Some(name);
    }

    fn name(&self, index: usize, is_meant: impl FnOnce() -> bool) -> Option<Q::Owned> {
        let name = self.names[index].lock();
        let name = name.as_ref().filter(|_| is_meant());
        name.map(|name| name.borrow().to_owned())
    }
}

impl<Q> Names<Q> for Exact<Q>
where
    Q: Eq + Hash + Sync + ToOwned<Owned: Send + Sync> + ?Sized + 'static,
{
    fn key(key: &Q) -> &Q {
        key
    }
}

impl<Q: ToOwned + ?Sized> fmt::Debug for Exact<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exact")
    }
}
