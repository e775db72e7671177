//! The contract tests that every [`Device`](crate::Device) passes. (Filled by the device room.)
