//! Compares the messages of the decision server with those of envoy-types. `tests/` does so.
