//! Tests with a real store.

mod strict;
mod support;
