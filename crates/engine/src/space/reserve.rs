//! The reserves of free segments for relief, relocation and checkpoints, and how many each claim
//! must leave.

use mjolnir_units::BLOCK_SIZE;

use crate::space::Space;
use crate::space::streams::{MAP_STREAM, RECLAIM_STREAM, RELIEF_STREAM};

/// The purpose for which a segment is requested. It decides how many free segments must stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Client,
    /// A client's small change that frees nothing: a rename, or rewriting a block of which a part
    /// is zeroed. A full store accepts it while more than relief's last segment is left.
    Small,
    /// A client that frees space.
    Relief,
    Reclaim,
    Map,
    /// Records that were acknowledged, and that the device refused at another place.
    Again,
}

impl Claim {
    /// Whether the claim waits for reclaim, rather than reclaim for it.
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

/// Segments kept for a checkpoint beyond those it must fill: room to compact the map, and to cover
/// the unusable ends of segments.
const CHECKPOINT_SLACK: usize = 2;

/// Segments kept for relocation beyond the checkpoint's reserve: one being filled while another is
/// emptied.
const RECLAIM_RESERVE: usize = 2;

/// Segments kept for records that free space, such as trims. These records carry no payload, so one
/// segment lasts until reclaim has freed their blocks. Small changes, which may carry payload,
/// leave another segment.
const RELIEF_RESERVE: usize = 1;

/// The fewest segments that a store never fills with clients' data: those for checkpoints and for
/// relocation.
pub const RESERVE_SEGMENTS_MIN: u32 = (CHECKPOINT_SLACK + RECLAIM_RESERVE) as u32;

impl Space {
    /// Segments that must stay free when `claim` changes the map; with fewer, a checkpoint must
    /// come first. The open segments of reclaim and relief count as part of their reserves:
    /// otherwise, opening them would block the claims that still have reserve to take.
    pub fn kept(&self, claim: Claim) -> usize {
        if self.rescuing {
            return 0;
        }
        let reclaim = RECLAIM_RESERVE - usize::from(self.reclaim_open);
        let relief = RELIEF_RESERVE - usize::from(self.relief_open);
        match claim {
            // Space that a checkpoint supersedes comes back only with later ones, as its segments
            // empty. So the map's use of space varies by the size of each checkpoint.
            Claim::Client => self.checkpoint_reserve + self.checkpoint_least() + reclaim + relief,
            // A small change writes to relief's segment, and leaves enough for `Relief` to open
            // another: a checkpoint fills at least one segment.
            Claim::Small => self.checkpoint_reserve + self.checkpoint_least() + reclaim,
            Claim::Relief => self.checkpoint_reserve + reclaim,
            Claim::Reclaim => self.checkpoint_reserve,
            Claim::Map | Claim::Again => 0,
        }
    }

    /// Whether more dirty nodes might leave no room for their checkpoint, or take other claims'
    /// reserves: then a checkpoint must come before `claim` changes anything. Operations that free
    /// space may go on to the last segment.
    pub fn needs_checkpoint(&self, claim: Claim) -> bool {
        let least = match claim {
            Claim::Relief => self.checkpoint_least() + 1,
            _ => self.kept(claim),
        };
        self.free_count() < least
    }

    /// Segments that must stay free when clients open one, for relief, reclaim and checkpoints. One
    /// more than when they write, so that the opened segment can be written before the next
    /// checkpoint.
    pub fn reserve(&self) -> usize {
        self.kept(Claim::Client) + self.compaction_reserve
    }

    /// Segments kept for a checkpoint.
    pub fn checkpoint_reserve(&self) -> usize {
        self.checkpoint_reserve
    }

    /// The fewest segments that a checkpoint must fill, a part counted as a whole.
    pub fn checkpoint_least(&self) -> usize {
        self.checkpoint_reserve - CHECKPOINT_SLACK
    }

    /// Bytes of the map, as they lie now, that a checkpoint may move besides its mandatory writes:
    /// at most one segment. This matters more the tighter space is: moving frees more than it
    /// takes, except for leaves that lost the image with their common words.
    pub fn compaction_bytes(&self) -> u64 {
        self.moved_bytes_max().min(self.payload_bytes())
    }

    /// Most bytes that a checkpoint has room to write for moved nodes.
    pub fn moved_bytes_max(&self) -> u64 {
        let spare = self.free_count().saturating_sub(self.checkpoint_least()).min(2) as u64;
        spare * self.payload_bytes()
    }

    /// Sets the checkpoint's reserve to hold `bytes` of dirty map and manifest, and `sparse` bytes
    /// that the checkpoint would move.
    pub fn reserve_for_checkpoint(&mut self, bytes: u64, sparse: u64) {
        let segments = |bytes: u64| bytes.div_ceil(self.payload_bytes()) as usize;
        let (least, whole) = (segments(bytes), segments(bytes + sparse));
        self.checkpoint_reserve = CHECKPOINT_SLACK + least;
        self.compaction_reserve = (whole - least).max(1);
    }

    /// Payload bytes of a segment: all but its header, footer and one group header in 16 blocks.
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
