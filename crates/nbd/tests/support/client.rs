//! A client that speaks bytes.

use futures_lite::{AsyncReadExt, AsyncWriteExt};
use mjolnir_nbd::protocol::{
    OPTION_MAGIC, OPTION_REPLY_MAGIC, Request, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, option,
    option_reply_type as reply,
};

use super::pipe::Duplex;

/// Fixed newstyle, no zeroes.
pub const FLAGS: u32 = 3;

pub struct Client {
    pub stream: Duplex,
}

/// What came back for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Simple { error: u32, cookie: u64 },
    Chunk { done: bool, kind: u16, cookie: u64, payload: Vec<u8> },
}

impl Reply {
    pub fn cookie(&self) -> u64 {
        match self {
            Reply::Simple { cookie, .. } | Reply::Chunk { cookie, .. } => *cookie,
        }
    }

    /// Whether no more chunks follow for the same request.
    pub fn is_last(&self) -> bool {
        matches!(self, Reply::Simple { .. } | Reply::Chunk { done: true, .. })
    }

    /// The error number; 0 for success.
    pub fn error(&self) -> u32 {
        match self {
            Reply::Simple { error, .. } => *error,
            Reply::Chunk { kind, payload, .. } if kind & 0x8000 != 0 => number(&payload[..4]),
            Reply::Chunk { .. } => 0,
        }
    }

    /// The words that came with an error.
    pub fn message(&self) -> String {
        match self {
            Reply::Chunk { kind, payload, .. } if kind & 0x8000 != 0 => {
                String::from_utf8(payload[6..].to_vec()).unwrap()
            }
            _ => String::new(),
        }
    }
}

pub fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

pub fn long(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// A length and as many bytes.
pub fn counted(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

/// The data of an `INFO` or `GO` option.
pub fn info_data(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = counted(name);
    data.extend((wanted.len() as u16).to_be_bytes());
    data.extend(wanted.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// The data of a `LIST_META_CONTEXT` or `SET_META_CONTEXT` option.
pub fn meta_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = counted(name);
    data.extend((queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| counted(query)));
    data
}

/// An option as it goes over the wire.
pub fn option_bytes(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// A request as it goes over the wire, without payload.
pub fn request_bytes(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    Request { flags, command, cookie, offset, length }.encode().to_vec()
}

impl Client {
    pub fn new(stream: Duplex) -> Self {
        Client { stream }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the server takes what is sent");
    }

    pub async fn receive(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).await.expect("the server answers");
        bytes
    }

    /// Whether the server closed the stream, without another byte.
    pub async fn at_end(&mut self) -> bool {
        self.stream.read(&mut [0]).await.expect("a stream ends in order") == 0
    }

    pub async fn greet(&mut self, flags: u32) {
        let greeting = self.receive(18).await;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(&greeting[16..], [0, 3]);
        self.send(&flags.to_be_bytes()).await;
    }

    /// Sends an option; returns its replies up to the one that ends them.
    pub async fn option(&mut self, number: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send(&option_bytes(number, data)).await;
        self.option_replies(number).await
    }

    pub async fn option_replies(&mut self, asked: u32) -> Vec<(u32, Vec<u8>)> {
        let mut replies = Vec::new();
        loop {
            let header = self.receive(20).await;
            assert_eq!(long(&header[..8]), OPTION_REPLY_MAGIC);
            assert_eq!(number(&header[8..12]), asked);
            let kind = number(&header[12..16]);
            let data = self.receive(number(&header[16..]) as usize).await;
            replies.push((kind, data));
            if kind == reply::ACK || kind & (1 << 31) != 0 {
                return replies;
            }
        }
    }

    /// Sends an option and returns the type of the only reply.
    pub async fn short_option(&mut self, number: u32, data: &[u8]) -> u32 {
        let replies = self.option(number, data).await;
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies[0].0
    }

    /// From the greeting to transmission; returns size and flags of the export.
    pub async fn go(&mut self, name: &str, structured: bool) -> (u64, u16) {
        self.greet(FLAGS).await;
        if structured {
            assert_eq!(self.short_option(option::STRUCTURED_REPLY, &[]).await, reply::ACK);
            let data = meta_data(name, &["base:allocation"]);
            let replies = self.option(option::SET_META_CONTEXT, &data).await;
            assert_eq!(replies.len(), 2, "{replies:?}");
        }
        let replies = self.option(option::GO, &info_data(name, &[])).await;
        assert_eq!(replies.last().unwrap().0, reply::ACK, "{replies:?}");
        let (kind, told) = &replies[0];
        assert_eq!((*kind, &told[..2]), (reply::INFO, &[0, 0][..]));
        (long(&told[2..10]), u16::from_be_bytes(told[10..].try_into().unwrap()))
    }

    pub async fn request(
        &mut self,
        flags: u16,
        command: u16,
        cookie: u64,
        offset: u64,
        length: u32,
    ) {
        self.send(&request_bytes(flags, command, cookie, offset, length)).await;
    }

    pub async fn write(&mut self, flags: u16, cookie: u64, offset: u64, data: &[u8]) {
        self.request(flags, 1, cookie, offset, data.len() as u32).await;
        self.send(data).await;
    }

    /// The next reply or chunk of one. The data of a simple reply to a read are left for
    /// [`receive`](Self::receive).
    pub async fn reply(&mut self) -> Reply {
        let magic = number(&self.receive(4).await);
        if magic == SIMPLE_REPLY_MAGIC {
            let rest = self.receive(12).await;
            return Reply::Simple { error: number(&rest[..4]), cookie: long(&rest[4..]) };
        }
        assert_eq!(magic, STRUCTURED_REPLY_MAGIC);
        let rest = self.receive(16).await;
        let payload = self.receive(number(&rest[12..]) as usize).await;
        assert!(rest[0] == 0 && rest[1] <= 1, "unknown reply flags");
        Reply::Chunk {
            done: rest[1] == 1,
            kind: u16::from_be_bytes(rest[2..4].try_into().unwrap()),
            cookie: long(&rest[4..12]),
            payload,
        }
    }

    /// Sends a request without payload and returns its only reply.
    pub async fn ask(&mut self, flags: u16, command: u16, offset: u64, length: u32) -> Reply {
        self.request(flags, command, 77, offset, length).await;
        let reply = self.reply().await;
        assert_eq!(reply.cookie(), 77);
        reply
    }

    /// Reads a range over structured replies; returns the bytes, or the error number. Checks
    /// that the chunks cover the range exactly.
    pub async fn read(&mut self, flags: u16, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        self.request(flags, 0, 78, offset, length).await;
        let mut assembly = Assembly::new(offset, length);
        loop {
            let reply = self.reply().await;
            assert_eq!(reply.cookie(), 78);
            if reply.error() != 0 {
                return Err(reply.error());
            }
            assembly.add(&reply);
            if reply.is_last() {
                return Ok(assembly.finish());
            }
        }
    }

    pub async fn goodbye(mut self) {
        self.request(0, 2, 0, 0, 0).await;
        assert!(self.at_end().await, "nothing follows a goodbye");
    }
}

/// The content chunks of one read, put together.
pub struct Assembly {
    offset: u64,
    bytes: Vec<u8>,
    covered: Vec<bool>,
    pub holes: usize,
    pub pieces: usize,
}

impl Assembly {
    pub fn new(offset: u64, length: u32) -> Self {
        let length = length as usize;
        Assembly {
            offset,
            bytes: vec![0xEE; length],
            covered: vec![false; length],
            holes: 0,
            pieces: 0,
        }
    }

    pub fn add(&mut self, reply: &Reply) {
        let Reply::Chunk { kind, payload, .. } = reply else {
            panic!("a read takes structured replies, not {reply:?}")
        };
        if *kind == 0 {
            return;
        }
        self.pieces += 1;
        let start = (long(&payload[..8]) - self.offset) as usize;
        let hole = [0].repeat(if *kind == 2 { number(&payload[8..]) as usize } else { 0 });
        let content = match kind {
            1 => &payload[8..],
            2 => &hole,
            _ => panic!("chunk type {kind} answers no read"),
        };
        self.holes += usize::from(*kind == 2);
        assert!(!content.is_empty());
        self.bytes[start..start + content.len()].copy_from_slice(content);
        let covered = &mut self.covered[start..start + content.len()];
        assert!(covered.iter().all(|covered| !covered), "chunks overlap");
        covered.fill(true);
    }

    pub fn finish(self) -> Vec<u8> {
        assert!(self.covered.iter().all(|covered| *covered), "chunks leave a gap");
        self.bytes
    }
}
