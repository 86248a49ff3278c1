//! Panics that are a result.

use std::panic;

/// Does it without a word about panics, which are caught and told of otherwise.
pub fn quietly<T>(act: impl FnOnce() -> T) -> T {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = act();
    panic::set_hook(hook);
    result
}
