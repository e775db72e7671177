//! Turns the outcome of a request into the bytes of its reply.

use std::ops::Range;

use mjolnir_store::{Chunk, Chunks, Extent, Mapping};

use crate::execute::{Content, Outcome, Refusal, end_of};
use crate::output::Output;
use crate::protocol::{
    self, BASE_ALLOCATION_ID, Chunk as ChunkKind, Command, Errno, Request, STATE_HOLE, STATE_ZERO,
    chunk_header, command_flag, simple_reply,
};
use crate::{Disconnect, DisconnectKind, Export};

/// Queues the reply to a request, or its next piece; true if the reply is complete.
///
/// # Errors
///
/// A read failed after a part of its reply was sent, in a form that cannot report this.
pub(crate) fn push_reply(
    output: &mut Output,
    export: &Export,
    outcome: Outcome,
) -> Result<bool, Disconnect> {
    let is_last = match outcome.result {
        Ok(Content::NoReply) => false,
        Ok(Content::Data(_)) => outcome.is_last(),
        _ => true,
    };
    let Outcome { request, range, result, .. } = outcome;
    let is_begun = request.command == Command::Read as u16 && range.start > request.offset;
    let pushed = result.and_then(|content| match content {
        Content::NoReply => Ok(()),
        Content::Data(chunks) => push_data(output, export, &request, range, chunks),
        Content::Extents(extents) => push_status(output, &request, &extents),
        Content::Nothing if request.command == Command::Read as u16 && export.structured => {
            // A read of 0 bytes; a simple reply is not permitted here.
            output.push_head(&chunk_header(ChunkKind::None, true, request.cookie, 0));
            Ok(())
        }
        Content::Nothing => {
            output.push_head(&simple_reply(request.cookie, 0));
            Ok(())
        }
    });
    match pushed {
        Ok(()) => Ok(is_last),
        Err(refusal) if is_begun && is_one_run(export, &request) => Err(Disconnect::new(
            DisconnectKind::Refused,
            format!(
                "a read of {} bytes at {} failed after the client was sent a part of them: {}",
                request.length, request.offset, refusal.message
            ),
        )),
        Err(refusal) => {
            push_refusal(output, export, &request, &refusal);
            Ok(true)
        }
    }
}

/// Whether the read's data follow one header without interruption.
fn is_one_run(export: &Export, request: &Request) -> bool {
    !export.structured || request.flags & command_flag::DF != 0
}

/// Queues the reply to a failed request, with the reason if the client understands one.
pub(crate) fn push_refusal(
    output: &mut Output,
    export: &Export,
    request: &Request,
    refusal: &Refusal,
) {
    if export.structured {
        output.push_head(&protocol::error_chunk(request.cookie, refusal.errno, &refusal.message));
    } else {
        output.push_head(&simple_reply(request.cookie, refusal.errno as u32));
    }
}

/// The refusal for an answer of the store that does not fit the request.
fn misfit(what: &'static str) -> Refusal {
    Refusal::new(Errno::Io, what)
}

fn push_data(
    output: &mut Output,
    export: &Export,
    request: &Request,
    range: Range<u64>,
    chunks: Chunks,
) -> Result<(), Refusal> {
    if chunks.iter().map(Chunk::len).sum::<u64>() != range.end - range.start {
        return Err(misfit("the store returned another number of bytes than was asked for"));
    }
    let is_begun = range.start > request.offset;
    let is_all = !is_begun && range.end == end_of(request);
    if !export.structured {
        if !is_begun {
            output.push_head(&simple_reply(request.cookie, 0));
        }
        push_bytes(output, chunks);
    } else if is_one_run(export, request)
        && !(is_all && chunks.iter().all(|chunk| matches!(chunk, Chunk::Zeroes(_))))
    {
        if !is_begun {
            push_data_header(output, request, request.offset, request.length.into(), true);
        }
        push_bytes(output, chunks);
    } else {
        push_sparse(output, request, range.start, chunks);
    }
    Ok(())
}

/// Queues the bytes of chunks, zeroes included.
fn push_bytes(output: &mut Output, chunks: Chunks) {
    for chunk in chunks {
        match chunk {
            Chunk::Data(bytes) => output.push_data(bytes),
            Chunk::Zeroes(count) => output.push_zeroes(count),
        }
    }
}

/// Queues one chunk of a reply for each run of data or of zeroes, from `offset` on.
fn push_sparse(output: &mut Output, request: &Request, mut offset: u64, mut chunks: Chunks) {
    chunks.retain(|chunk| !chunk.is_empty());
    let end = end_of(request);
    let mut rest = &mut chunks[..];
    while let Some(first) = rest.first() {
        let is_data = matches!(first, Chunk::Data(_));
        let same = rest.iter().take_while(|chunk| matches!(chunk, Chunk::Data(_)) == is_data);
        let (count, run) = same.fold((0, 0), |(count, run), chunk| (count + 1, run + chunk.len()));
        let (taken, after) = std::mem::take(&mut rest).split_at_mut(count);
        let done = offset + run == end;
        if is_data {
            push_data_header(output, request, offset, run, done);
            for chunk in taken {
                if let Chunk::Data(bytes) = chunk {
                    output.push_data(std::mem::take(bytes));
                }
            }
        } else {
            let mut hole = [0; 32];
            hole[..20].copy_from_slice(&chunk_header(
                ChunkKind::OffsetHole,
                done,
                request.cookie,
                12,
            ));
            hole[20..28].copy_from_slice(&offset.to_be_bytes());
            hole[28..].copy_from_slice(&(run as u32).to_be_bytes());
            output.push_head(&hole);
        }
        offset += run;
        rest = after;
    }
}

fn push_data_header(output: &mut Output, request: &Request, offset: u64, length: u64, done: bool) {
    let mut header = [0; 28];
    // At most 32 MiB plus the offset, so it fits.
    let payload = 8 + length as u32;
    header[..20].copy_from_slice(&chunk_header(
        ChunkKind::OffsetData,
        done,
        request.cookie,
        payload,
    ));
    header[20..].copy_from_slice(&offset.to_be_bytes());
    output.push_head(&header);
}

/// Queues extents in one chunk: neighbours of one state merged, cut at the end of the request.
fn push_status(output: &mut Output, request: &Request, extents: &[Extent]) -> Result<(), Refusal> {
    let mut descriptors: Vec<(u32, u32)> = Vec::with_capacity(extents.len());
    let mut left = u64::from(request.length);
    for extent in extents {
        let length = extent.length.min(left);
        left -= length;
        let state = match extent.mapping {
            Mapping::Data => 0,
            Mapping::Hole => STATE_HOLE | STATE_ZERO,
        };
        match descriptors.last_mut() {
            _ if length == 0 => {}
            Some((last, of)) if *of == state => *last += length as u32,
            _ => descriptors.push((length as u32, state)),
        }
    }
    if request.flags & command_flag::REQ_ONE != 0 {
        descriptors.truncate(1);
    }
    if descriptors.is_empty() {
        return Err(misfit("the store returned no extents"));
    }
    let mut bytes = Vec::with_capacity(24 + 8 * descriptors.len());
    let payload = 4 + 8 * descriptors.len() as u32;
    bytes.extend_from_slice(&chunk_header(ChunkKind::BlockStatus, true, request.cookie, payload));
    bytes.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
    for (length, state) in descriptors {
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&state.to_be_bytes());
    }
    output.push_head(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use mjolnir_store::TargetInfo;
    use mjolnir_units::TreeId;

    use super::*;

    fn export(structured: bool) -> Export {
        let target =
            TargetInfo { name: "v".into(), id: TreeId(1), size: 1 << 20, read_only: false };
        Export { target, read_only: false, structured, block_status: structured }
    }

    /// Bytes queued as the reply to a request of 10 bytes.
    fn queued(structured: bool, command: Command, flags: u16, content: Content) -> u64 {
        let request = Request { flags, command: command as u16, cookie: 1, offset: 0, length: 10 };
        let mut output = Output::default();
        let outcome = Outcome { request, range: 0..10, cost: 0, result: Ok(content) };
        push_reply(&mut output, &export(structured), outcome).unwrap();
        output.bytes()
    }

    #[test]
    fn neighbouring_chunks_share_a_header() {
        let data = |length: usize| Chunk::Data(vec![1; length].into());
        for (chunks, expected) in [
            (vec![data(4), data(6)], 28 + 10),
            (vec![data(4), data(0), Chunk::Zeroes(0), data(6)], 28 + 10),
            (vec![Chunk::Zeroes(4), Chunk::Zeroes(6)], 32),
            (vec![data(4), Chunk::Zeroes(2), data(4)], 28 + 4 + 32 + 28 + 4),
        ] {
            let content = Content::Data(chunks.into());
            assert_eq!(queued(true, Command::Read, 0, content), expected);
        }
    }

    #[test]
    fn an_answer_of_another_length_becomes_an_error_and_no_broken_reply() {
        let data = |length: usize| Chunk::Data(vec![1; length].into());
        for lengths in [&[][..], &[9], &[11], &[10, 1]] {
            let chunks = || Content::Data(lengths.iter().map(|length| data(*length)).collect());
            let error = 26 + misfit_message().len() as u64;
            assert_eq!(queued(true, Command::Read, 0, chunks()), error);
            assert_eq!(queued(false, Command::Read, 0, chunks()), 16);
        }
        let chunks = Content::Data([data(10), Chunk::Zeroes(1)].into_iter().collect());
        assert_eq!(queued(false, Command::Read, 0, chunks), 16);
    }

    fn misfit_message() -> &'static str {
        "the store returned another number of bytes than was asked for"
    }

    #[test]
    fn extents_are_merged_and_cut_to_the_request() {
        let extent = |length, mapping| Extent { length, mapping };
        let (data, hole) = (Mapping::Data, Mapping::Hole);
        for (extents, flags, descriptors) in [
            (vec![extent(4, data), extent(3, data), extent(3, hole)], 0, 2),
            (vec![extent(4, data), extent(3, hole), extent(3, data)], 0, 3),
            (vec![extent(4, data), extent(3, hole)], command_flag::REQ_ONE, 1),
            (vec![extent(1 << 40, hole), extent(1, data)], 0, 1),
            (vec![extent(0, data), extent(4, hole)], 0, 1),
        ] {
            let bytes = queued(true, Command::BlockStatus, flags, Content::Extents(extents));
            assert_eq!(bytes, 24 + 8 * descriptors);
        }
        let none = queued(true, Command::BlockStatus, 0, Content::Extents(vec![]));
        assert_eq!(none, 26 + "the store returned no extents".len() as u64);
    }
}
