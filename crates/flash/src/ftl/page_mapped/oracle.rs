//! A check that every read gives what was written last.

use crate::ftl::page_mapped::{FtlError, NONE};

/// Which write's data each physical page holds, and each logical page should hold. It follows the
/// data itself, page by page as it is programmed and moved, not the FTL's map.
pub(super) struct Oracle {
    on_medium: Vec<u64>,
    expected: Vec<u64>,
}

impl Oracle {
    pub(super) fn new(physical_pages: usize, logical_pages: usize) -> Self {
        Oracle { on_medium: vec![0; physical_pages], expected: vec![0; logical_pages] }
    }

    pub(super) fn wrote(&mut self, page: u64, write: u64) {
        self.expected[page as usize] = write;
    }

    pub(super) fn trimmed(&mut self, page: u64) {
        self.expected[page as usize] = 0;
    }

    /// A physical page got the data of a host write, or of the page that it was moved from.
    pub(super) fn placed(&mut self, page: u32, physical: u32, moved_from: Option<u32>) {
        self.on_medium[physical as usize] = match moved_from {
            None => self.expected[page as usize],
            Some(old) => self.on_medium[old as usize],
        };
    }

    pub(super) fn erased(&mut self, first: u32, pages: u32) {
        self.on_medium[first as usize..(first + pages) as usize].fill(0);
    }

    pub(super) fn check(&self, page: u64, physical: u32) -> Result<(), FtlError> {
        let expected = self.expected[page as usize];
        let found = if physical == NONE { 0 } else { self.on_medium[physical as usize] };
        if found == expected {
            return Ok(());
        }
        Err(FtlError::ReadBack { page, expected, found })
    }

    pub(super) fn check_all(&self, map: &[u32]) -> Result<(), FtlError> {
        let mut pages = map.iter().enumerate();
        pages.try_for_each(|(page, &physical)| self.check(page as u64, physical))
    }
}
