//! A small NBD client that can have many requests under way: simple replies, cookies of its own.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use mjolnir_nbd::protocol::{Command, OPTION_MAGIC, Request, SIMPLE_REPLY_MAGIC, option};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Client {
    stream: UnixStream,
    /// Size of the export, in bytes.
    pub size: u64,
}

impl Client {
    /// Connects and chooses an export, which must be there.
    pub fn connect(socket: &Path, export: &str) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut client = Client { stream, size: 0 };
        client.negotiate(export).unwrap();
        client
    }

    fn negotiate(&mut self, export: &str) -> io::Result<()> {
        self.receive(18)?;
        let mut hello = 3u32.to_be_bytes().to_vec(); // Fixed newstyle, no zeroes.
        hello.extend(OPTION_MAGIC.to_be_bytes());
        hello.extend(option::GO.to_be_bytes());
        hello.extend((4 + export.len() as u32 + 2).to_be_bytes());
        hello.extend((export.len() as u32).to_be_bytes());
        hello.extend(export.as_bytes());
        hello.extend([0, 0]);
        self.stream.write_all(&hello)?;
        loop {
            let head = self.receive(20)?;
            let number = |from: usize| u32::from_be_bytes(head[from..from + 4].try_into().unwrap());
            let data = self.receive(number(16) as usize)?;
            match number(12) {
                1 => return Ok(()),
                3 if data[..2] == [0, 0] => {
                    self.size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                }
                kind => assert!(kind & (1 << 31) == 0, "export {export:?}: refused, {kind:#x}"),
            }
        }
    }

    fn receive(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends a request, with the payload of a write; its reply bears the cookie.
    pub fn send(
        &mut self,
        (command, flags): (Command, u16),
        cookie: u64,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        let request = Request { flags, command: command as u16, cookie, offset, length };
        let mut bytes = request.encode().to_vec();
        bytes.extend(payload);
        self.stream.write_all(&bytes)
    }

    /// Cookie and error number of the next reply.
    pub fn reply(&mut self) -> io::Result<(u64, u32)> {
        let head = self.receive(16)?;
        assert_eq!(head[..4], SIMPLE_REPLY_MAGIC.to_be_bytes());
        let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
        Ok((u64::from_be_bytes(head[8..].try_into().unwrap()), error))
    }

    fn ask(&mut self, command: Command, offset: u64, length: u32, payload: &[u8]) {
        self.send((command, 0), 1, offset, length, payload).unwrap();
        assert_eq!(self.reply().unwrap(), (1, 0), "{command:?} {offset}+{length}");
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.ask(Command::Read, offset, length, &[]);
        self.receive(length as usize).unwrap()
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.ask(Command::Write, offset, data.len() as u32, data);
    }

    pub fn trim(&mut self, offset: u64, length: u32) {
        self.ask(Command::Trim, offset, length, &[]);
    }

    pub fn flush(&mut self) {
        self.ask(Command::Flush, 0, 0, &[]);
    }
}
