//! What stripes and batches ask of a limiter, out of reach of other crates.
//!
//! A supertrait that cannot be named is not enough: its methods can be called on a type parameter that is bound by
//! [`OneWord`](super::OneWord). So each method takes a [`Key`], which other crates cannot make.

use crate::store::word::{Centre, Stripe};
use crate::verdict::Denied;
use alloc::sync::Arc;

/// Proof that the caller is this crate.
///
/// No other crate can name it or make one.
///
/// ```compile_fail,E0603
/// use flowgate::striped::plumbing::Key;
/// ```
///
/// So no other crate can call the methods that ask for one:
///
/// ```compile_fail,E0061
/// fn share(limiter: &mut impl flowgate::OneWord) {
///     let _ = limiter.share(2);
/// }
/// ```
///
/// ```compile_fail,E0061
/// fn unshare(limiter: &mut impl flowgate::OneWord) {
///     limiter.unshare();
/// }
/// ```
///
/// ```compile_fail,E0061
/// fn centre(limiter: &impl flowgate::OneWord) {
///     let _ = limiter.centre();
/// }
/// ```
///
/// ```compile_fail,E0061
/// fn draw(limiter: &impl flowgate::Draw) {
///     let _ = limiter.draw(1, 2);
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn share(limiter: &mut impl flowgate::OneWord) {
///     let _ = limiter.share(Default::default(), 2);
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Key(());

impl Key {
    pub(super) const fn new() -> Self {
        Self(())
    }
}

/// A limiter that hands out tokens in lots.
pub trait Lots {
    /// Takes at least `min` units, and up to `max` if there are as many. Returns how many it took.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there are fewer than `min`. The limiter is then unchanged.
    fn draw(&self, key: Key, min: u64, max: u64) -> Result<u64, Denied>;
}

/// A limiter that fills stripes.
pub trait Sharing {
    /// Returns what stripes are filled from.
    fn centre(&self, key: Key) -> &dyn Centre;

    /// Makes about `stripes` stripes, which the limiter fills from now on.
    ///
    /// Called once, before any other thread knows the limiter: tokens in stripes made before would be lost.
    fn share(&mut self, key: Key, stripes: usize) -> Arc<[Stripe]>;

    /// Takes back the tokens in all stripes, which stay empty.
    fn unshare(&mut self, key: Key);
}
