//! A warm log for tests, in memory that its handles share.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;

use crate::{Buffers, Opening, WarmEntry, WarmLog};

/// A [`WarmLog`] that is left to whoever has another handle of it. It takes payload from anywhere, by copying.
#[derive(Clone, Default)]
pub struct MemoryWarmLog {
    inner: Rc<RefCell<Inner>>,
}

#[derive(Default)]
struct Inner {
    opening: Option<Opening>,
    entries: VecDeque<(WarmEntry, Bytes)>,
    most: Option<usize>,
}

impl MemoryWarmLog {
    /// From now on it has room for so many entries.
    pub fn limit(&self, entries: usize) {
        self.inner.borrow_mut().most = Some(entries);
    }

    /// Entries that it holds.
    pub fn len(&self) -> usize {
        self.inner.borrow().entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a process finds that comes after a crash now: a copy, which goes its own way.
    pub fn crash(&self) -> MemoryWarmLog {
        let inner = self.inner.borrow();
        let (opening, entries) = (inner.opening, inner.entries.clone());
        let inner = Inner { opening, entries, most: inner.most };
        MemoryWarmLog { inner: Rc::new(RefCell::new(inner)) }
    }
}

impl WarmLog for MemoryWarmLog {
    fn opening(&self) -> Option<Opening> {
        self.inner.borrow().opening
    }

    fn place(&self) -> String {
        "memory".into()
    }

    fn entries(&mut self) -> Vec<WarmEntry> {
        self.inner.borrow().entries.iter().map(|(entry, _)| entry.clone()).collect()
    }

    fn payload(&mut self, entry: usize) -> Option<Bytes> {
        self.inner.borrow().entries.get(entry).map(|(_, payload)| payload.clone())
    }

    fn begin(&mut self, opening: Opening, _: usize, kept_bytes: usize) -> Result<Buffers, String> {
        let mut inner = self.inner.borrow_mut();
        inner.entries.clear();
        inner.opening = Some(opening);
        Ok(Buffers::keeping(kept_bytes))
    }

    fn note(&mut self, sequence: u64, record: &[u8], payload: &[u8], checksum: u32) -> bool {
        let mut inner = self.inner.borrow_mut();
        if inner.most.is_some_and(|most| inner.entries.len() >= most) {
            return false;
        }
        let payload_bytes = payload.len();
        let entry = WarmEntry { sequence, record: record.to_vec(), payload_bytes, checksum };
        let payload = crate::AlignedBuf::copy_of(payload).freeze();
        inner.entries.push_back((entry, payload));
        true
    }

    fn forget(&mut self, sequence: u64) {
        let mut inner = self.inner.borrow_mut();
        while inner.entries.pop_front_if(|(entry, _)| entry.sequence <= sequence).is_some() {}
    }

    fn end(&mut self) {
        let mut inner = self.inner.borrow_mut();
        inner.entries.clear();
        inner.opening = None;
    }
}
