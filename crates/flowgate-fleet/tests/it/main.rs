//! Tests with a real store.

mod keyed;
mod strict;
mod support;
