//! Cleaning: making free erase blocks of stale ones.

use crate::ftl::page_mapped::{Cause, FtlError, NONE, PageMapped, State};

/// Victims in a row that win nothing, after which the emptiest is taken whatever the policy says.
const FUTILE_MAX: u32 = 64;
/// Erases between looks at the wear of a plane.
const WEAR_LOOK: u64 = 8;

impl PageMapped {
    /// Cleans each plane of a die whose free blocks fell to the low watermark, until they are
    /// above it or nothing is left to win.
    pub(super) fn make_room(&mut self, die: u32, at: Option<u64>) -> Result<(), FtlError> {
        if !std::mem::replace(&mut self.look[die as usize], false) {
            return Ok(());
        }
        for plane in die * self.planes_per_die..(die + 1) * self.planes_per_die {
            let mut futile = 0;
            while self.planes[plane as usize].free.len() as u32 <= self.low_watermark {
                let Some(victim) = self.victim(plane, &mut futile) else {
                    self.nothing_stale = true;
                    break;
                };
                self.counts.victims += 1;
                self.clean(plane, victim, Cause::Reclaim, at)?;
            }
        }
        // What it moved may have opened blocks: it was above the watermark all the same.
        self.look[die as usize] = false;
        Ok(())
    }

    /// The block of a plane to clean next: the policy's choice, unless too many of its choices in
    /// a row had nothing to win, or the choice does not fit into the free pages.
    fn victim(&mut self, plane: u32, futile: &mut u32) -> Option<u32> {
        let room = self.free_pages(plane);
        if *futile < FUTILE_MAX {
            let victim = self.victims.choose(plane, self.sequence)?;
            let live = u32::from(self.live_pages[victim as usize]);
            *futile = if live < self.data_pages { 0 } else { *futile + 1 };
            let greedy = matches!(self.victims, super::victims::Victims::Greedy(_));
            if live <= room && (live < self.data_pages || !greedy) {
                return Some(victim);
            }
        }
        *futile = 0;
        let victim = self.victims.emptiest(plane)?;
        let live = u32::from(self.live_pages[victim as usize]);
        (live < self.data_pages && live <= room).then_some(victim)
    }

    /// Moves the live pages of a sealed block to its plane's append points, and erases it.
    fn clean(
        &mut self,
        plane: u32,
        victim: u32,
        cause: Cause,
        at: Option<u64>,
    ) -> Result<(), FtlError> {
        debug_assert_eq!(self.states[victim as usize], State::Sealed);
        let youngest = self.victims.youngest(victim);
        let live = u32::from(self.live_pages[victim as usize]);
        self.victims.remove(victim, live);
        self.streams.reclaimed(victim, self.data_pages, live, self.sequence);
        self.states[victim as usize] = State::Open; // No candidate, and not free either.
        self.move_live_pages(plane, victim, youngest, cause, at)?;
        self.erase(plane, victim, at)?;
        if cause == Cause::Reclaim
            && let Some(gap_max) = self.wear_gap_max
            && self.nand.erases_total().is_multiple_of(WEAR_LOOK)
        {
            self.even_wear(plane, victim, gap_max, at)?;
        }
        Ok(())
    }

    fn move_live_pages(
        &mut self,
        plane: u32,
        block: u32,
        youngest: u64,
        cause: Cause,
        at: Option<u64>,
    ) -> Result<(), FtlError> {
        let first = block * self.pages_per_block;
        let past = first + self.pages_per_block;
        let mut physical = first;
        while physical < past && self.live_pages[block as usize] > 0 {
            // The next live page, a word of bits at a time.
            let word = self.live[physical as usize / 64] >> (physical % 64);
            if word == 0 {
                physical += 64 - physical % 64;
                continue;
            }
            physical += word.trailing_zeros();
            debug_assert!(physical < past, "live pages are counted wrong");
            let index = physical - first;
            self.counts.reclaim_reads += 1;
            let page = self.owner[physical as usize];
            let (ready, bytes) = if self.copy_back {
                (self.nand.sense(block, index, at)?, Some(0))
            } else {
                (self.nand.read(block, index, at)?, None)
            };
            self.append(plane, page, cause, bytes, at.map(|_| ready))?;
            let (now_in, _) = self.split(self.map[page as usize]);
            let point = self.point_of(plane, self.streams.stream_of(now_in));
            let youngest = self.streams.birth(page, self.sequence).unwrap_or(youngest);
            let state = &mut self.points[point];
            state.youngest = state.youngest.max(youngest);
            physical += 1;
        }
        Ok(())
    }

    fn erase(&mut self, plane: u32, block: u32, at: Option<u64>) -> Result<(), FtlError> {
        debug_assert_eq!(self.live_pages[block as usize], 0, "a live page would be erased");
        if let Some(oracle) = &mut self.oracle {
            oracle.erased(block * self.pages_per_block, self.pages_per_block);
        }
        self.counts.erases += 1;
        if self.nand.erase(block, at)? {
            self.states[block as usize] = State::Free;
            self.planes[plane as usize].free.push_back(block);
        } else {
            self.states[block as usize] = State::Retired;
        }
        Ok(())
    }

    /// Static wear levelling: moves the data of the least worn sealed block of a plane, if it is
    /// too far behind the block just erased, so that it takes its turn.
    fn even_wear(
        &mut self,
        plane: u32,
        erased: u32,
        gap_max: u32,
        at: Option<u64>,
    ) -> Result<(), FtlError> {
        let blocks = self.nand.geometry().blocks_per_plane;
        let sealed = (plane * blocks..(plane + 1) * blocks)
            .filter(|&block| self.states[block as usize] == State::Sealed);
        let Some(least) = sealed.min_by_key(|&block| self.nand.erases(block)) else {
            return Ok(());
        };
        let gap = self.nand.erases(erased).saturating_sub(self.nand.erases(least));
        let fits = u32::from(self.live_pages[least as usize]) <= self.free_pages(plane);
        if gap > gap_max && fits {
            self.clean(plane, least, Cause::Wear, at)?;
        }
        Ok(())
    }

    /// A program of a point's open block failed, from page `first` on: writes those pages again
    /// elsewhere, from the controller's memory, moves the rest, and retires the block.
    pub(super) fn give_up(
        &mut self,
        point: usize,
        first: u32,
        at: Option<u64>,
    ) -> Result<u64, FtlError> {
        let plane = point as u32 / self.streams.count;
        let stream = point as u32 % self.streams.count;
        let block = std::mem::replace(&mut self.points[point].open, NONE);
        let base = block * self.pages_per_block;
        let youngest = self.points[point].youngest;
        let mut done_ns = 0;
        for physical in base + first..base + self.pages_per_block {
            if self.is_live(physical) {
                let page = self.owner[physical as usize];
                let point = self.point_with_room(plane, stream);
                done_ns = done_ns.max(self.place(point, page, Cause::Reclaim, None, at)?);
            }
        }
        self.move_live_pages(plane, block, youngest, Cause::Reclaim, at)?;
        self.states[block as usize] = State::Retired;
        self.nand.retire(block);
        Ok(done_ns)
    }
}
