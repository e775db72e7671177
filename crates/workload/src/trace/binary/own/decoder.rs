//! Decodes requests from frames.

use std::time::Duration;

use super::varint::{number, unamount, undistance, unzigzag};
use super::{Context, tag};
use crate::trace::fault::{Fault, Malformed};
use crate::{MAX_ADDRESS, Op};

/// A request as a frame has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub time_ns: u64,
    /// The recording's own number of the volume.
    pub volume: u32,
    pub op: Op,
    pub offset: u64,
    pub length: u64,
    pub stream: Option<u8>,
    pub latency: Option<Duration>,
}

/// Reads the entries of one frame of requests.
#[derive(Debug, Default)]
pub(crate) struct FrameDecoder {
    payload: Vec<u8>,
    at: usize,
    left: u32,
    context: Context,
}

impl FrameDecoder {
    /// Begins a frame.
    pub(crate) fn begin(&mut self, payload: &[u8], entries: u32) {
        self.payload.clear();
        self.payload.extend_from_slice(payload);
        (self.at, self.left, self.context) = (0, entries, Context::default());
    }

    /// The next entry; `None` at the frame's end. After an error the rest of the frame is lost.
    #[inline]
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, Malformed> {
        if self.left == 0 {
            if self.at < self.payload.len() {
                self.at = self.payload.len();
                return Err(nonsense("the frame has bytes after its last entry"));
            }
            return Ok(None);
        }
        match self.entry() {
            Ok(entry) => {
                self.left -= 1;
                Ok(Some(entry))
            }
            Err(bad) => {
                (self.left, self.at) = (0, self.payload.len());
                Err(bad)
            }
        }
    }

    #[inline]
    fn entry(&mut self) -> Result<Entry, Malformed> {
        let cut = || nonsense("an entry is cut or too long");
        let at = &mut self.at;
        let payload = self.payload.as_slice();
        let context = &mut self.context;
        let flags = *payload.get(*at).ok_or_else(cut)?;
        *at += 1;
        let op = *Op::ALL
            .get(usize::from(flags & tag::OP))
            .ok_or_else(|| nonsense("an entry has an unknown operation"))?;
        let delta = unzigzag(number(payload, at).ok_or_else(cut)?);
        context.time_ns = context.time_ns.wrapping_add_signed(delta);
        if flags & tag::VOLUME != 0 {
            context.volume = number(payload, at)
                .and_then(|volume| u32::try_from(volume).ok())
                .ok_or_else(cut)?;
        }
        if flags & tag::STREAM != 0 {
            context.stream = match number(payload, at).ok_or_else(cut)? {
                0 => None,
                hint @ 1..=256 => Some((hint - 1) as u8),
                _ => return Err(nonsense("a stream hint is above 255")),
            };
        }
        let outside = || nonsense("an entry's address is past 1 EiB");
        if flags & tag::LENGTH != 0 {
            let length = number(payload, at).ok_or_else(cut)?;
            context.length =
                unamount(length).filter(|length| *length <= MAX_ADDRESS).ok_or_else(outside)?;
        }
        let (mut offset, mut length) = (0, 0);
        if op == Op::Flush {
            if flags & (tag::OFFSET | tag::LENGTH) != 0 {
                return Err(nonsense("a flush has an offset or a length"));
            }
        } else {
            let mut distance = 0;
            if flags & tag::OFFSET != 0 {
                let given = number(payload, at).ok_or_else(cut)?;
                distance = undistance(given).ok_or_else(outside)?;
            }
            length = context.length;
            offset = context
                .end
                .checked_add_signed(distance)
                .filter(|offset| *offset <= MAX_ADDRESS - length)
                .ok_or_else(outside)?;
            context.end = offset + length;
        }
        let latency = match flags & tag::LATENCY {
            0 => None,
            _ => Some(Duration::from_nanos(number(payload, at).ok_or_else(cut)?)),
        };
        Ok(Entry {
            time_ns: context.time_ns,
            volume: context.volume,
            op,
            offset,
            length,
            stream: context.stream,
            latency,
        })
    }
}

/// Reads the entries of a frame of names.
pub(crate) struct Names<'a> {
    payload: &'a [u8],
    at: usize,
    left: u32,
}

impl<'a> Names<'a> {
    pub(crate) fn new(payload: &'a [u8], entries: u32) -> Self {
        Names { payload, at: 0, left: entries }
    }

    /// The next volume's number and name.
    pub(crate) fn next_name(&mut self) -> Result<Option<(u32, &'a [u8])>, Malformed> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut entry = || {
            let volume = u32::try_from(number(self.payload, &mut self.at)?).ok()?;
            let length = usize::try_from(number(self.payload, &mut self.at)?).ok()?;
            let name = self.payload.get(self.at..self.at.checked_add(length)?)?;
            self.at += length;
            Some((volume, name))
        };
        entry().map(Some).ok_or_else(|| nonsense("a volume's name is cut or too long"))
    }
}

fn nonsense(what: &str) -> Malformed {
    Malformed::new(Fault::Damaged, what)
}
