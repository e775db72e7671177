//! Who may take how many of the free segments: the reserve for relief, relocation and checkpoints.

use mjolnir_units::BLOCK_SIZE;

use crate::space::Space;
use crate::space::streams::{MAP_STREAM, RECLAIM_STREAM, RELIEF_STREAM};

/// Who asks for a segment: the order of the last reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Client,
    /// A client's small change that frees nothing: a rename, or the rest of a block of which a part is
    /// zeroed. On a full store it is accepted while room beyond the last of relief's is left.
    Small,
    /// A client that frees space.
    Relief,
    Reclaim,
    Map,
}

impl Claim {
    /// Whether it waits for reclaim, rather than reclaim for it.
    pub fn is_client(self) -> bool {
        matches!(self, Claim::Client | Claim::Small | Claim::Relief)
    }

    pub fn of_stream(stream: u8) -> Self {
        match stream {
            MAP_STREAM => Claim::Map,
            RECLAIM_STREAM => Claim::Reclaim,
            RELIEF_STREAM => Claim::Relief,
            _ => Claim::Client,
        }
    }
}

/// Segments kept for a checkpoint beyond what it must write: room to compact the map, and to be
/// wrong by what does not fit at the end of a segment.
const CHECKPOINT_SLACK: usize = 2;

/// Segments kept for relocation beyond the checkpoint's reserve: one that is being filled while
/// another is emptied.
const RECLAIM_RESERVE: usize = 2;

/// Segments kept for records that free space, such as trims: they carry no payload, so that one
/// segment lasts until what they free is won. Small changes, which may carry some, leave room for another.
const RELIEF_RESERVE: usize = 1;

/// Segments that a store never fills with clients' data, at least: those for checkpoints and those
/// for relocation.
pub const RESERVE_SEGMENTS_MIN: u32 = (CHECKPOINT_SLACK + RECLAIM_RESERVE) as u32;

impl Space {
    /// Segments that a claim leaves when it changes the map: with fewer, a checkpoint has to come
    /// first. What reclaim and relief have open counts as part of their reserve, or their taking
    /// it would keep those out that still have theirs to take.
    pub fn kept(&self, claim: Claim) -> usize {
        if self.rescuing {
            return 0;
        }
        let reclaim = RECLAIM_RESERVE - usize::from(self.reclaim_open);
        let relief = RELIEF_RESERVE - usize::from(self.relief_open);
        match claim {
            // What a checkpoint supersedes comes back with later ones only, as the segments that
            // it lies in empty: the map's use of space swings by what is written each time.
            Claim::Client => self.checkpoint_reserve + self.checkpoint_least() + reclaim + relief,
            // It writes to relief's segment, and leaves what `Relief` needs to open another one: a
            // checkpoint writes a segment at least.
            Claim::Small => self.checkpoint_reserve + self.checkpoint_least() + reclaim,
            Claim::Relief => self.checkpoint_reserve + reclaim,
            Claim::Reclaim => self.checkpoint_reserve,
            Claim::Map => 0,
        }
    }

    /// Whether more dirty nodes might leave no room for their checkpoint, or take what others count
    /// on: a checkpoint has to be taken before `claim` changes anything. What frees space may go on
    /// to the last.
    pub fn needs_checkpoint(&self, claim: Claim) -> bool {
        let least = match claim {
            Claim::Relief => self.checkpoint_least() + 1,
            _ => self.kept(claim),
        };
        self.free_count() < least
    }

    /// Segments that clients leave for relief, reclaim and checkpoints when they open one. One
    /// more than they leave when they write, so that there is something to write before the next
    /// checkpoint.
    pub fn reserve(&self) -> usize {
        self.kept(Claim::Client) + self.compaction_reserve
    }

    /// Segments kept for a checkpoint.
    pub fn checkpoint_reserve(&self) -> usize {
        self.checkpoint_reserve
    }

    /// Segments that a checkpoint has to write at least, a part counted as a whole.
    pub fn checkpoint_least(&self) -> usize {
        self.checkpoint_reserve - CHECKPOINT_SLACK
    }

    /// Bytes of the map that a checkpoint has room to move besides what it must write, as they lie: a
    /// segment at most. The tighter space is, the more it matters: moving wins more than it takes, but
    /// for leaves that lost the image with the words that they have in common.
    pub fn compaction_bytes(&self) -> u64 {
        self.moved_bytes_max().min(self.payload_bytes())
    }

    /// Bytes that a checkpoint has room to write, at most, for what it moves.
    pub fn moved_bytes_max(&self) -> u64 {
        let spare = self.free_count().saturating_sub(self.checkpoint_least()).min(2) as u64;
        spare * self.payload_bytes()
    }

    /// Sets the checkpoint's reserve to hold `bytes` of dirty map and manifest, and `sparse` bytes
    /// that it would like to move.
    pub fn reserve_for_checkpoint(&mut self, bytes: u64, sparse: u64) {
        let segments = |bytes: u64| bytes.div_ceil(self.payload_bytes()) as usize;
        let (least, whole) = (segments(bytes), segments(bytes + sparse));
        self.checkpoint_reserve = CHECKPOINT_SLACK + least;
        self.compaction_reserve = (whole - least).max(1);
    }

    /// Payload of a segment, less its header, footer and one group header in 16 blocks.
    pub fn payload_bytes(&self) -> u64 {
        (self.zone_blocks - self.zone_blocks / 8 - 2) * BLOCK_SIZE
    }

    /// Whether `claim` may take a segment now.
    pub fn allows(&self, claim: Claim) -> bool {
        let kept = if claim == Claim::Client { self.reserve() } else { self.kept(claim) };
        self.free_count() > kept
    }

    /// Whether a segment could be opened for `claim` at once.
    pub fn can_open(&self, claim: Claim) -> bool {
        self.allows(claim) && !self.ready.is_empty()
    }
}
