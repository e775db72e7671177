//! The `mjolnir` program.
fn main() {}
