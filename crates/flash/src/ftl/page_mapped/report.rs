//! What an FTL did, by cause, and why not more.

/// Pages and erase blocks since the counters were last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages programmed for the host.
    pub host_pages: u64,
    /// Pages programmed to move data out of victims, or out of erase blocks that failed.
    pub reclaim_pages: u64,
    /// Pages programmed to even out wear.
    pub wear_pages: u64,
    /// Pages programmed with summaries.
    pub metadata_pages: u64,
    /// Pages programmed with nothing, to fill up a program unit.
    pub padding_pages: u64,
    /// Pages read for the host from NAND.
    pub host_reads: u64,
    /// Pages read to move them.
    pub reclaim_reads: u64,
    /// Pages read because the host wrote only a part of them.
    pub merge_reads: u64,
    /// Pages that the host trimmed.
    pub trimmed_pages: u64,
    /// Erase blocks cleaned by reclaim.
    pub victims: u64,
    /// Erase blocks erased, for whatever cause.
    pub erases: u64,
}

impl Counts {
    /// Pages programmed, for whatever cause.
    pub fn programmed_pages(&self) -> u64 {
        self.host_pages
            + self.reclaim_pages
            + self.wear_pages
            + self.metadata_pages
            + self.padding_pages
    }

    /// Write amplification: pages programmed for each page of the host; 1 where it wrote none.
    pub fn waf(&self) -> f64 {
        if self.host_pages == 0 {
            return 1.0;
        }
        self.programmed_pages() as f64 / self.host_pages as f64
    }

    /// Write amplification of data alone: summaries and padding left out, as closed forms have it.
    pub fn data_waf(&self) -> f64 {
        if self.host_pages == 0 {
            return 1.0;
        }
        let moved = self.reclaim_pages + self.wear_pages;
        (self.host_pages + moved) as f64 / self.host_pages as f64
    }
}

/// Whether reclaim ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reclaim {
    /// It did.
    Ran {
        /// Erase blocks it cleaned.
        victims: u64,
        /// Pages it moved.
        pages_moved: u64,
    },
    /// It did not.
    DidNotRun(WhyNoReclaim),
}

/// Why reclaim did not run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WhyNoReclaim {
    /// The host wrote nothing.
    NothingWritten,
    /// Free erase blocks never fell to the low watermark of any plane.
    SpaceLeft {
        /// The fewest free erase blocks that a plane has now.
        free_blocks_min: u32,
        /// How few there must be for reclaim to begin.
        low_watermark_blocks: u32,
    },
    /// Free erase blocks fell to the low watermark, but every page is live.
    NothingStale,
}

impl std::fmt::Display for Reclaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reclaim::Ran { victims, pages_moved } => {
                write!(f, "reclaim ran: {victims} erase blocks cleaned, {pages_moved} pages moved")
            }
            Reclaim::DidNotRun(WhyNoReclaim::NothingWritten) => {
                write!(f, "reclaim did not run: nothing was written")
            }
            Reclaim::DidNotRun(WhyNoReclaim::SpaceLeft {
                free_blocks_min,
                low_watermark_blocks,
            }) => {
                write!(
                    f,
                    "reclaim did not run: every plane has {free_blocks_min} or more erase blocks \
                     free, and it begins at {low_watermark_blocks}; write more, or precondition"
                )
            }
            Reclaim::DidNotRun(WhyNoReclaim::NothingStale) => write!(
                f,
                "reclaim did not run: every page is live, so there is nothing to win; overwrite \
                 or trim something"
            ),
        }
    }
}

/// Wear of the erase blocks, in erases since the drive was new. Retired ones are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wear {
    /// The least worn erase block.
    pub min: u32,
    /// The most worn one.
    pub max: u32,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// Erase blocks retired.
    pub retired_blocks: u32,
}

/// What a drive did, and how it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Pages and erase blocks by cause.
    pub counts: Counts,
    /// Whether reclaim ran, and if not, why.
    pub reclaim: Reclaim,
    /// How worn the drive is.
    pub wear: Wear,
    /// Logical pages that hold data.
    pub mapped_pages: u64,
    /// Bytes of memory that tables and indexes take.
    pub memory_bytes: u64,
}
