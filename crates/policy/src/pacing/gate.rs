//! From a share of bandwidth to single permissions.

use crate::pacing::Pacing;

/// The most moves asked for each block that clients write: a share of 98.5 %. Where victims are
/// fuller than that, only panic helps.
const MOVES_PER_BLOCK_MAX: f64 = 64.0;

/// Keeps client writes and reclaim's moves in the proportion that pacing decided.
///
/// For each block that clients write, reclaim owes `share / (1 - share)` moved blocks. Reclaim may
/// move while it owes any, and clients wait while it owes more than a burst and the lead that they are
/// allowed ([`allow`](Gate::allow)): so neither side runs ahead of the other by more than that. The gate
/// itself knows no clock.
///
/// Both sides may overdraw by one request: ask first, then report what was done.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    pacing: Pacing,
    burst_blocks: f64,
    /// Blocks that clients may run ahead by besides.
    lead_blocks: f64,
    /// Blocks that reclaim has still to move; below zero where it ran ahead.
    owed_blocks: f64,
}

impl Gate {
    /// A gate that lets either side run ahead by `burst_blocks` blocks (at least one). A few
    /// requests' worth is right: less makes both sides stutter, more makes latency uneven.
    pub fn new(burst_blocks: u64) -> Self {
        Gate {
            pacing: Pacing::default(),
            burst_blocks: burst_blocks.max(1) as f64,
            lead_blocks: 0.0,
            owed_blocks: 0.0,
        }
    }

    /// Takes a new decision into force. Where reclaim has no share, what it owed is forgiven:
    /// clients must not wait for moves that nobody will make.
    pub fn update(&mut self, pacing: Pacing) {
        self.pacing = pacing;
        if pacing.reclaim_share <= 0.0 {
            self.owed_blocks = 0.0;
        }
    }

    /// Lets clients run ahead by so many moves more than a burst: see [`Rhythm`](super::Rhythm).
    pub fn allow(&mut self, lead_blocks: f64) {
        self.lead_blocks = lead_blocks;
    }

    /// The decision in force.
    pub fn pacing(&self) -> &Pacing {
        &self.pacing
    }

    /// Whether a client's write may go now. Ask again after each update and each report of moves.
    pub fn client_may_write(&self) -> bool {
        !self.pacing.panic
            && (self.pacing.idle || self.owed_blocks < self.burst_blocks + self.lead_blocks)
    }

    /// Reports blocks that clients wrote.
    pub fn client_wrote(&mut self, blocks: u64) {
        if self.pacing.idle {
            return; // The next update, with this client in its view, sets a share for both.
        }
        let share = self.pacing.reclaim_share.clamp(0.0, 1.0);
        let moves_per_block = (share / (1.0 - share)).min(MOVES_PER_BLOCK_MAX);
        self.owed_blocks += blocks as f64 * moves_per_block;
    }

    /// Blocks that reclaim may move now, at most a burst; 0 means to wait for clients.
    pub fn reclaim_may_move(&self) -> u64 {
        let free_run = self.pacing.panic || self.pacing.idle;
        let blocks = if free_run { self.burst_blocks } else { self.owed_blocks };
        blocks.clamp(0.0, self.burst_blocks).ceil() as u64
    }

    /// Reports blocks that reclaim moved.
    pub fn reclaim_moved(&mut self, blocks: u64) {
        self.owed_blocks = (self.owed_blocks - blocks as f64).max(-self.burst_blocks);
    }
}
