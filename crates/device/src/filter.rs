//! Filters: devices that wrap a device, to fault, delay or record. (Filled by the device room.)
