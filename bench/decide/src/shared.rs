//! What every benchmark here needs, from the files of the others.

#[path = "../../src/machine.rs"]
pub mod machine;
#[path = "../../src/options.rs"]
pub mod options;
#[path = "../../waiting/src/outcome.rs"]
#[allow(dead_code)] // Not every benchmark has every kind of goal.
pub mod outcome;
#[path = "../../waiting/src/spread.rs"]
#[allow(dead_code)]
pub mod spread;
