//! What is on a store before its reclaim, or the scan of its map, is measured.

use bytes::Bytes;
use mjolnir_device::{Device, Runtime};
use mjolnir_engine::Engine;
use mjolnir_store::{Durability, Store};
use mjolnir_units::{BLOCK_SIZE, TreeId};
use serde::Deserialize;

use super::drive::payload::PLAIN_BLOCKS;
use super::spec::Bytes as Size;

/// The volume that is filled.
const VOLUME: &str = "data";
/// Writes between two turns.
const WRITES_A_TURN: u64 = 1024;

/// What is written, wholly live in the end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSpec {
    /// Bytes of the volume, each written once.
    pub bytes: Size,
    /// Bytes of each write.
    pub write_bytes: Size,
    /// Writes are scattered, so that each is a mapping of its own; else they follow one another.
    #[serde(default)]
    pub scattered: bool,
    /// Snapshots that are taken then.
    #[serde(default)]
    pub snapshots: u64,
    /// Before each snapshot a block of every leaf of the map is written anew, so that snapshots
    /// share no leaf.
    #[serde(default)]
    pub diverge: bool,
}

/// Data that can be written.
#[derive(Clone, Debug)]
pub struct Data {
    blocks: u64,
    write_blocks: u64,
    spec: DataSpec,
}

impl Data {
    /// Checks it; `bytes_max` is what there is room for.
    ///
    /// # Errors
    ///
    /// A sentence that begins with the key.
    pub fn new(spec: DataSpec, bytes_max: u64) -> Result<Self, String> {
        let (bytes, write) =
            (spec.bytes.get("data.bytes")?, spec.write_bytes.get("data.write_bytes")?);
        let write_max = PLAIN_BLOCKS as u64 * BLOCK_SIZE;
        if !(BLOCK_SIZE..=write_max).contains(&write) || !write.is_multiple_of(BLOCK_SIZE) {
            return Err(format!(
                "data.write_bytes: write a multiple of {BLOCK_SIZE} up to {write_max}"
            ));
        }
        if bytes < write || bytes > bytes_max {
            return Err(format!(
                "data.bytes: write from data.write_bytes to {bytes_max}, for which there is room"
            ));
        }
        Ok(Data { blocks: bytes / BLOCK_SIZE, write_blocks: write / BLOCK_SIZE, spec })
    }

    /// Writes it to a new volume, takes the snapshots and a checkpoint. `payload` gives so many
    /// blocks; `turn` is told the share done now and then, and may end it.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub async fn write<D: Device, R: Runtime>(
        &self,
        engine: &Engine<D, R>,
        payload: impl Fn(usize) -> Bytes,
        mut turn: impl AsyncFnMut(f64) -> Result<(), String>,
    ) -> Result<TreeId, String> {
        let words = |error: mjolnir_store::Error| format!("engine: {error}");
        let made = engine.create_volume(VOLUME, self.blocks * BLOCK_SIZE).await;
        let volume = made.map_err(words)?.id;
        let writes = self.blocks / self.write_blocks;
        let steps = (writes + self.spec.snapshots) as f64;
        for (number, at) in (0..).zip(order(writes, self.spec.scattered)) {
            let data = payload(self.write_blocks as usize);
            let offset = at * self.write_blocks * BLOCK_SIZE;
            engine.write(volume, offset, data, Durability::Buffered).await.map_err(words)?;
            if number % WRITES_A_TURN == 0 {
                turn(number as f64 / steps).await?;
            }
        }
        let leaves = engine.stats().map_leaves.max(1);
        let places = (2 * leaves).min(self.blocks);
        for number in 0..self.spec.snapshots {
            for place in 0..if self.spec.diverge { places } else { 0 } {
                let offset = place * self.blocks / places * BLOCK_SIZE;
                let written = engine.write(volume, offset, payload(1), Durability::Buffered);
                written.await.map_err(words)?;
            }
            engine.create_snapshot(VOLUME, &number.to_string()).await.map_err(words)?;
            turn((writes + number) as f64 / steps).await?;
        }
        engine.checkpoint().await.map_err(words)?;
        Ok(volume)
    }
}

/// The order of writes: in sequence, or each far from the one before.
fn order(writes: u64, scattered: bool) -> impl Iterator<Item = u64> {
    let common = |a: u64, b: u64| {
        let (mut a, mut b) = (a, b);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    // Near the golden section, and without a common divisor: every place once.
    let golden = (writes as f64 * 0.618) as u64;
    let step = (golden.max(1)..).find(|step| common(*step, writes) == 1).unwrap_or(1);
    let step = if scattered { step } else { 1 };
    (0..writes).map(move |at| (u128::from(at) * u128::from(step) % u128::from(writes)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_writes_go_to_every_place_once_and_never_to_the_next() {
        for writes in [7u64, 100, 3_641, 4_096] {
            let places: Vec<u64> = order(writes, true).collect();
            assert!(places.windows(2).all(|pair| pair[1] != pair[0] + 1), "{writes}");
            let mut sorted = places;
            sorted.sort_unstable();
            assert_eq!(sorted, (0..writes).collect::<Vec<_>>());
        }
    }
}
