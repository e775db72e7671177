//! A drive's state as bytes, to begin many runs from.

use crate::ftl::page_mapped::{FtlError, NONE, PageMapped, Point, State, Streams};

const MAGIC: &[u8; 8] = b"MJFLASH1";

/// Why a saved state cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The bytes are no saved state, or of another version.
    #[error("this is no saved device state, or one of another version: save it again")]
    NotAState,
    /// The bytes were cut or changed.
    #[error("the saved device state is damaged ({0}): save it again")]
    Damaged(String),
    /// The state is that of another device.
    #[error(
        "the saved device state is of another device: restore it on the device (geometry, \
         over-provisioning, striping, summaries) on which it was saved"
    )]
    OtherDevice,
}

/// Reads numbers off the front of bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or_else(cut)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn u32(&mut self) -> Result<u32, RestoreError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, RestoreError> {
        Ok(u64::from_le_bytes(self.take()?))
    }
}

fn cut() -> RestoreError {
    RestoreError::Damaged("it ends early".into())
}

fn damaged(what: impl Into<String>) -> RestoreError {
    RestoreError::Damaged(what.into())
}

impl PageMapped {
    /// What two devices must have in common to share a saved state.
    fn shape(&self) -> u32 {
        let geometry = self.nand.geometry();
        let mut shape =
            format!("{geometry:?} {} {} {}", self.map.len(), self.stripe_pages, self.data_pages);
        if let Some(placement) = self.streams.name() {
            shape += &format!(" {placement} {}", self.streams.count);
        }
        crc32c::crc32c(shape.as_bytes())
    }

    /// The state of the medium and of the FTL. What waits in the controller's memory is programmed
    /// first, in no time. Times are not part of it (the restored drive is at rest), and neither is
    /// what a victim or placement policy remembers, nor the oracle.
    pub fn save(&mut self) -> Result<Vec<u8>, FtlError> {
        self.flush(None)?;
        let mut out = MAGIC.to_vec();
        let mut put = |number: u32| out.extend_from_slice(&number.to_le_bytes());
        put(self.shape());
        let chance = self.nand.chance().0;
        for number in [self.sequence, chance] {
            put(number as u32);
            put((number >> 32) as u32);
        }
        self.next_plane.iter().for_each(|&plane| put(plane));
        for block in 0..self.states.len() as u32 {
            let next_page = self.nand.next_page(block).unwrap_or(NONE);
            put(next_page);
            put(self.nand.erases(block));
        }
        let points = self.points.chunks(self.streams.count as usize);
        for (plane, points) in self.planes.iter().zip(points) {
            for point in points {
                put(point.open);
                put(point.filled);
            }
            put(plane.free.len() as u32);
            plane.free.iter().for_each(|&block| put(block));
        }
        let sealed = self.victims.in_order();
        put(sealed.len() as u32);
        for (block, sequence, youngest) in sealed {
            put(block);
            for number in [sequence, youngest] {
                put(number as u32);
                put((number >> 32) as u32);
            }
        }
        self.map.iter().for_each(|&physical| put(physical));
        self.streams.of_block.iter().for_each(|&stream| put(stream.into()));
        self.streams.births.iter().for_each(|&birth| put(birth));
        for &number in self.streams.opened.iter().chain(&self.streams.sealed) {
            put(number as u32);
            put((number >> 32) as u32);
        }
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        Ok(out)
    }

    /// Takes up a saved state, on a new drive of the same device. The drive is unchanged if that
    /// fails only for what it was given; use a new one otherwise.
    pub fn restore(mut self, bytes: &[u8]) -> Result<PageMapped, RestoreError> {
        if self.sequence != 0 {
            return Err(damaged("it can be restored to a new drive only"));
        }
        let body = bytes.strip_prefix(MAGIC).ok_or(RestoreError::NotAState)?;
        let (body, checksum) = body.split_last_chunk::<4>().ok_or_else(cut)?;
        let summed = &bytes[..bytes.len() - 4];
        if crc32c::crc32c(summed) != u32::from_le_bytes(*checksum) {
            return Err(damaged("its checksum is wrong"));
        }
        let mut reader = Reader(body);
        if reader.u32()? != self.shape() {
            return Err(RestoreError::OtherDevice);
        }
        self.sequence = reader.u64()?;
        self.nand.chance().0 = reader.u64()?;
        for plane in &mut self.next_plane {
            *plane = reader.u32()?;
            if *plane >= self.planes_per_die {
                return Err(damaged("a plane is out of range"));
            }
        }
        let blocks = self.states.len() as u32;
        for block in 0..blocks {
            let next_page = Some(reader.u32()?).filter(|&next| next != NONE);
            if next_page.is_some_and(|next| next > self.pages_per_block) {
                return Err(damaged("an erase block is filled beyond its end"));
            }
            let erases = reader.u32()?;
            self.nand.restore(block, next_page, erases);
            self.states[block as usize] =
                if next_page.is_none() { State::Retired } else { State::Open };
        }
        self.restore_planes(&mut reader)?;
        self.restore_pages(reader)?;
        self.look.fill(true);
        Ok(self)
    }

    fn restore_planes(&mut self, reader: &mut Reader<'_>) -> Result<(), RestoreError> {
        let blocks = self.nand.geometry().blocks_per_plane;
        for number in 0..self.planes.len() as u32 {
            let own = number * blocks..(number + 1) * blocks;
            let points = self.point_of(number, 0)..self.point_of(number + 1, 0);
            for index in points.clone() {
                let (open, filled) = (reader.u32()?, reader.u32()?);
                if open != NONE {
                    let twice =
                        self.points[points.start..index].iter().any(|point| point.open == open);
                    let next = self.nand.next_page(open.min(own.end - 1));
                    if !own.contains(&open) || next != Some(filled) || twice {
                        return Err(damaged("an open erase block is not as it was left"));
                    }
                    if filled >= self.data_pages {
                        return Err(damaged("an open erase block is full"));
                    }
                }
                self.points[index] = Point { open, filled, programmed: filled, ..Point::NEW };
            }
            let open = &self.points[points];
            let plane = &mut self.planes[number as usize];
            let free = reader.u32()?;
            if free > blocks {
                return Err(damaged("a plane has more free erase blocks than erase blocks"));
            }
            plane.free.clear();
            for _ in 0..free {
                let block = reader.u32()?;
                if !own.contains(&block)
                    || open.iter().any(|point| point.open == block)
                    || self.states[block as usize] != State::Open
                    || self.nand.next_page(block) != Some(0)
                {
                    return Err(damaged("an erase block cannot be free"));
                }
                self.states[block as usize] = State::Free;
                plane.free.push_back(block);
            }
        }
        Ok(())
    }

    fn restore_pages(&mut self, mut reader: Reader<'_>) -> Result<(), RestoreError> {
        let sealed_count = reader.u32()?;
        let mut sealed = Vec::new();
        for _ in 0..sealed_count {
            sealed.push((reader.u32()?, reader.u64()?, reader.u64()?));
        }
        for page in 0..self.map.len() {
            let physical = reader.u32()?;
            if physical == NONE {
                continue;
            }
            let (block, index) = self.split(physical);
            let programmed = self.states.get(block as usize).is_some_and(|&state| {
                state == State::Open && self.nand.next_page(block).is_some_and(|next| index < next)
            });
            let right_die =
                programmed && self.nand.geometry().die_of(block) == self.die_of(page as u64);
            if !right_die || self.is_live(physical) || index >= self.data_pages {
                return Err(damaged(format!("page {page} is where it cannot be")));
            }
            self.map[page] = physical;
            self.owner[physical as usize] = page as u32;
            self.live[physical as usize / 64] |= 1 << (physical % 64);
            self.live_pages[block as usize] += 1;
            self.mapped += 1;
        }
        self.restore_streams(&mut reader)?;
        if !reader.0.is_empty() {
            return Err(damaged("it goes on after its end"));
        }
        for (block, sequence, youngest) in sealed {
            let is_open = self.is_open(block);
            let state = self.states.get_mut(block as usize);
            if state.as_deref() != Some(&State::Open) || is_open {
                return Err(damaged("an erase block cannot be sealed"));
            }
            self.states[block as usize] = State::Sealed;
            let live = self.live_pages[block as usize].into();
            self.victims.seal(block, live, sequence, youngest);
        }
        let stray = (0..self.states.len())
            .find(|&block| self.states[block] == State::Open && !self.is_open(block as u32));
        match stray {
            Some(block) => Err(damaged(format!("erase block {block} is in no state"))),
            None => Ok(()),
        }
    }

    fn restore_streams(&mut self, reader: &mut Reader<'_>) -> Result<(), RestoreError> {
        let Streams { count, of_block, births, opened, sealed, .. } = &mut self.streams;
        for of in of_block {
            *of = match reader.u32()? {
                stream if stream < *count => stream as u8,
                _ => return Err(damaged("an erase block is of no stream")),
            };
        }
        for birth in births {
            *birth = reader.u32()?;
        }
        for number in opened.iter_mut().chain(sealed) {
            *number = reader.u64()?;
        }
        let mut points = (0u32..).zip(&self.points).filter(|(_, point)| point.open != NONE);
        let streams = &self.streams;
        match points.find(|(index, point)| streams.stream_of(point.open) != index % streams.count) {
            Some(_) => Err(damaged("an open erase block is of another stream")),
            None => Ok(()),
        }
    }

    /// Whether an append point writes to the erase block.
    fn is_open(&self, block: u32) -> bool {
        let plane = self.nand.geometry().plane_of(block);
        let points = self.points.get(self.point_of(plane, 0)..self.point_of(plane + 1, 0));
        points.is_some_and(|points| points.iter().any(|point| point.open == block))
    }
}
