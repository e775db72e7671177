//! Which zones of a device hold what: a pair for the label and the root, the others for data.

use mjolnir_device::{DeviceError, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, ByteSize, Pba};

use super::kernel::{Condition, Limits, Zone};
use crate::container::ZONES_MIN;

/// Zones that may be open beside those for data: the root's, and for a moment its successor.
pub(super) const OPEN_FOR_ROOTS: u32 = 2;
/// The fewest zones for data that must be allowed to be open at once.
const OPEN_FOR_DATA: u32 = 4;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The two zones of the root.
    pub roots: [Zone; 2],
    /// The zones for data.
    pub data: Vec<Zone>,
    /// Blocks that every zone for data can hold.
    pub zone_blocks: u64,
    /// Zones for data that may be open at once.
    pub open: Option<u32>,
    /// Zones for data that may be active at once.
    pub active: Option<u32>,
}

impl Shape {
    /// The shape of a device with those zones. Conventional zones are not used.
    pub fn of(name: &str, zones: &[Zone], limits: Limits) -> Result<Self, DeviceError> {
        let refuse =
            |why: String| Err(DeviceError::new(ErrorKind::Invalid, format!("{name}: {why}")));
        let mut sequential =
            zones.iter().copied().filter(|zone| zone.condition != Condition::Conventional);
        let count = sequential.clone().count() as u64;
        let (Some(first), Some(second)) = (sequential.next(), sequential.next()) else {
            return refuse(format!(
                "the device has {count} zones to be written in order, and a store needs {}",
                ZONES_MIN + 2
            ));
        };
        let mut data: Vec<Zone> = sequential.collect();
        // The last zone of a disk may be a short one.
        data.truncate(
            data.len() - usize::from(data.last().is_some_and(|last| last.length < first.length)),
        );
        if (data.len() as u64) < ZONES_MIN {
            return refuse(format!(
                "the device has {count} zones to be written in order, and a store needs {}: {ZONES_MIN} for \
                 data and two for its root; use a device with more, or smaller, zones",
                ZONES_MIN + 2
            ));
        }
        // What takes no writes says nothing of what it could take.
        let is_usable =
            |zone: &&Zone| !matches!(zone.condition, Condition::ReadOnly | Condition::Offline);
        let usable = data.iter().filter(is_usable);
        let capacity = usable.map(|zone| zone.capacity).min().unwrap_or(0);
        let zone_blocks = capacity / BLOCK_SIZE;
        let roots = [first, second].into_iter().filter(|zone| is_usable(&zone));
        let least = roots.map(|zone| zone.capacity).min().unwrap_or(capacity).min(capacity);
        if zone_blocks < 16 || least < 16 * BLOCK_SIZE {
            return refuse(format!(
                "a zone of the device holds {}, and a store needs zones of at least {}",
                ByteSize(capacity),
                ByteSize(16 * BLOCK_SIZE)
            ));
        }
        if (data.len() as u64).saturating_mul(zone_blocks) > Pba::MAX.0 + 1 {
            return refuse(format!(
                "it has {} blocks, and a store has at most {}",
                data.len() as u64 * zone_blocks,
                Pba::MAX.0 + 1
            ));
        }
        let least = OPEN_FOR_DATA + OPEN_FOR_ROOTS;
        for (limit, what) in [(limits.open, "open"), (limits.active, "active")] {
            if let Some(most) = limit.filter(|most| *most < least) {
                return refuse(format!(
                    "the device lets {most} zones be {what} at once, and a store needs {least}"
                ));
            }
        }
        let for_data = |limit: Option<u32>| limit.map(|most| most - OPEN_FOR_ROOTS);
        let (open, active) = (for_data(limits.open), for_data(limits.active));
        Ok(Shape {
            roots: [first, second],
            data,
            zone_blocks,
            // What is open is active, too.
            open: open.map_or(active, |open| Some(active.map_or(open, |active| active.min(open)))),
            active,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(count: u64, conventional: u64) -> Vec<Zone> {
        let zone = |number| Zone {
            start: number * (8 << 20),
            length: 8 << 20,
            capacity: 6 << 20,
            written: 0,
            condition: match number < conventional {
                true => Condition::Conventional,
                false => Condition::Empty,
            },
        };
        (0..count).map(zone).collect()
    }

    #[test]
    fn conventional_zones_are_passed_over_and_the_root_takes_two() {
        let limits = Limits { open: Some(8), active: Some(12) };
        let shape = Shape::of("it", &zones(32, 2), limits).unwrap();
        assert_eq!(shape.roots.map(|zone| zone.start >> 20), [16, 24]);
        assert_eq!((shape.data.len(), shape.data[0].start >> 20), (28, 32));
        assert_eq!((shape.zone_blocks, shape.open, shape.active), (1536, Some(6), Some(10)));
        let limits = Limits { open: None, active: Some(14) };
        assert_eq!(Shape::of("it", &zones(32, 0), limits).unwrap().open, Some(12));
        let unlimited = Shape::of("it", &zones(18, 0), Limits::default()).unwrap();
        assert_eq!((unlimited.data.len(), unlimited.open), (16, None));
    }

    #[test]
    fn a_short_last_zone_and_one_that_is_offline_do_not_make_the_others_smaller() {
        let mut disk = zones(40, 0);
        (disk[39].length, disk[39].capacity) = (1 << 20, 1 << 20);
        (disk[7].condition, disk[7].capacity) = (Condition::Offline, 0);
        let shape = Shape::of("it", &disk, Limits::default()).unwrap();
        assert_eq!((shape.data.len(), shape.zone_blocks), (37, 1536));
    }

    #[test]
    fn devices_that_cannot_hold_a_store_are_refused_with_what_it_needs() {
        let said = |zones: &[Zone], limits| Shape::of("it", zones, limits).unwrap_err().context;
        assert!(said(&zones(17, 0), Limits::default()).contains("17 zones"));
        assert!(said(&zones(40, 39), Limits::default()).contains("needs 18"));
        let few = Limits { open: Some(5), active: None };
        assert!(said(&zones(40, 0), few).contains("5 zones be open at once, and a store needs 6"));
        let mut tiny = zones(40, 0);
        tiny[7].capacity = 8192;
        assert!(said(&tiny, Limits::default()).contains("8 KiB"));
    }
}
