//! What a replay measured.

/// One stream of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamReport {
    /// Blocks that clients wrote to it.
    pub client_blocks: u64,
    /// Blocks that reclaim moved to it.
    pub moved_blocks: u64,
    /// Victims that it had filled.
    pub victims: u64,
    /// Blocks that were live in those.
    pub victim_live_blocks: u64,
}

/// What a replay measured, from the end of the fill.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayReport {
    /// Blocks that clients wrote.
    pub client_blocks: u64,
    /// Blocks that reclaim moved.
    pub moved_blocks: u64,
    /// Of the former two, those of the first half of the steps that are counted.
    pub first_half_client_blocks: u64,
    /// As above.
    pub first_half_moved_blocks: u64,
    /// Segments reclaimed. 0 explains a write amplification of 1.
    pub victims: u64,
    /// Segments in use, open ones included, on average over the client's writes.
    pub segments_mean: f64,
    /// The spare factor that follows: the share of those segments' blocks that is not live.
    pub spare_mean: f64,
    /// By stream.
    pub streams: Vec<StreamReport>,
    /// Memory of the placement policy in the end, in bytes.
    pub placement_bytes: usize,
    /// The replay ended early, because every candidate was wholly live.
    pub stuck: bool,
}

impl ReplayReport {
    /// Blocks written, moved ones included, for each that clients wrote. 0 before the first.
    pub fn waf(&self) -> f64 {
        waf(self.client_blocks, self.moved_blocks)
    }

    /// The same for each half of the steps that are counted: how steady it is.
    pub fn waf_halves(&self) -> [f64; 2] {
        let (client, moved) = (self.first_half_client_blocks, self.first_half_moved_blocks);
        [waf(client, moved), waf(self.client_blocks - client, self.moved_blocks - moved)]
    }
}

fn waf(client_blocks: u64, moved_blocks: u64) -> f64 {
    if client_blocks == 0 {
        return 0.0;
    }
    (client_blocks + moved_blocks) as f64 / client_blocks as f64
}
