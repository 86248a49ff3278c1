//! Nothing: what the others are compared with.

fn main() {}
