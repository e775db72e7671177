//! A small NBD client: fixed newstyle, simple replies, one request at a time.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::PATIENCE;

/// Command flag: durable when it is answered.
pub const FUA: u16 = 1;
/// Error numbers of the protocol.
pub const EPERM: u32 = 1;
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const ESHUTDOWN: u32 = 108;

pub struct Client {
    stream: UnixStream,
    /// Size of the export, in bytes.
    pub size: u64,
}

impl Client {
    /// Connects and chooses an export, which must be there.
    pub fn connect(socket: &Path, export: &str) -> Self {
        Self::try_connect(socket, export).unwrap_or_else(|kind| {
            panic!("the server refused {export:?}: option reply {kind:#x}");
        })
    }

    /// Connects and chooses an export; returns the reply that refused it, if one did.
    pub fn try_connect(socket: &Path, export: &str) -> Result<Self, u32> {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Client { stream, size: 0 };
        assert_eq!(&client.receive(18)[..16], b"NBDMAGICIHAVEOPT");
        client.send(&3u32.to_be_bytes());
        let mut data = (export.len() as u32).to_be_bytes().to_vec();
        data.extend(export.as_bytes());
        data.extend([0, 0]);
        let mut option = b"IHAVEOPT".to_vec();
        option.extend(7u32.to_be_bytes());
        option.extend((data.len() as u32).to_be_bytes());
        option.extend(data);
        client.send(&option);
        loop {
            let head = client.receive(20);
            let kind = u32::from_be_bytes(head[12..16].try_into().unwrap());
            let length = u32::from_be_bytes(head[16..].try_into().unwrap());
            let data = client.receive(length as usize);
            match kind {
                1 => return Ok(client),
                3 if data[..2] == [0, 0] => {
                    client.size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                }
                kind if kind & (1 << 31) != 0 => return Err(kind),
                _ => {}
            }
        }
    }

    /// Sends bytes, as what follows a request.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).expect("the server answers");
        bytes
    }

    /// Sends a request, without waiting for its reply.
    pub fn request(&mut self, flags: u16, command: u16, offset: u64, length: u32, data: &[u8]) {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend(flags.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(7u64.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.send(&request);
    }

    /// Takes the head of a reply; returns the error number, 0 for none.
    pub fn reply(&mut self) -> Result<(), u32> {
        let head = self.receive(16);
        assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes());
        assert_eq!(head[8..], 7u64.to_be_bytes());
        match u32::from_be_bytes(head[4..8].try_into().unwrap()) {
            0 => Ok(()),
            error => Err(error),
        }
    }

    fn ask(&mut self, flags: u16, command: u16, offset: u64, length: u32) -> Result<(), u32> {
        self.request(flags, command, offset, length, &[]);
        self.reply()
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        self.ask(0, 0, offset, length)?;
        Ok(self.receive(length as usize))
    }

    pub fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> Result<(), u32> {
        self.request(flags, 1, offset, data.len() as u32, data);
        self.reply()
    }

    /// Writes; false if the server is gone.
    pub fn try_write(&mut self, offset: u64, data: &[u8]) -> bool {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend([0, 0, 0, 1]);
        request.extend(7u64.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend((data.len() as u32).to_be_bytes());
        request.extend(data);
        let mut head = [0; 16];
        self.stream.write_all(&request).is_ok() && self.stream.read_exact(&mut head).is_ok()
    }

    pub fn flush(&mut self) -> Result<(), u32> {
        self.ask(0, 3, 0, 0)
    }

    pub fn trim(&mut self, offset: u64, length: u32) -> Result<(), u32> {
        self.ask(0, 4, offset, length)
    }

    pub fn zero(&mut self, offset: u64, length: u32) -> Result<(), u32> {
        self.ask(0, 6, offset, length)
    }

    /// Says goodbye.
    pub fn leave(mut self) {
        self.request(0, 2, 0, 0, &[]);
    }
}
