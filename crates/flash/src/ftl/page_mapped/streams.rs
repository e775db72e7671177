//! Which stream a page goes to, and what the placement policy is told of those that are there.
//!
//! A page is the policy's block, a plane's erase blocks of one number are its segment: a stream is
//! open in every plane at once. Its sequence numbers count pages that the host wrote.

use mjolnir_policy::placement::{
    BlockView, PlacementPolicy, Previous, ReclaimedSegment, Source, Stream,
};
use mjolnir_units::{Lba, TreeId};

/// A drive knows of one volume.
const VOLUME: TreeId = TreeId(1);

/// A placement policy. Where it asks for nothing, nothing is remembered for it.
pub(super) struct Streams {
    policy: Box<dyn PlacementPolicy>,
    /// How many there are.
    pub count: u32,
    /// Those of the host's pages and of moved ones, where they depend on nothing else.
    host: Option<u32>,
    moved: Option<u32>,
    /// By erase block: its stream. Empty if there is but one.
    pub of_block: Vec<u8>,
    /// By logical page: low bits of the number of the host's write. Empty unless the policy asks.
    pub births: Vec<u32>,
    /// By erase block: the number of the host's last write when it was opened, and sealed. Empty
    /// unless the policy asks.
    pub opened: Vec<u64>,
    pub sealed: Vec<u64>,
}

impl Streams {
    pub(super) fn new(policy: Box<dyn PlacementPolicy>, blocks: u32, pages: usize) -> Self {
        let count = u32::from(policy.streams().max(1));
        let fixed = |source| policy.fixed(source).map(|Stream(stream)| u32::from(stream));
        let (host, moved) = (fixed(Source::Client), fixed(Source::Reclaim));
        let asks = host.is_none() || moved.is_none();
        let of_blocks = |wanted: bool| if wanted { blocks as usize } else { 0 };
        Streams {
            of_block: vec![0; of_blocks(count > 1)],
            births: vec![0; if asks { pages } else { 0 }],
            opened: vec![0; of_blocks(asks)],
            sealed: vec![0; of_blocks(asks)],
            policy,
            count,
            host,
            moved,
        }
    }

    /// Whether anything differs from one append point a plane.
    pub(super) fn name(&self) -> Option<&'static str> {
        (self.count > 1).then(|| self.policy.name())
    }

    /// The stream of all pages of that source, where the policy need not be asked.
    pub(super) fn fixed(&self, source: Source) -> Option<u32> {
        match source {
            Source::Client => self.host,
            Source::Reclaim => self.moved,
        }
    }

    pub(super) fn stream_of(&self, block: u32) -> u32 {
        self.of_block.get(block as usize).map_or(0, |&stream| u32::from(stream))
    }

    /// What the policy may know of a page; `in_block` has its present version.
    pub(super) fn view(
        &self,
        source: Source,
        page: u32,
        in_block: Option<u32>,
        now_sequence: u64,
    ) -> BlockView {
        let previous = in_block.map(|block| Previous {
            stream: Stream(self.stream_of(block) as u8),
            birth_sequence: self.birth(page, now_sequence).unwrap_or(0),
        });
        BlockView { source, volume: VOLUME, lba: Lba(page.into()), now_sequence, previous }
    }

    pub(super) fn place(&self, view: &BlockView) -> u32 {
        self.policy.place(view).0.into()
    }

    /// It was placed, in the stream that was chosen or in another one.
    pub(super) fn wrote(&mut self, view: &BlockView, stream: u32) {
        self.policy.wrote(view, Stream(stream as u8));
    }

    /// The number of the host's write of a page, where that is kept.
    pub(super) fn birth(&self, page: u32, now_sequence: u64) -> Option<u64> {
        // Right for four billion writes.
        let age = (now_sequence as u32).wrapping_sub(*self.births.get(page as usize)?);
        Some(now_sequence.saturating_sub(age.into()))
    }

    /// The host wrote a page.
    pub(super) fn born(&mut self, page: u32, sequence: u64) {
        if let Some(birth) = self.births.get_mut(page as usize) {
            *birth = sequence as u32;
        }
    }

    pub(super) fn opened(&mut self, block: u32, stream: u32, sequence: u64) {
        if let Some(of) = self.of_block.get_mut(block as usize) {
            *of = stream as u8;
        }
        if let Some(opened) = self.opened.get_mut(block as usize) {
            *opened = sequence;
        }
    }

    pub(super) fn sealed(&mut self, block: u32, sequence: u64) {
        if let Some(sealed) = self.sealed.get_mut(block as usize) {
            *sealed = sequence;
        }
    }

    /// An erase block of `pages`, of which `live` are live, is about to be emptied.
    pub(super) fn reclaimed(&mut self, block: u32, pages: u32, live: u32, now_sequence: u64) {
        let (Some(&opened_sequence), Some(&sealed_sequence)) =
            (self.opened.get(block as usize), self.sealed.get(block as usize))
        else {
            return;
        };
        self.policy.reclaimed(&ReclaimedSegment {
            stream: Stream(self.stream_of(block) as u8),
            opened_sequence,
            sealed_sequence,
            now_sequence,
            used_blocks: pages.into(),
            live_blocks: live.into(),
        });
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let numbers = 8 * (self.opened.len() + self.sealed.len());
        let all = numbers + 4 * self.births.len() + self.of_block.len();
        (all + self.policy.memory_bytes()) as u64
    }
}
