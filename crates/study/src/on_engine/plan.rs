//! What a study on the engine is made of, checked.

use mjolnir_engine::{OpenOptions, RESERVE_SEGMENTS_MIN, ReclaimOptions};
use mjolnir_flash::Device as Hardware;
use mjolnir_flash::nand::Nand;
use mjolnir_units::{BLOCK_SIZE, ByteSize};
use mjolnir_vtime::{Jobs, SimRuntime};

use crate::drive::DriveId;
use crate::drive::SimDrive;
use crate::drive::layout::Layout;
use crate::precondition::Precondition;
use crate::spec::Study;

/// Of so many erase blocks of a plane one is kept back where some may fail: data sheets promise that
/// no more than 2 % do in a drive's life.
const SPARE_SHARE: u32 = 50;

/// What a study on the engine is made of, checked.
pub(crate) struct Plan {
    pub hardware: Hardware,
    pub layout: Layout,
    /// Bytes that the host is offered.
    pub bytes: u64,
    pub options: OpenOptions,
    /// What marks cost.
    pub jobs: Jobs,
    pub precondition: Precondition,
}

impl Plan {
    pub fn new(study: &Study, hardware: Hardware) -> Result<Self, String> {
        let spare_blocks = study.drive.spare_blocks.unwrap_or(match hardware.faults.never() {
            true => 0,
            false => hardware.nand.blocks_per_plane.div_ceil(SPARE_SHARE),
        });
        let layout = Layout::new(&hardware.nand, study.drive.zone_planes, spare_blocks)?;
        let physical = u64::from(layout.zones) * layout.zone_bytes();
        let bytes = match (&study.drive.bytes, study.drive.over_provisioning) {
            (Some(_), Some(_)) => {
                return Err("drive: say `bytes` or `over_provisioning`, not both".to_owned());
            }
            (Some(bytes), None) => bytes.get("drive.bytes")?,
            (None, share) => {
                let share = share.unwrap_or(hardware.ftl.over_provisioning);
                if !(0.0..1.0).contains(&share) {
                    return Err(format!(
                        "drive.over_provisioning = {share}: write a share from 0 to below 1"
                    ));
                }
                ((1.0 - share) * physical as f64) as u64
            }
        };
        let bytes = bytes / BLOCK_SIZE * BLOCK_SIZE;
        if bytes == 0 || bytes > physical {
            return Err(format!(
                "drive.bytes: the host cannot be offered {}: the NAND has {} in all",
                ByteSize(bytes),
                ByteSize(physical)
            ));
        }
        let options = options(study, &hardware, physical)?;
        let jobs =
            Jobs::BySteps { step_ns: study.engine.scan_ns_per_mapping, cores: study.engine.cores };
        let precondition = Precondition::new(&study.precondition)?;
        check_room(study, &layout, precondition.filled(bytes / BLOCK_SIZE))?;
        Ok(Plan { hardware, layout, bytes, options, jobs, precondition })
    }

    /// An empty drive. Failures of its NAND are drawn by `seed`.
    pub fn drive(&self, id: DriveId, runtime: &SimRuntime, oracle: bool, seed: u64) -> SimDrive {
        let device = &self.hardware;
        let faults = device.faults.clone();
        let nand = Nand::new(device.nand.clone(), device.timing.clone(), faults, seed);
        let overhead_ns = device.controller.read_overhead_ns;
        let (runtime, layout) = (runtime.clone(), self.layout.clone());
        SimDrive::new(id, runtime, &device.name, layout, nand, overhead_ns, oracle)
    }
}

fn options(study: &Study, hardware: &Hardware, physical: u64) -> Result<OpenOptions, String> {
    let spec = &study.engine;
    for (key, value) in
        [("request_ns", spec.request_ns), ("scan_ns_per_mapping", spec.scan_ns_per_mapping)]
    {
        if !(0.0..=1e9).contains(&value) {
            return Err(format!("engine.{key} = {value}: write a number from 0 to 1e9"));
        }
    }
    if spec.cores == 0 {
        return Err("engine.cores: write at least 1".to_owned());
    }
    let blocks = physical / BLOCK_SIZE;
    let own_buffer = match hardware.controller.write_buffer_bytes {
        0 => 64 << 20,
        bytes => bytes,
    };
    // Without time there is nothing to be won by having much at hand, nor by reading far ahead.
    let (buffer, checksums) = match study.measure.timed {
        true => (own_buffer, u64::MAX),
        false => (own_buffer.min(4 << 20), 512 << 10),
    };
    let unsaid = OpenOptions {
        dirty_bytes_max: buffer,
        checksum_bytes_max: checksums,
        // 16 bytes a block hold the map and the checksums, and a quarter of the budget may be
        // dirty. The least is for buffers.
        memory_bytes: (64 * blocks).max(1 << 30),
        reclaim: ReclaimOptions {
            wear_gap_max: hardware.ftl.wear_gap_max,
            ..ReclaimOptions::default()
        },
        ..OpenOptions::default()
    };
    spec.options(physical, unsaid)
}

/// Refuses to fill more blocks than the engine's own reserve leaves, whatever it is that is written.
fn check_room(study: &Study, layout: &Layout, filled: u64) -> Result<(), String> {
    let data_zones = u64::from(layout.zones.saturating_sub(RESERVE_SEGMENTS_MIN));
    if layout.zones < RESERVE_SEGMENTS_MIN || filled <= data_zones * layout.zone_blocks {
        return Ok(());
    }
    let key = if study.drive.bytes.is_some() { "bytes" } else { "over_provisioning" };
    Err(format!(
        "drive.{key}: precondition.fill writes {} of {} NAND, and the engine keeps at least \
         {RESERVE_SEGMENTS_MIN} zones of {} for itself: leave more spare (drive.over_provisioning), \
         make zones smaller (drive.zone_planes), or fill less",
        ByteSize(filled * BLOCK_SIZE),
        ByteSize(u64::from(layout.zones) * layout.zone_bytes()),
        ByteSize(layout.zone_bytes())
    ))
}
