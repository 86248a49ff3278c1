/// Cost of an item of a [`RateLimited`](super::RateLimited) stream: [`OneToken`], or a function that returns units.
///
/// ```
/// use flowgate::{Cost, OneToken};
///
/// let mut by_length = |text: &String| text.len() as u64; // every function of an item is one
/// assert_eq!(by_length.units(&"abc".to_owned()), Some(3));
/// assert_eq!(OneToken.units(&"abc"), None);
/// ```
pub trait Cost<Item> {
    /// Returns the units that `item` takes. `None` is one token.
    fn units(&mut self, item: &Item) -> Option<u64>;
}

/// Cost of one token for each item, whatever the number of units in a token.
///
/// ```
/// use flowgate::{OneToken, RateLimited, TokenBucket};
/// use futures_core::Stream;
/// use std::sync::Arc;
///
/// /// For a task of its own: the stream with its limiter, by name.
/// struct Feed<S: Stream> {
///     events: RateLimited<S, Arc<TokenBucket>, OneToken>,
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OneToken;

impl<Item> Cost<Item> for OneToken {
    fn units(&mut self, _: &Item) -> Option<u64> {
        None
    }
}

impl<Item, F: FnMut(&Item) -> u64> Cost<Item> for F {
    fn units(&mut self, item: &Item) -> Option<u64> {
        Some(self(item))
    }
}
