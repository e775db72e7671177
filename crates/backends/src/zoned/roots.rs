//! The label and the root, in a pair of zones.
//!
//! Each zone begins with the label; roots follow, each in a block, and the last one counts. When the
//! zone is full, the other one is reset and gets label and root: until then the full one keeps the
//! last root. So no root is written in place, and at any moment one zone holds the newest.

use std::io;

use bytes::Bytes;
use mjolnir_device::AlignedBuf;
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE};

use super::kernel::{Command, Condition, Kernel, Zone};
use crate::container::{Found, ZonedLabel, decode_root, encode_root};

/// The last blocks of a zone that are searched for a root. One that was written in part may be behind
/// the newest whole one.
const SEARCHED: u64 = 64;

/// Tries to read a label or a root.
const TRIES: usize = 3;

/// The state of the pair.
pub(super) struct Roots {
    zones: [Zone; 2],
    label: ZonedLabel,
    /// The zone that is written, and its next byte.
    current: usize,
    next: u64,
    /// Zones that failed a write since they were reset.
    broken: [bool; 2],
    sequence: u64,
    pub root: Option<Bytes>,
    /// Something of the pair cannot be read: there may be a newer root.
    pub in_doubt: bool,
}

/// What the pair of a device holds.
pub(super) enum Pair {
    /// A store's label and root.
    Store(Roots),
    /// Nothing of a store.
    Nothing,
    /// Something that looks like a store, and cannot be read. Why.
    Refused(String),
}

/// Reads a block. A transient fault must not decide which root is the newest.
async fn block<K: Kernel>(kernel: &K, at: u64) -> io::Result<AlignedBuf> {
    let mut tries = 1;
    loop {
        match kernel.read(at, AlignedBuf::zeroed(BLOCK_BYTES)).await {
            Err(_) if tries < TRIES => tries += 1,
            read => return read,
        }
    }
}

impl Roots {
    /// The pair of a new store, whose zones were reset.
    pub fn new(zones: [Zone; 2], label: ZonedLabel) -> Self {
        let next = zones[0].start;
        Roots {
            zones,
            label,
            current: 0,
            next,
            broken: [false; 2],
            sequence: 0,
            root: None,
            in_doubt: false,
        }
    }

    /// Reads both zones.
    pub async fn read<K: Kernel>(kernel: &K, zones: [Zone; 2]) -> Pair {
        let mut newest: Option<Roots> = None;
        let mut refused = None;
        for (number, zone) in zones.iter().enumerate() {
            if zone.condition == Condition::Offline {
                refused
                    .get_or_insert_with(|| format!("the zone at byte {} is offline", zone.start));
                continue;
            }
            let label = match block(kernel, zone.start).await {
                Ok(block) => ZonedLabel::decode(block.as_ref()),
                Err(error) => {
                    refused.get_or_insert_with(|| format!("its label cannot be read: {error}"));
                    continue;
                }
            };
            let label = match label {
                Found::Label(label) => label,
                Found::Nothing => continue,
                Found::Damaged => {
                    refused.get_or_insert_with(|| "its label is damaged".into());
                    continue;
                }
                Found::Unknown(why) => return Pair::Refused(why),
            };
            let (found, is_readable) = newest_root(kernel, zone, &label).await;
            let (sequence, root) = found.unzip();
            let sequence = sequence.unwrap_or(0);
            if !is_readable {
                refused.get_or_insert_with(|| "a root cannot be read".into());
            }
            if newest.as_ref().is_none_or(|newest| newest.sequence < sequence) {
                // What lies behind the newest root was written in part; the pointer is past it.
                let end = match zone.condition {
                    Condition::ReadOnly => zone.capacity,
                    _ => zone.written,
                };
                newest = Some(Roots {
                    zones,
                    label,
                    current: number,
                    next: zone.start + end,
                    // Off a block's bounds no root is looked for.
                    broken: zones.map(|zone| {
                        zone.condition == Condition::ReadOnly
                            || !zone.written.is_multiple_of(BLOCK_SIZE)
                    }),
                    sequence,
                    root: root.map(Bytes::from),
                    in_doubt: false,
                });
            }
        }
        match (newest, refused) {
            // The pair has moved on from a full zone, to the one that cannot be read.
            (Some(roots), Some(why))
                if roots.root.is_none()
                    || roots.zones[roots.current].condition == Condition::Full =>
            {
                Pair::Refused(format!("{why}, and the newest root lies there"))
            }
            (Some(roots), why) => Pair::Store(Roots { in_doubt: why.is_some(), ..roots }),
            (None, Some(why)) => Pair::Refused(why),
            (None, None) => Pair::Nothing,
        }
    }

    pub fn label(&self) -> &ZonedLabel {
        &self.label
    }

    /// Writes the label to both zones of a new store.
    pub async fn begin<K: Kernel>(&mut self, kernel: &K) -> io::Result<()> {
        for zone in [1, 0] {
            let label = self.label.encode().freeze();
            kernel.write(self.zones[zone].start, vec![label]).await?;
        }
        self.next = self.zones[0].start + BLOCK_SIZE;
        kernel.flush().await
    }

    /// Writes the next root, durably. If its zone fails, the other one takes it.
    pub async fn write<K: Kernel>(&mut self, kernel: &K, root: &Bytes) -> io::Result<()> {
        // A number is used once: one that failed may have landed, and must not pass for another.
        self.sequence += 1;
        let block = encode_root(&self.label.uuid, self.sequence, root).freeze();
        let (zone, at) = (self.zones[self.current], self.next);
        let has_room = at + BLOCK_SIZE <= zone.start + zone.capacity;
        let mut why = None;
        if has_room && !self.broken[self.current] {
            match self.put(kernel, at, vec![block.clone()]).await {
                Ok(()) => {
                    self.next += BLOCK_SIZE;
                    self.root = Some(root.clone());
                    return Ok(());
                }
                Err(error) => {
                    self.broken[self.current] = true;
                    why = Some(error);
                }
            }
        }
        // The present zone keeps the last root until the other one has this one.
        let other = 1 - self.current;
        let zone = self.zones[other];
        let moved = async {
            kernel.command(Command::Reset, &zone).await?;
            let pieces = vec![self.label.encode().freeze(), block];
            self.put(kernel, zone.start, pieces).await
        };
        match moved.await {
            Ok(()) => {
                (self.current, self.next) = (other, zone.start + 2 * BLOCK_SIZE);
                self.broken[other] = false;
                self.root = Some(root.clone());
                Ok(())
            }
            Err(error) => {
                self.broken[other] = true;
                Err(why.unwrap_or(error))
            }
        }
    }

    async fn put<K: Kernel>(&self, kernel: &K, at: u64, pieces: Vec<Bytes>) -> io::Result<()> {
        kernel.write(at, pieces).await?;
        kernel.flush().await
    }
}

/// The newest root in a zone, with its number, and whether all that was looked at can be read.
async fn newest_root<K: Kernel>(
    kernel: &K,
    zone: &Zone,
    label: &ZonedLabel,
) -> (Option<(u64, Vec<u8>)>, bool) {
    let mut is_readable = true;
    let end = zone.written / BLOCK_SIZE;
    // The pointer of a read-only zone says nothing, and a drive may finish a zone by itself.
    if zone.condition != Condition::ReadOnly {
        for number in (1..end).rev().take(SEARCHED as usize) {
            let read = block(kernel, zone.start + number * BLOCK_SIZE).await;
            is_readable &= read.is_ok();
            let root = read.ok().and_then(|block| decode_root(&label.uuid, block.as_ref()));
            if root.is_some() {
                return (root, is_readable);
            }
        }
        if zone.condition != Condition::Full {
            return (None, is_readable);
        }
    }
    let (mut newest, mut others) = (None, 0);
    for number in 1..zone.capacity / BLOCK_SIZE {
        let read = block(kernel, zone.start + number * BLOCK_SIZE).await;
        is_readable &= read.is_ok();
        match read.ok().and_then(|block| decode_root(&label.uuid, block.as_ref())) {
            Some(root) => (newest, others) = (Some(root), 0),
            None => others += 1,
        }
        if others >= SEARCHED {
            break;
        }
    }
    (newest, is_readable)
}
