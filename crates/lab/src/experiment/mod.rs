//! Experiments: TOML files that name what to run, over which values, and what figures to draw.

mod outcome;

pub use outcome::{Kind, Outcome, Series};
