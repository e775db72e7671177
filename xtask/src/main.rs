//! Commands for those who work on Mjolnir.
fn main() {}
