//! A small NBD client over a unix socket: many requests in flight, one thread, plain blocking I/O.
//!
//! It speaks fixed newstyle negotiation with structured replies, as much as the demo needs.

use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mjolnir_nbd::protocol::{
    Chunk, Command, GREETING_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, Request, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC, handshake_flag, info, option, option_reply_type,
};

/// Replies are read ahead by as much.
const INPUT_BYTES: usize = 128 << 10;
/// The longest message that an error reply may carry here.
const MESSAGE_BYTES_MAX: u32 = 64 << 10;

/// A server that says nothing for so long hangs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to one export. `T` is what the caller wants back with each answer.
///
/// The caller bounds what is in flight: the server reads on while it answers, up to tens of MiB,
/// so a few hundred KiB never leave both sides waiting to send.
pub struct Client<T> {
    input: BufReader<UnixStream>,
    output: Vec<u8>,
    pending: Vec<Option<Pending<T>>>,
    in_flight: usize,
    bytes: u64,
}

/// A request.
pub enum Ask<'a> {
    /// Read so many bytes.
    Read { offset: u64, length: u32 },
    /// Write; durable before the answer if `durable`.
    Write { offset: u64, data: &'a [u8], durable: bool },
    /// Give a range back.
    Trim { offset: u64, length: u32 },
    /// Make everything that was answered durable.
    Flush,
}

struct Pending<T> {
    context: T,
    request: Request,
    data: Vec<u8>,
    filled: usize,
    asked: Instant,
}

/// An answered request.
pub struct Answer<T> {
    /// What was given with the request.
    pub context: T,
    /// What was read.
    pub data: Vec<u8>,
    /// From request to answer.
    pub took: Duration,
}

impl<T> Client<T> {
    /// Connects to `export` of the server at `socket`.
    pub fn connect(socket: &Path, export: &str) -> Result<Self> {
        let connect = || {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let mut client = Client {
                input: BufReader::with_capacity(INPUT_BYTES, stream),
                output: Vec::new(),
                pending: Vec::new(),
                in_flight: 0,
                bytes: 0,
            };
            client.negotiate(export)?;
            Ok::<_, anyhow::Error>(client)
        };
        connect().with_context(|| format!("connecting to {export} at {}", socket.display()))
    }

    /// Size of the export.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Requests that wait for their answers.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Sends a request. It may block until the server takes it.
    pub fn ask(&mut self, ask: Ask<'_>, context: T) -> Result<()> {
        let free = self.pending.iter().position(Option::is_none);
        let cookie = free.unwrap_or(self.pending.len());
        let (command, flags, offset, length, payload) = match ask {
            Ask::Read { offset, length } => (Command::Read, 0, offset, length, &[][..]),
            Ask::Write { offset, data, durable } => {
                (Command::Write, u16::from(durable), offset, data.len() as u32, data)
            }
            Ask::Trim { offset, length } => (Command::Trim, 0, offset, length, &[][..]),
            Ask::Flush => (Command::Flush, 0, 0, 0, &[][..]),
        };
        let request =
            Request { flags, command: command as u16, cookie: cookie as u64, offset, length };
        let data = if command == Command::Read { vec![0; length as usize] } else { Vec::new() };
        let pending = Pending { context, request, data, filled: 0, asked: Instant::now() };
        match free {
            Some(free) => self.pending[free] = Some(pending),
            None => self.pending.push(Some(pending)),
        }
        self.in_flight += 1;
        self.output.clear();
        self.output.extend_from_slice(&request.encode());
        self.output.extend_from_slice(payload);
        self.input.get_mut().write_all(&self.output).context("sending a request")
    }

    /// Waits for the next answer, in whatever order they come.
    ///
    /// # Errors
    ///
    /// The server refused the request, is gone, or broke the protocol.
    pub fn answer(&mut self) -> Result<Answer<T>> {
        assert!(self.in_flight > 0, "nothing was asked");
        loop {
            let magic = u32::from_be_bytes(self.take()?);
            let done = match magic {
                SIMPLE_REPLY_MAGIC => self.simple_reply()?,
                STRUCTURED_REPLY_MAGIC => self.chunk()?,
                _ => bail!("the server sent {magic:#x} as a reply's magic"),
            };
            let Some(cookie) = done else { continue };
            self.in_flight -= 1;
            let pending = self.pending[cookie].take().expect("found when the reply came");
            ensure!(
                pending.filled == pending.data.len(),
                "{} was answered with {} bytes",
                describe(&pending.request),
                pending.filled
            );
            let took = pending.asked.elapsed();
            return Ok(Answer { context: pending.context, data: pending.data, took });
        }
    }

    /// Takes leave. Nothing may be in flight.
    pub fn disconnect(mut self) -> Result<()> {
        assert_eq!(self.in_flight, 0, "answers are still to come");
        let command = Command::Disconnect as u16;
        let request = Request { flags: 0, command, cookie: 0, offset: 0, length: 0 };
        self.input.get_mut().write_all(&request.encode()).context("taking leave")
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).context("waiting for the server")?;
        Ok(bytes)
    }

    fn pending(&mut self, cookie: u64) -> Result<(usize, &mut Pending<T>)> {
        let index = usize::try_from(cookie).unwrap_or(usize::MAX);
        match self.pending.get_mut(index) {
            Some(Some(pending)) => Ok((index, pending)),
            _ => bail!("the server answered request {cookie}, which was not asked"),
        }
    }

    /// Takes the rest of a simple reply; these never carry data once structured ones are agreed.
    fn simple_reply(&mut self) -> Result<Option<usize>> {
        let error = u32::from_be_bytes(self.take()?);
        let cookie = u64::from_be_bytes(self.take()?);
        let (index, pending) = self.pending(cookie)?;
        ensure!(error == 0, "{} failed with error {error}", describe(&pending.request));
        Ok(Some(index))
    }

    /// Takes the rest of a chunk. Returns the request's index if it is the last one.
    fn chunk(&mut self) -> Result<Option<usize>> {
        let flags = u16::from_be_bytes(self.take()?);
        let kind = u16::from_be_bytes(self.take()?);
        let cookie = u64::from_be_bytes(self.take()?);
        let length = u32::from_be_bytes(self.take()?);
        let (index, pending) = self.pending(cookie)?;
        let request = pending.request;
        if kind == Chunk::OffsetData as u16 {
            ensure!(length > 8, "a data chunk of {length} bytes");
            let offset = u64::from_be_bytes(self.take()?);
            let Client { input, pending, .. } = self;
            let pending = pending[index].as_mut().expect("found above");
            let part = pending.part(offset, length - 8)?;
            input.read_exact(part).context("reading the content of a reply")?;
        } else if kind == Chunk::OffsetHole as u16 {
            ensure!(length == 12, "a hole chunk of {length} bytes");
            let offset = u64::from_be_bytes(self.take()?);
            let zeroes = u32::from_be_bytes(self.take()?);
            let (_, pending) = self.pending(cookie)?;
            pending.part(offset, zeroes)?.fill(0);
        } else if kind >= 1 << 15 {
            ensure!((6..MESSAGE_BYTES_MAX).contains(&length), "an error chunk of {length} bytes");
            let error = u32::from_be_bytes(self.take()?);
            let mut rest = vec![0; length as usize - 4];
            self.input.read_exact(&mut rest).context("reading an error message")?;
            let message = String::from_utf8_lossy(&rest[2..]);
            bail!("{} failed: {message} (error {error})", describe(&request));
        } else {
            ensure!(
                kind == Chunk::None as u16 && length == 0,
                "a chunk of type {kind} with {length} bytes, which was not asked for"
            );
        }
        Ok((flags & 1 != 0).then_some(index))
    }

    fn negotiate(&mut self, export: &str) -> Result<()> {
        let (greeting, style) =
            (u64::from_be_bytes(self.take()?), u64::from_be_bytes(self.take()?));
        ensure!((greeting, style) == (GREETING_MAGIC, OPTION_MAGIC), "this is no NBD server");
        let offered = u16::from_be_bytes(self.take()?);
        let wanted = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        ensure!(offered & wanted == wanted, "the server is too old (flags {offered:#x})");
        self.input.get_mut().write_all(&u32::from(wanted).to_be_bytes())?;
        self.option(option::STRUCTURED_REPLY, &[])?;
        // The name, and no further information wanted than what always comes.
        let name = export.as_bytes();
        let go = [&(name.len() as u32).to_be_bytes()[..], name, &0u16.to_be_bytes()].concat();
        let told = self.option(option::GO, &go)?;
        let size = told.iter().find(|data| data.starts_with(&info::EXPORT.to_be_bytes()));
        let size = size.and_then(|data| data.get(2..10)).context("the server told no size")?;
        self.bytes = u64::from_be_bytes(size.try_into().expect("8 bytes"));
        Ok(())
    }

    /// Sends an option; returns the data of the replies before the one that accepts it.
    fn option(&mut self, number: u32, data: &[u8]) -> Result<Vec<Vec<u8>>> {
        let header = [
            &OPTION_MAGIC.to_be_bytes()[..],
            &number.to_be_bytes(),
            &(data.len() as u32).to_be_bytes(),
        ];
        self.input.get_mut().write_all(&[&header.concat(), data].concat())?;
        let mut told = Vec::new();
        loop {
            let magic = u64::from_be_bytes(self.take()?);
            ensure!(magic == OPTION_REPLY_MAGIC, "{magic:#x} is no option reply");
            ensure!(u32::from_be_bytes(self.take()?) == number, "a reply to another option");
            let kind = u32::from_be_bytes(self.take()?);
            let length = u32::from_be_bytes(self.take()?);
            ensure!(length <= MESSAGE_BYTES_MAX, "an option reply of {length} bytes");
            let mut data = vec![0; length as usize];
            self.input.read_exact(&mut data)?;
            match kind {
                option_reply_type::ACK => return Ok(told),
                kind if kind >= 1 << 31 => {
                    let why = String::from_utf8_lossy(&data);
                    bail!("the server refused option {number}: {why} (error {kind:#x})");
                }
                _ => told.push(data),
            }
        }
    }
}

impl<T> Pending<T> {
    /// The part of the buffer that a chunk fills.
    fn part(&mut self, offset: u64, length: u32) -> Result<&mut [u8]> {
        let end = offset.checked_add(u64::from(length));
        let inside = offset >= self.request.offset
            && end.is_some_and(|end| end <= self.request.offset + self.data.len() as u64);
        ensure!(inside, "{} got bytes {offset}+{length}", describe(&self.request));
        self.filled += length as usize;
        let start = (offset - self.request.offset) as usize;
        Ok(&mut self.data[start..start + length as usize])
    }
}

fn describe(request: &Request) -> String {
    let what = match Command::from_number(request.command) {
        Some(Command::Read) => "reading",
        Some(Command::Write) => "writing",
        Some(Command::Trim) => "trimming",
        _ => return "a flush".into(),
    };
    format!("{what} {} bytes at {}", request.length, request.offset)
}
