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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::demo::server::{NewStore, Server};
    use crate::demo::versions::Deal;

    /// A server with an empty volume of 1 MiB, and block 3 of it written in version 1.
    fn serve(folder: &Path, content: Content) -> (Server, std::path::PathBuf) {
        let volume = ("v".into(), 1 << 20);
        let new = NewStore { bytes: 64 << 20, segment_bytes: 1 << 20, volume };
        let socket = folder.join("socket");
        let server =
            Server::start(&folder.join("store"), &socket, Default::default(), Some(new)).unwrap();
        let mut client = Client::connect(&socket, "v").unwrap();
        let mut data = vec![0; BLOCK_BYTES];
        content.fill(3, 1, &mut data);
        client.ask(Ask::Write { offset: 3 * BLOCK_SIZE, data: &data, durable: true }, ()).unwrap();
        client.answer().unwrap();
        client.disconnect().unwrap();
        (server, socket)
    }

    fn wrong(socket: &Path, content: Content, table: Vec<u32>) -> (u64, Vec<String>) {
        let versions = Versions::exact(&Deal::of(1 << 20, 1), &[table]);
        let tally = &Tally::new(Arc::default());
        let readback =
            Readback { socket, export: "v", content, versions: &versions, depth: 2, tally };
        assert!(readback.all().unwrap());
        assert_eq!(tally.blocks_verified.load(Relaxed), 256);
        tally.wrong()
    }

    #[test]
    fn every_block_that_is_not_what_it_should_be_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let content = Content { seed: 1 };
        let (server, socket) = serve(folder.path(), content);
        let mut table = vec![0; 256];
        table[3] = 1;
        assert_eq!(wrong(&socket, content, table.clone()).0, 0);
        // A lost write, and a write that should not be there.
        table[200] = 1;
        table[3] = 0;
        let (count, findings) = wrong(&socket, content, table);
        assert_eq!(count, 2, "{findings:?}");
        let all = findings.join("\n");
        assert!(all.contains("v: block 3 holds version 1; it should hold version 0"), "{all}");
        assert!(all.contains("v: block 200 reads as zeroes; it should hold version 1"), "{all}");
        server.close().unwrap();
    }

    #[test]
    fn what_the_server_refuses_is_told_in_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let (server, socket) = serve(folder.path(), Content { seed: 1 });
        let error = Client::<()>::connect(&socket, "nobody").map(drop).unwrap_err();
        assert!(format!("{error:#}").contains("nobody"), "{error:#}");
        let mut client = Client::connect(&socket, "v").unwrap();
        client.ask(Ask::Read { offset: 1 << 20, length: 4096 }, ()).unwrap();
        let error = client.answer().map(drop).unwrap_err();
        assert!(error.to_string().starts_with("reading 4096 bytes at 1048576 failed"), "{error}");
        server.close().unwrap();
        assert!(Client::<()>::connect(&socket, "v").is_err(), "the socket is gone");
    }
}
