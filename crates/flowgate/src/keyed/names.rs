use super::table::{Named, Names};
use alloc::borrow::ToOwned;
use alloc::string::String;
use core::hash::Hash;
use core::marker::PhantomData;

/// Keys that the table knows by their hashes, and does not store.
///
/// Any type can be a key, and one limiter can have keys of several types.
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

/// Keys that the table stores and compares, so that no two share a limit.
///
/// `Q` is the type of the keys, such as `str`, `u64` or `IpAddr`. The table stores the owned form.
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
#[derive(Debug)]
pub struct Exact<Q: ?Sized>(PhantomData<fn(&Q)>);

/// How a [`Keyed`](super::Keyed) limiter distinguishes keys: [`Hashed`] or [`Exact`]. Sealed.
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
pub trait KeyNames: Names {}

impl<N: Names> KeyNames for N {}

/// A key of a [`Keyed`](super::Keyed) limiter with `N` names. Sealed.
///
/// With [`Hashed`] names, any [`Hash`] type is a key. With [`Exact<Q>`](Exact), only `Q` is; with `Exact<str>`, a
/// `String` is, too.
///
/// ```
/// use flowgate::{AsKey, Denied, KeyNames, Keyed, TokenBucket};
///
/// /// By name, whether names are kept or not.
/// fn admit<N: KeyNames>(limits: &Keyed<TokenBucket, N>, user: &str) -> Result<(), Denied>
/// where
///     str: AsKey<N>,
/// {
///     limits.try_acquire(user)
/// }
///
/// let quota = "10/h".parse()?;
/// admit(&Keyed::token_bucket(quota).capacity(100)?, "alice")?;
/// admit(&Keyed::token_bucket(quota).exact::<str>().capacity(100)?, "alice")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of a table with `{N}` names",
    note = "with `Exact<Q>`, only `Q` is a key (and a `String`, if `Q` is `str`): name the type of your keys in `exact::<Q>()`",
    note = "a table that is built without `exact` takes any type that is `Hash`"
)]
pub trait AsKey<N: KeyNames>: Hash + Named<N> {}

impl<N: KeyNames, K: Hash + Named<N> + ?Sized> AsKey<N> for K {}

impl Names for Hashed {
    const KEEPS: bool = false;
    const NAMELESS: Option<()> = Some(());
    type Key = ();
    type Owned = ();
}

impl<K: ?Sized> Named<Hashed> for K {
    #[inline]
    fn key(&self) -> &() {
        &()
    }
}

impl<Q: Eq + Hash + Sync + ToOwned<Owned: Send + Sync> + ?Sized + 'static> Names for Exact<Q> {
    const KEEPS: bool = true;
    const NAMELESS: Option<Q::Owned> = None;
    type Key = Q;
    type Owned = Q::Owned;
}

impl<Q: Eq + Hash + Sync + ToOwned<Owned: Send + Sync> + ?Sized + 'static> Named<Exact<Q>> for Q {
    #[inline]
    fn key(&self) -> &Q {
        self
    }
}

/// Lets callers pass an owned `String` where the type of the key is [`str`].
impl Named<Exact<str>> for String {
    #[inline]
    fn key(&self) -> &str {
        self
    }
}
