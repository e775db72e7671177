//! The device files that are shipped.

/// Name and text of each.
pub(super) const DEVICES: &[(&str, &str)] = &[
    ("disksim-ssd", include_str!("../../devices/disksim-ssd.toml")),
    ("harmonia", include_str!("../../devices/harmonia.toml")),
    ("mqsim-mlc", include_str!("../../devices/mqsim-mlc.toml")),
    ("970pro", include_str!("../../devices/970pro.toml")),
    ("zn540", include_str!("../../devices/zn540.toml")),
    ("femu-tlc", include_str!("../../devices/femu-tlc.toml")),
];
