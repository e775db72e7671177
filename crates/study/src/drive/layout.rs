//! Where the blocks of a zone lie on NAND: a zone is an erase block of each of some planes.

use mjolnir_flash::nand::Geometry;
use mjolnir_units::BLOCK_SIZE;

use super::stand_ins::StandIns;

/// Zones that a drive should have at least, if planes can be divided so: an engine keeps a handful
/// for itself.
const ZONES_WANTED: u64 = 256;
/// The fewest blocks in a zone.
const ZONE_BLOCKS_MIN: u64 = 128;

/// See the module. Program units of a zone lie on its planes in turn, dies before planes of a die,
/// so that neighbours share as little as possible.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Planes of a zone.
    pub zone_planes: u32,
    /// Zones of the drive.
    pub zones: u32,
    /// Blocks of 4 KiB in a zone.
    pub zone_blocks: u64,
    /// Bytes that one program operation writes.
    pub unit_bytes: u64,
    /// Pages of such a unit.
    pub unit_pages: u32,
    /// Bytes of a page.
    pub page_bytes: u64,
    dies: u32,
    planes_per_die: u32,
    blocks_per_plane: u32,
    /// Of those, the last ones, which belong to no zone: they stand in for others that fail.
    spare_blocks: u32,
    /// Groups of planes: zones with the same erase block number.
    groups: u32,
}

/// A program unit's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Erase block.
    pub block: u32,
    /// Its first page there.
    pub page: u32,
}

impl Layout {
    /// Zones of `zone_planes` planes; if not said, of as many as leave 256 zones. `spare_blocks` erase
    /// blocks of each plane belong to none.
    pub fn new(
        nand: &Geometry,
        zone_planes: Option<u32>,
        spare_blocks: u32,
    ) -> Result<Self, String> {
        let usable = nand.blocks_per_plane.saturating_sub(spare_blocks);
        if usable == 0 {
            return Err(format!(
                "drive.spare_blocks = {spare_blocks}: a plane has {} erase blocks in all; leave some \
                 of them for data",
                nand.blocks_per_plane
            ));
        }
        let planes = nand.planes();
        let block_bytes = u64::from(nand.pages_per_block) * u64::from(nand.page_bytes);
        let fits = |count: u32| {
            let bytes = u64::from(count) * block_bytes;
            planes.is_multiple_of(count)
                && bytes.is_multiple_of(BLOCK_SIZE)
                && bytes / BLOCK_SIZE >= ZONE_BLOCKS_MIN
        };
        let zones_of = |count: u32| u64::from(planes / count) * u64::from(usable);
        let zone_planes = match zone_planes {
            Some(count) if count > 0 && fits(count) => count,
            Some(count) => {
                return Err(format!(
                    "drive.zone_planes = {count}: write a number that divides the {planes} planes \
                     of the device, and that gives zones of at least {ZONE_BLOCKS_MIN} whole \
                     blocks of {BLOCK_SIZE} bytes (an erase block has {block_bytes} bytes)"
                ));
            }
            None => {
                let mut counts = (1..=planes).rev().filter(|count| fits(*count));
                let wanted = counts.clone().find(|count| zones_of(*count) >= ZONES_WANTED);
                let smallest = counts.next_back();
                wanted.or(smallest).ok_or_else(|| {
                    format!(
                        "device.nand: even zones of all {planes} planes have fewer than \
                         {ZONE_BLOCKS_MIN} blocks of {BLOCK_SIZE} bytes, or no whole number of \
                         them; make nand.pages_per_block larger"
                    )
                })?
            }
        };
        Ok(Layout {
            zone_planes,
            zones: zones_of(zone_planes) as u32,
            zone_blocks: u64::from(zone_planes) * block_bytes / BLOCK_SIZE,
            unit_bytes: u64::from(nand.page_bytes) * u64::from(nand.pages_per_program),
            unit_pages: nand.pages_per_program,
            page_bytes: nand.page_bytes.into(),
            dies: nand.dies(),
            planes_per_die: nand.planes_per_die,
            blocks_per_plane: nand.blocks_per_plane,
            spare_blocks,
            groups: planes / zone_planes,
        })
    }

    /// The erase blocks that belong to no zone.
    pub fn stand_ins(&self) -> StandIns {
        let planes = self.dies * self.planes_per_die;
        StandIns::new(planes, self.blocks_per_plane, self.spare_blocks)
    }

    /// Bytes of a zone.
    pub fn zone_bytes(&self) -> u64 {
        self.zone_blocks * BLOCK_SIZE
    }

    /// The plane, counted through all dies, on which lies what is the zone's `turn`-th.
    fn plane(&self, zone: u32, turn: u32) -> u32 {
        let order = zone % self.groups * self.zone_planes + turn;
        order % self.dies * self.planes_per_die + order / self.dies
    }

    /// Where program unit `unit` of a zone lies.
    pub fn unit(&self, zone: u32, unit: u32) -> Unit {
        let (row, turn) = (unit / self.zone_planes, unit % self.zone_planes);
        Unit { block: self.block(zone, turn), page: row * self.unit_pages }
    }

    fn block(&self, zone: u32, turn: u32) -> u32 {
        self.plane(zone, turn) * self.blocks_per_plane + zone / self.groups
    }

    /// The erase blocks of a zone.
    pub fn blocks(&self, zone: u32) -> impl Iterator<Item = u32> + use<'_> {
        (0..self.zone_planes).map(move |turn| self.block(zone, turn))
    }
}

#[cfg(test)]
mod tests {
    use mjolnir_flash::Device;

    use super::*;

    #[test]
    fn every_page_of_the_device_belongs_to_one_place_of_one_zone() {
        for (name, blocks, zone_planes, spare) in [
            ("disksim-ssd", 4, Some(8), 0),
            ("mqsim-mlc", 2, Some(4), 0),
            ("harmonia", 4, None, 0),
            ("mqsim-mlc", 5, Some(4), 2),
        ] {
            let mut device = Device::shipped(name).unwrap();
            device.nand.blocks_per_plane = blocks;
            let layout = Layout::new(&device.nand, zone_planes, spare).unwrap();
            let mut seen = vec![0u32; device.nand.blocks() as usize];
            for zone in 0..layout.zones {
                for block in layout.blocks(zone) {
                    assert_eq!(seen[block as usize], 0, "{name}");
                }
                let units = layout.zone_bytes() / layout.unit_bytes;
                for unit in 0..units as u32 {
                    let Unit { block, page } = layout.unit(zone, unit);
                    assert_eq!(seen[block as usize], page, "{name}: programs are in order");
                    seen[block as usize] += layout.unit_pages;
                }
            }
            let mut stand_ins = layout.stand_ins();
            for (block, pages) in (0..).zip(seen) {
                let is_spare = block % blocks >= blocks - spare;
                let wanted = if is_spare { 0 } else { device.nand.pages_per_block };
                assert_eq!(pages, wanted, "{name}, erase block {block}");
                let stand_in = (!is_spare).then(|| stand_ins.replace(block)).flatten();
                let spares = stand_in.map_or(0, |other| other % blocks);
                assert!(stand_in.is_none() || spares >= blocks - spare, "{name}: {stand_in:?}");
            }
        }
    }

    #[test]
    fn zones_that_cannot_be_are_refused_with_the_key() {
        let device = Device::shipped("disksim-ssd").unwrap();
        for planes in [0, 1, 3, 128] {
            let error = Layout::new(&device.nand, Some(planes), 0).unwrap_err();
            assert!(error.contains("drive.zone_planes"), "{error}");
        }
        let error = Layout::new(&device.nand, None, device.nand.blocks_per_plane).unwrap_err();
        assert!(error.contains("drive.spare_blocks"), "{error}");
    }
}
