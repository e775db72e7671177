//! The device file of a study, with what differs from it.

use std::fs;
use std::path::PathBuf;

use mjolnir_flash::Device;
use strsim::damerau_levenshtein;

use super::spec::DeviceSpec;

/// The device that a study names, checked: with its own firmware, or without.
pub(super) fn device(spec: &DeviceSpec, own_firmware: bool) -> Result<Device, String> {
    if !own_firmware {
        check_no_firmware(spec)?;
    }
    let text = match Device::shipped_text(&spec.file) {
        Some(text) => text.to_owned(),
        None => match fs::read_to_string(&spec.file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let unknown = Device::shipped(&spec.file).err().map(|error| error.to_string());
                return Err(format!("device.file: {}", unknown.unwrap_or_default()));
            }
            Err(error) => return Err(format!("device.file: cannot read {}: {error}", spec.file)),
        },
    };
    let mut table: toml::Table =
        text.parse().map_err(|error| format!("device.file: {}: {error}", spec.file))?;
    for (name, own) in [
        ("nand", &spec.nand),
        ("timing", &spec.timing),
        ("controller", &spec.controller),
        ("ftl", &spec.ftl),
        ("faults", &spec.faults),
    ] {
        if own.is_empty() {
            continue;
        }
        let part = table.entry(name).or_insert_with(|| toml::Table::new().into());
        let toml::Value::Table(part) = part else {
            return Err(format!("device.file: {}: {name} is no table", spec.file));
        };
        for (key, value) in own {
            // A whole number does for a number with a fraction, as people write it.
            let value = match (part.get(key), value) {
                (Some(toml::Value::Float(_)), toml::Value::Integer(whole)) => {
                    toml::Value::Float(*whole as f64)
                }
                _ => value.clone(),
            };
            part.insert(key.clone(), value);
        }
    }
    let device = Device::from_table(&spec.file, table).and_then(|device| {
        match own_firmware {
            true => device.check(&spec.file)?,
            false => device.check_hardware(&spec.file)?,
        }
        Ok(device)
    });
    device.map_err(|error| format!("device: {error}"))
}

/// The device file to read; `None` for what is shipped.
pub(super) fn input(spec: &DeviceSpec) -> Option<PathBuf> {
    Device::shipped_text(&spec.file).is_none().then(|| PathBuf::from(&spec.file))
}

/// Fields of the firmware that an engine's drive goes by, too.
const COMMON: [&str; 2] = ["over_provisioning", "wear_gap_max"];

/// Refuses what a study sets of a firmware that does not run.
fn check_no_firmware(spec: &DeviceSpec) -> Result<(), String> {
    match spec.ftl.keys().find(|key| !COMMON.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let instead = match key.as_str() {
                "victim" | "placement" => format!("say engine.{key} instead"),
                _ => match COMMON.iter().find(|known| damerau_levenshtein(known, key) <= 2) {
                    Some(known) => format!("{known:?} comes nearest"),
                    None => "leave it out".to_owned(),
                },
            };
            Err(format!(
                "device.ftl.{key}: the engine runs in place of the device's own firmware; {instead}"
            ))
        }
    }
}
