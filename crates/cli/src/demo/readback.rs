//! Reading a whole volume or snapshot back through the socket, every block judged.

use std::ops::Range;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, ensure};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE};

use super::client::{Ask, Client};
use super::content::Content;
use super::tally::Tally;
use super::versions::Versions;

/// Requests in flight on one connection, when nothing else is to be done.
pub const DEPTH: usize = 8;
/// The same under load, which is not to starve for it.
pub const DEPTH_UNDER_LOAD: usize = 2;
/// Blocks in a request: 128 KiB.
const REQUEST_BLOCKS: u64 = 32;
/// Connections that share the reading of one export.
const CONNECTIONS: u64 = 2;

/// What to read, and what it must hold.
#[derive(Clone, Copy)]
pub struct Readback<'a> {
    /// Where the server listens.
    pub socket: &'a Path,
    /// A volume, or `volume@snapshot`.
    pub export: &'a str,
    /// What blocks hold by version.
    pub content: Content,
    /// Which version each block has.
    pub versions: &'a Versions,
    /// Requests in flight on one connection.
    pub depth: usize,
    /// Takes the verdicts, and says whether to stop.
    pub tally: &'a Tally,
}

impl Readback<'_> {
    /// Reads all of it over several connections. Returns whether it got to the end.
    pub fn all(&self) -> Result<bool> {
        let share = self.versions.blocks().div_ceil(CONNECTIONS).max(1);
        thread::scope(|scope| {
            let parts: Vec<_> = (0..CONNECTIONS)
                .map(|n| {
                    let end = self.versions.blocks();
                    let part = (n * share).min(end)..((n + 1) * share).min(end);
                    scope.spawn(move || self.part(part))
                })
                .collect();
            let mut whole = true;
            for part in parts {
                whole &= part.join().expect("a reading thread panicked")?;
            }
            Ok(whole)
        })
    }

    /// Reads some blocks over one connection. Returns whether it got to the end.
    pub fn part(&self, blocks: Range<u64>) -> Result<bool> {
        self.read(blocks).with_context(|| format!("reading {} back", self.export))
    }

    fn read(&self, blocks: Range<u64>) -> Result<bool> {
        let mut client = Client::connect(self.socket, self.export)?;
        ensure!(
            client.bytes() == self.versions.blocks() * BLOCK_SIZE,
            "{} has {} bytes instead of {}",
            self.export,
            client.bytes(),
            self.versions.blocks() * BLOCK_SIZE
        );
        let mut next = blocks.start;
        loop {
            let goes_on = !self.tally.is_interrupted();
            while goes_on && client.in_flight() < self.depth && next < blocks.end {
                let count = REQUEST_BLOCKS.min(blocks.end - next);
                let length = (count * BLOCK_SIZE) as u32;
                client.ask(Ask::Read { offset: next * BLOCK_SIZE, length }, next)?;
                next += count;
            }
            if client.in_flight() == 0 {
                client.disconnect()?;
                return Ok(next >= blocks.end);
            }
            let answer = client.answer()?;
            for (block, found) in (answer.context..).zip(answer.data.chunks_exact(BLOCK_BYTES)) {
                let verdict = self.content.judge(block, self.versions.allowed(block), found);
                self.tally.judged(self.export, verdict);
            }
        }
    }
}
