//! Reads the root, and the manifest that it names.

use mjolnir_device::{AlignedBuf, Device};
use mjolnir_store::report::ReadErrorKind;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE, Pba, ZoneId};

use crate::fault;
use crate::format::manifest::Manifest;
use crate::format::root::Root;

pub(crate) async fn read_root<D: Device>(device: &D) -> Result<Root, Error> {
    let info = device.info();
    let bytes = device
        .read_root()
        .await
        .map_err(|error| fault::device("reading the store's root", error))?
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Format,
                format!(
                    "{} holds no store: its creation did not finish, or its root was overwritten with \
                     zeroes; format it only if nothing was ever stored in it",
                    info.name
                ),
            )
        })?;
    let root = Root::decode(&bytes).map_err(|why| {
        Error::new(
            ErrorKind::Format,
            format!("{}: the store's root cannot be used: {why}", info.name),
        )
    })?;
    if root.uuid != info.uuid || root.zone_blocks != info.zone_blocks {
        return Err(Error::new(
            ErrorKind::Format,
            format!("{}: the store's root belongs to another store", info.name),
        ));
    }
    Ok(root)
}

/// The error of a copy of the manifest, before an engine exists that counts read errors.
pub(crate) struct ManifestError {
    pub kind: ReadErrorKind,
    pub at: Pba,
    pub blocks: u64,
    pub message: String,
}

pub(crate) async fn read_manifest<D: Device>(
    device: &D,
    root: &Root,
    errors: &mut Vec<ManifestError>,
) -> Result<Manifest, Error> {
    let mut first = None;
    for copy in manifest_copies(root) {
        match read_copy(device, root, copy, errors).await {
            Ok(manifest) => return Ok(manifest),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| fault::damaged("the root names no manifest")))
}

/// The number of segments of the store on `device`, as far as readable. If the device has fewer
/// segments than the manifest needs, those up to the manifest's end; otherwise the number in the
/// manifest. It may exceed the device's own number if the device's label is from before a growth.
pub async fn segments_told<D: Device>(device: &D) -> Result<u32, Error> {
    let root = read_root(device).await?;
    let ends = root.manifest.iter().map(|(pba, blocks)| pba.0.saturating_add(u64::from(*blocks)));
    let segments = ends.max().unwrap_or(0).div_ceil(root.zone_blocks.max(1));
    let segments = u32::try_from(segments).unwrap_or(u32::MAX);
    if segments > device.info().zones {
        return Ok(segments);
    }
    Ok(read_manifest(device, &root, &mut Vec::new()).await?.zones)
}

/// The chunks of the manifest, then those of its copy, if it exists.
pub(crate) fn manifest_copies(root: &Root) -> Vec<&[(Pba, u32)]> {
    let wanted = root.manifest_bytes.div_ceil(BLOCK_SIZE);
    let (mut copies, mut rest) = (Vec::new(), root.manifest.as_slice());
    while !rest.is_empty() {
        let mut blocks = 0;
        let whole = rest.iter().position(|(_, count)| {
            blocks += u64::from(*count);
            blocks >= wanted
        });
        let (copy, after) = rest.split_at(whole.map_or(rest.len(), |last| last + 1));
        copies.push(copy);
        rest = after;
    }
    copies
}

/// The cause and the advice when a store refers past the end of its device.
const SMALLER: &str = "its label is from before it grew. `mjolnir check` tells whether something is missing, \
                       and `mjolnir salvage` writes the label anew and goes on without what is lost";

async fn read_copy<D: Device>(
    device: &D,
    root: &Root,
    chunks: &[(Pba, u32)],
    errors: &mut Vec<ManifestError>,
) -> Result<Manifest, Error> {
    const NO_WAY_ON: &str = "it holds the places of all data, and no older one is kept, so all \
                             is lost unless the medium returns it again; restore from a backup";
    let info = device.info();
    let mut bytes = Vec::new();
    for (pba, blocks) in chunks {
        let end = pba.0.checked_add(u64::from(*blocks));
        if *blocks == 0
            || end.is_none_or(|end| end > info.blocks())
            || u64::from(*blocks) > info.zone_blocks
        {
            return Err(fault::damaged(format!(
                "{}: the root names a manifest at {pba}, out of range: {SMALLER}",
                info.name
            )));
        }
        let buffer = AlignedBuf::zeroed(*blocks as usize * BLOCK_BYTES);
        let piece = device.read(*pba, buffer).await.map_err(|error| {
            let (kind, message) = (ReadErrorKind::Failed, error.to_string());
            errors.push(ManifestError { kind, at: *pba, blocks: u64::from(*blocks), message });
            let error = fault::device("reading the checkpoint's manifest", error);
            Error::new(error.kind, format!("{}; {NO_WAY_ON}", error.message))
        })?;
        bytes.extend_from_slice(piece.as_ref());
    }
    if (bytes.len() as u64) < root.manifest_bytes {
        return Err(fault::damaged(format!(
            "{}: the checkpoint's manifest is shorter than its root says; {NO_WAY_ON}",
            info.name
        )));
    }
    bytes.truncate(root.manifest_bytes as usize);
    Manifest::decode(&bytes).map_err(|why| {
        if let Some((at, _)) = chunks.first() {
            let message = format!("the checkpoint's manifest is damaged: {why}");
            errors.push(ManifestError {
                kind: ReadErrorKind::Mismatch,
                at: *at,
                blocks: 1,
                message,
            });
        }
        let places: Vec<String> = chunks.iter().map(|(pba, _)| pba.to_string()).collect();
        fault::damaged(format!(
            "{}: the checkpoint's manifest (at {}) is damaged: {why}; {NO_WAY_ON}",
            info.name,
            places.join(", ")
        ))
    })
}

pub(crate) fn check_manifest(
    manifest: &Manifest,
    root: &Root,
    zones: u32,
    zone_blocks: u64,
) -> Result<(), Error> {
    if manifest.zones > zones {
        return Err(fault::damaged(format!(
            "the store has {} segments, but its label counts only {zones}: {SMALLER}",
            manifest.zones
        )));
    }
    let bad_zone = manifest
        .segments
        .iter()
        .map(|segment| segment.zone)
        .chain(manifest.free.iter().copied())
        .chain(manifest.scan.iter().copied())
        .chain(manifest.bad.iter().map(|(zone, _)| *zone))
        .find(|zone| zone.0 >= zones);
    if let Some(ZoneId(number)) = bad_zone {
        return Err(fault::damaged(format!(
            "the checkpoint names segment {number}, which does not exist"
        )));
    }
    let bad = manifest.segments.iter().find(|segment| {
        u64::from(segment.used) > zone_blocks
            || segment.footer > segment.used
            || segment.payload > segment.used
            || segment.incarnation > root.incarnation
    });
    if let Some(segment) = bad {
        return Err(fault::damaged(format!(
            "the checkpoint's entry for {} contradicts itself",
            segment.zone
        )));
    }
    Ok(())
}
