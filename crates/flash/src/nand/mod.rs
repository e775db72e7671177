//! NAND flash: what may be done to it, and when it is done.
//!
//! [`Nand`] keeps the rules of the medium (programs in order within an erase block, erase before
//! program, wear, failures) and its time. It knows nothing of what the pages hold: that is the
//! business of whoever programs them.

mod array;
mod die;
mod error;
mod fault;
mod geometry;
mod timeline;
mod timing;

pub use array::Nand;
pub use die::{Part, Span};
pub use error::NandError;
pub use fault::{Faults, Programmed};
pub use geometry::Geometry;
pub use timeline::Timeline;
pub use timing::Timing;
