//! What this library counts, as observable instruments of a meter. Their names are those that the facade `metrics` has, with
//! dots, and without a suffix that the exporter adds.

mod adaptive;
#[cfg(feature = "fleet")]
mod fleet;
mod keys;
#[cfg(feature = "tower")]
mod layer;
mod observed;

pub use adaptive::register_adaptive_metrics;
#[cfg(feature = "fleet")]
pub use fleet::register_fleet_metrics;
pub use keys::register_key_metrics;
#[cfg(feature = "tower")]
pub use layer::register_layer_metrics;
pub use observed::register_metrics;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};

/// The limiter's name, as the program has given it.
const LIMITER: &str = "flowgate.limiter";
/// Why an operation was refused.
const REASON: &str = "flowgate.reason";

/// Creates a counter. `observe` is called whenever a reader collects.
fn counter(
    meter: &Meter,
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    observe: impl Fn(&dyn AsyncInstrument<u64>) + Send + Sync + 'static,
) {
    meter
        .u64_observable_counter(name)
        .with_unit(unit)
        .with_description(description)
        .with_callback(observe)
        .build();
}

/// Creates the counter of waiters. `read` is called whenever a reader collects.
fn waiting(meter: &Meter, limiter: &KeyValue, read: impl Fn() -> u64 + Send + Sync + 'static) {
    let of = [limiter.clone()];
    meter
        .i64_observable_up_down_counter("flowgate.waiting")
        .with_unit("{operation}")
        .with_description("Operations that wait for their turn.")
        .with_callback(move |counter| {
            counter.observe(i64::try_from(read()).unwrap_or(i64::MAX), &of);
        })
        .build();
}
