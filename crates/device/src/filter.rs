//! Filters: devices that wrap a device to fault, delay or record. They stack in any order and keep
//! the contract of the inner device. In particular, a filter calls the inner device during its own
//! call, since the order of calls claims addresses.

mod delay;
mod fault;
mod record;

pub use delay::{Delay, DelayOptions};
pub use fault::{Damage, Fault, FaultControl, FaultRates};
pub use record::{Call, Event, Log, Record};

/// The requests of a [`Device`](crate::Device), to speak of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// [`append`](crate::Device::append)
    Append,
    /// [`read`](crate::Device::read)
    Read,
    /// [`flush`](crate::Device::flush)
    Flush,
    /// [`seal`](crate::Device::seal)
    Seal,
    /// [`reset`](crate::Device::reset)
    Reset,
    /// [`release`](crate::Device::release)
    Release,
    /// [`read_root`](crate::Device::read_root)
    ReadRoot,
    /// [`write_root`](crate::Device::write_root)
    WriteRoot,
    /// [`grow`](crate::Device::grow)
    Grow,
}
