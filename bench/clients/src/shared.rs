//! What every benchmark here needs, from the files of the others.

#[path = "../../src/machine.rs"]
pub mod machine;
#[path = "../../src/options.rs"]
pub mod options;
#[path = "../../waiting/src/outcome.rs"]
pub mod outcome;
#[path = "../../waiting/src/spread.rs"]
pub mod spread;
