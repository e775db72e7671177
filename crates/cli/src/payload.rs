//! What the writes of an atomic vector bring: named by a file where a command is given, announced
//! by its length on the control socket, where it follows the request, and bytes where it is
//! written. However long the files are, no more is read than one vector takes.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_lite::{AsyncRead, AsyncReadExt};
use mjolnir_store::SECTOR_BYTES;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, ByteSize};
use serde::{Deserialize, Serialize};

use crate::request::{RangeOp, Request};

/// What a write brings. In JSON a file is its path, and the others are their length in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Json", into = "Json")]
pub enum Payload {
    /// The whole of a file, which the command can read and a server cannot.
    File(PathBuf),
    /// So many bytes, which follow the request.
    Announced(u64),
    /// Here it is.
    Bytes(Bytes),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Json {
    Length(u64),
    File(PathBuf),
}

impl From<Json> for Payload {
    fn from(json: Json) -> Self {
        match json {
            Json::Length(bytes) => Payload::Announced(bytes),
            Json::File(path) => Payload::File(path),
        }
    }
}

impl From<Payload> for Json {
    fn from(payload: Payload) -> Self {
        match payload {
            Payload::File(path) => Json::File(path),
            Payload::Announced(bytes) => Json::Length(bytes),
            Payload::Bytes(bytes) => Json::Length(bytes.len() as u64),
        }
    }
}

/// A file of which so many bytes are to be written.
pub struct Source {
    file: File,
    path: PathBuf,
    /// Its length when it was opened, in bytes; whole sectors.
    bytes: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let bytes = file.metadata().map_err(|error| unreadable(path, &error))?.len();
        // Whether the last block is whole, or reaches to the end of its volume, is for the engine to say.
        if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{} has {bytes} bytes, and a vector writes whole blocks of {BLOCK_SIZE} (or whole \
                     sectors of {SECTOR_BYTES} up to the end of a volume); pad it with `truncate -s \
                     %{BLOCK_SIZE}`",
                    path.display()
                ),
            ));
        }
        Ok(Source { file, path: path.to_owned(), bytes })
    }

    /// Hands on its content, piece by piece.
    pub fn send<E: From<Error>>(
        mut self,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut piece = vec![0; 256 << 10];
        let mut left = self.bytes;
        while left > 0 {
            let wanted = left.min(piece.len() as u64) as usize;
            let count = self.file.read(&mut piece[..wanted]);
            match count.map_err(|error| E::from(unreadable(&self.path, &error)))? {
                0 => return Err(unreadable(&self.path, &"it became shorter").into()),
                count => {
                    sink(&piece[..count])?;
                    left -= count as u64;
                }
            }
        }
        Ok(())
    }
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("reading what to write from {}: {why}", path.display()))
}

/// The payloads of a request, in order.
fn payloads(request: &mut Request) -> impl Iterator<Item = &mut Payload> {
    let ops = match request {
        Request::Ranges { ops } => &mut ops[..],
        _ => &mut [],
    };
    ops.iter_mut().filter_map(|op| match op {
        RangeOp::Write { from, .. } => Some(from),
        _ => None,
    })
}

/// Opens the files that a request names, and announces their lengths in their place.
pub fn announce(request: &mut Request) -> Result<Vec<Source>, Error> {
    let mut sources = Vec::new();
    for payload in payloads(request) {
        let Payload::File(path) = payload else {
            return Err(Error::new(
                ErrorKind::Invalid,
                "a write names the file that it brings, such as {\"write\": {\"from\": \
                 \"data.bin\", \"to\": \"v:2M\"}}",
            ));
        };
        let source = Source::open(path)?;
        *payload = Payload::Announced(source.bytes);
        sources.push(source);
    }
    Ok(sources)
}

/// How many bytes are to follow a request; refused if more than `bytes_max`.
pub fn admit(request: &mut Request, bytes_max: u64) -> Result<u64, Error> {
    let mut total = 0u64;
    for payload in payloads(request) {
        total = total.saturating_add(match payload {
            Payload::Announced(bytes) => *bytes,
            Payload::Bytes(bytes) => bytes.len() as u64,
            Payload::File(_) => {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "a request announces how many bytes a write brings, and names no file",
                ));
            }
        });
    }
    if total > bytes_max {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "the writes bring {total} bytes ({}), and one atomic vector takes at most \
                 {bytes_max} ({}); split it",
                ByteSize(total),
                ByteSize(bytes_max)
            ),
        ));
    }
    Ok(total)
}

/// Reads the files that a request names into it: to be called where the store is.
pub fn load(request: &mut Request, bytes_max: u64) -> Result<(), Error> {
    let sources = announce(request)?;
    admit(request, bytes_max)?;
    for (payload, source) in payloads(request).zip(sources) {
        let mut bytes = Vec::with_capacity(source.bytes as usize);
        source.send(|piece| {
            bytes.extend_from_slice(piece);
            Ok::<_, Error>(())
        })?;
        *payload = Payload::Bytes(bytes.into());
    }
    Ok(())
}

/// Takes what follows an admitted request out of `ahead`, which was read along with it, and then
/// out of `stream`.
pub async fn receive(
    request: &mut Request,
    ahead: &mut Vec<u8>,
    stream: &mut (impl AsyncRead + Unpin),
) -> std::io::Result<()> {
    for payload in payloads(request) {
        let Payload::Announced(length) = *payload else { continue };
        let length = length as usize;
        let mut bytes = vec![0; length];
        let present = ahead.len().min(length);
        bytes[..present].copy_from_slice(&ahead[..present]);
        ahead.drain(..present);
        stream.read_exact(&mut bytes[present..]).await?;
        *payload = Payload::Bytes(bytes.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;

    use super::*;

    fn request(payloads: &[Payload]) -> Request {
        let to = "v:0".parse::<crate::arguments::Place>().unwrap();
        let op = |from: &Payload| RangeOp::Write { from: from.clone(), to: to.clone() };
        Request::Ranges { ops: payloads.iter().map(op).collect() }
    }

    #[test]
    fn what_follows_a_request_is_received_wherever_it_is_cut() {
        let content: Vec<u8> = (0..12_288).map(|n| (n / 7) as u8).collect();
        for cut in [0, 1, 4096, 5000, 12_288] {
            let mut request = request(&[Payload::Announced(4096), Payload::Announced(8192)]);
            assert_eq!(admit(&mut request, 12_288).unwrap(), 12_288);
            let mut ahead = content[..cut].to_vec();
            ahead.extend_from_slice(if cut == content.len() { b"next" } else { b"" });
            let mut rest = &content[cut..];
            block_on(receive(&mut request, &mut ahead, &mut rest)).unwrap();
            let received = [&content[..4096], &content[4096..]]
                .map(|piece| Payload::Bytes(Bytes::copy_from_slice(piece)));
            assert_eq!(request, self::request(&received));
            assert!(ahead.is_empty() || ahead == b"next", "what comes after is left alone");
        }
    }

    #[test]
    fn more_than_a_vector_takes_is_refused() {
        let two = [Payload::Announced(4096), Payload::Announced(4096)];
        let error = admit(&mut request(&two), 8191).unwrap_err();
        assert!(error.message.contains("8192 bytes") && error.message.contains("8191"), "{error}");
        let absurd = [Payload::Announced(u64::MAX), Payload::Announced(4096)];
        admit(&mut request(&absurd), 1 << 40).unwrap_err();
        admit(&mut request(&[Payload::File("x".into())]), 1 << 40).unwrap_err();
    }
}
