//! Requests as plain system calls on the calling thread.

use std::io::{self, IoSlice};

use mjolnir_device::AlignedBuf;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, pread, pwritev, retry_on_intr};

use super::{Request, Target, remaining, total};

/// Carries out one request, however many system calls it takes.
pub(super) fn run(target: &Target, request: Request) -> io::Result<Option<AlignedBuf>> {
    let file = &target.file;
    match request {
        Request::Write { offset, pieces } => {
            let (mut done, total) = (0, total(&pieces));
            while done < total {
                let slices: Vec<IoSlice<'_>> = remaining(&pieces, done).map(IoSlice::new).collect();
                match retry_on_intr(|| pwritev(file, &slices, offset + done as u64))? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    written => done += written,
                }
            }
            Ok(None)
        }
        Request::Read { offset, mut buffer } => {
            let mut done = 0;
            while done < buffer.len() {
                let rest = &mut buffer.as_mut()[done..];
                match retry_on_intr(|| pread(file, &mut *rest, offset + done as u64))? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    read => done += read,
                }
            }
            Ok(Some(buffer))
        }
        Request::Sync => target.sync().map(|()| None),
        Request::Punch { offset, length } => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            retry_on_intr(|| rustix::fs::fallocate(file, flags, offset, length))
                .map_err(|error: Errno| io::Error::from(error))?;
            Ok(None)
        }
    }
}
