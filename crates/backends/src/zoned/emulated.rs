//! A zoned device in memory that holds to the rules of real ones, for tests.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use futures_lite::future::yield_now;
use mjolnir_device::AlignedBuf;
use rustix::io::Errno;

use super::kernel::{Command, Condition, Kernel, Limits, Zone};

/// Clones are the same device.
#[derive(Clone)]
pub(super) struct Emulated {
    media: Rc<RefCell<Media>>,
}

pub(super) struct Media {
    zones: Vec<Zone>,
    contents: Vec<Vec<u8>>,
    limits: Limits,
    writing: BTreeSet<usize>,
    /// Zones whose next write makes them so.
    pub turning: Vec<(usize, Condition)>,
    /// Commands so far.
    pub commands: Vec<(Command, usize)>,
    /// Requests that broke a rule.
    pub refused: Vec<String>,
}

impl Emulated {
    /// Zones of `capacity` bytes within `length`, the first `conventional` of them not sequential.
    pub fn new(count: u64, length: u64, capacity: u64, conventional: u64, limits: Limits) -> Self {
        let zone = |number: u64| {
            let is_conventional = number < conventional;
            Zone {
                start: number * length,
                length,
                capacity: if is_conventional { length } else { capacity },
                written: 0,
                condition: match is_conventional {
                    true => Condition::Conventional,
                    false => Condition::Empty,
                },
            }
        };
        let media = Media {
            zones: (0..count).map(zone).collect(),
            contents: vec![Vec::new(); count as usize],
            limits,
            writing: BTreeSet::new(),
            turning: Vec::new(),
            commands: Vec::new(),
            refused: Vec::new(),
        };
        Emulated { media: Rc::new(RefCell::new(media)) }
    }

    pub fn with<T>(&self, then: impl FnOnce(&mut Media) -> T) -> T {
        then(&mut self.media.borrow_mut())
    }
}

impl Media {
    pub fn zone(&mut self, number: usize) -> &mut Zone {
        &mut self.zones[number]
    }

    /// What another tool does to a zone.
    pub fn empty(&mut self, number: usize) {
        self.contents[number].clear();
        self.zones[number].written = 0;
        self.zones[number].condition = Condition::Empty;
    }

    /// A write of which some bytes landed.
    pub fn tear(&mut self, number: usize, bytes: u64) {
        self.contents[number].extend(vec![0xee; bytes as usize]);
        self.zones[number].written += bytes;
    }

    fn count(&self, is_counted: impl Fn(Condition) -> bool) -> u32 {
        self.zones.iter().filter(|zone| is_counted(zone.condition)).count() as u32
    }

    fn refuse<T>(&mut self, errno: Errno, why: String) -> io::Result<T> {
        self.refused.push(why);
        Err(errno.into())
    }

    /// Makes a zone open, if the limits let it.
    fn open(&mut self, number: usize) -> io::Result<()> {
        let condition = self.zones[number].condition;
        match condition {
            Condition::Open => return Ok(()),
            Condition::Empty | Condition::Closed => {}
            _ => return self.refuse(Errno::IO, format!("zone {number} cannot be opened")),
        }
        let (open, active) =
            (self.count(|c| c == Condition::Open), self.count(Condition::is_active));
        if self.limits.open.is_some_and(|most| open >= most) {
            return self.refuse(Errno::TOOMANYREFS, format!("{open} zones are open"));
        }
        let is_new = condition == Condition::Empty;
        if is_new && self.limits.active.is_some_and(|most| active >= most) {
            return self.refuse(Errno::OVERFLOW, format!("{active} zones are active"));
        }
        self.zones[number].condition = Condition::Open;
        Ok(())
    }

    fn begin_write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let number = (offset / self.zones[0].length) as usize;
        let zone = self.zones[number];
        if !self.writing.insert(number) {
            return self.refuse(Errno::IO, format!("two writes to zone {number}"));
        }
        if let Some(at) = self.turning.iter().position(|(turning, _)| *turning == number) {
            let (_, condition) = self.turning.remove(at);
            self.zones[number].condition = condition;
            return Err(Errno::IO.into());
        }
        if offset != zone.start + zone.written || zone.written + bytes.len() as u64 > zone.capacity
        {
            return self.refuse(Errno::IO, format!("a write at {offset}, off the pointer"));
        }
        self.open(number)?;
        self.contents[number].extend_from_slice(bytes);
        let zone = &mut self.zones[number];
        zone.written += bytes.len() as u64;
        if zone.written == zone.capacity {
            zone.condition = Condition::Full;
        }
        Ok(number)
    }
}

impl Kernel for Emulated {
    fn zones(&self) -> io::Result<Vec<Zone>> {
        Ok(self.media.borrow().zones.clone())
    }

    fn zone(&self, of: &Zone) -> impl Future<Output = io::Result<Zone>> + 'static {
        let (media, number) = (self.media.clone(), (of.start / of.length) as usize);
        async move {
            yield_now().await;
            Ok(media.borrow().zones[number])
        }
    }

    fn limits(&self) -> Limits {
        self.media.borrow().limits
    }

    fn longest(&self) -> u64 {
        16 * 4096
    }

    fn command(
        &self,
        command: Command,
        zone: &Zone,
    ) -> impl Future<Output = io::Result<()>> + 'static {
        let number = (zone.start / zone.length) as usize;
        let done = self.with(|media| {
            media.commands.push((command, number));
            let condition = media.zones[number].condition;
            if matches!(condition, Condition::ReadOnly | Condition::Offline) {
                return Err(Errno::IO.into());
            }
            match command {
                Command::Reset => media.empty(number),
                Command::Open => media.open(number)?,
                Command::Close if condition == Condition::Open => {
                    let zone = &mut media.zones[number];
                    zone.condition = match zone.written {
                        0 => Condition::Empty,
                        _ => Condition::Closed,
                    };
                }
                Command::Close => {}
                Command::Finish => {
                    let zone = &mut media.zones[number];
                    (zone.condition, zone.written) = (Condition::Full, zone.capacity);
                }
            }
            Ok(())
        });
        async move {
            yield_now().await;
            done
        }
    }

    fn write(
        &self,
        offset: u64,
        pieces: Vec<Bytes>,
    ) -> impl Future<Output = io::Result<()>> + 'static {
        let (media, number) =
            (self.media.clone(), (offset / self.with(|m| m.zones[0].length)) as usize);
        let begun = self.with(|media| media.begin_write(offset, &pieces.concat()));
        async move {
            for _ in 0..3 {
                yield_now().await;
            }
            media.borrow_mut().writing.remove(&number);
            begun.map(drop)
        }
    }

    fn read(
        &self,
        offset: u64,
        mut buffer: AlignedBuf,
    ) -> impl Future<Output = io::Result<AlignedBuf>> + 'static {
        let media = self.media.clone();
        async move {
            yield_now().await;
            let media = media.borrow();
            let number = (offset / media.zones[0].length) as usize;
            if media.zones[number].condition == Condition::Offline {
                return Err(Errno::IO.into());
            }
            let from = (offset - media.zones[number].start) as usize;
            let written = media.contents[number].get(from..).unwrap_or_default();
            let there = written.len().min(buffer.len());
            buffer.as_mut().fill(0);
            buffer.as_mut()[..there].copy_from_slice(&written[..there]);
            Ok(buffer)
        }
    }

    fn flush(&self) -> impl Future<Output = io::Result<()>> + 'static {
        yield_now_ok()
    }

    fn forgive(&self) {}
}

async fn yield_now_ok() -> io::Result<()> {
    yield_now().await;
    Ok(())
}
