//! Finds the frames of a Mjolnir recording, and the remains of one that was cut off.

use std::io::{self, Read};

use crate::VolumeId;
use crate::trace::binary::own::{
    Entry, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameDecoder, FrameHeader, FrameKind, Names,
};
use crate::trace::fault::{Fault, Malformed, Place};
use crate::trace::report::ReadReport;
use crate::trace::volumes::Volumes;
use crate::trace::window::Window;

/// Where in a recording the reader is.
#[derive(Default)]
pub(super) struct Recording {
    frame: FrameDecoder,
    /// Where that frame began.
    frame_at: u64,
    /// Our volumes by the recording's numbers.
    volumes: Vec<Option<VolumeId>>,
    /// Requests in the frames that were read, as their headers count them.
    counted: u64,
    ended: bool,
    /// Whether the last frame was damaged, so that numbers need not fit.
    lost: bool,
}

/// What a step came to.
pub(super) enum Step {
    Entry { entry: Entry, volume: VolumeId, place: Place },
    Nothing,
    Bad(Place, Malformed),
    End,
}

impl Recording {
    #[inline]
    pub(super) fn step<R: Read>(
        &mut self,
        window: &mut Window<R>,
        volumes: &mut Volumes,
        report: &mut ReadReport,
    ) -> io::Result<Step> {
        let place = Place::Byte(self.frame_at);
        match self.frame.next_entry() {
            Ok(Some(entry)) => {
                report.records += 1;
                Ok(match self.volume(entry.volume, volumes) {
                    Ok(volume) => Step::Entry { entry, volume, place },
                    Err(bad) => Step::Bad(place, bad),
                })
            }
            Ok(None) => self.frame(window, volumes, report),
            Err(bad) => Ok(Step::Bad(place, bad)),
        }
    }

    /// Our volume for the recording's number.
    #[inline]
    fn volume(&mut self, number: u32, volumes: &mut Volumes) -> Result<VolumeId, Malformed> {
        if let Some(Some(volume)) = self.volumes.get(number as usize) {
            return Ok(*volume);
        }
        self.name(number, format!("volume {number}").as_bytes(), volumes)
    }

    fn name(
        &mut self,
        number: u32,
        name: &[u8],
        volumes: &mut Volumes,
    ) -> Result<VolumeId, Malformed> {
        let index = number as usize;
        if index >= Volumes::MAX {
            return Err(Malformed::new(
                Fault::Volume,
                format!("volume number {number} is above the 65,535 that a recording may have"),
            ));
        }
        let volume = volumes.intern(name)?;
        if self.volumes.len() <= index {
            self.volumes.resize(index + 1, None);
        }
        self.volumes[index] = Some(volume);
        Ok(volume)
    }

    fn frame<R: Read>(
        &mut self,
        window: &mut Window<R>,
        volumes: &mut Volumes,
        report: &mut ReadReport,
    ) -> io::Result<Step> {
        self.frame_at = window.position();
        let place = Place::Byte(self.frame_at);
        let visible = window.fill(FRAME_HEADER_BYTES)?;
        if visible.is_empty() {
            if !self.ended {
                self.cut(0, report);
            }
            return Ok(Step::End);
        }
        if self.ended {
            let what = "there is more after the recording's end";
            pass_rest(window)?;
            return Ok(Step::Bad(place, Malformed::new(Fault::Damaged, what)));
        }
        let header = match visible.first_chunk() {
            Some(bytes) => FrameHeader::from_bytes(bytes),
            None => {
                self.cut(visible.len() as u64, report);
                return Ok(Step::End);
            }
        };
        let header = match header {
            Ok(header) => header,
            Err(bad) if visible.iter().all(|byte| *byte == 0) => {
                // A file system may leave zeroes where a crash cut the last write.
                return match only_zeroes_follow(window)? {
                    Some(count) => {
                        self.cut(count, report);
                        Ok(Step::End)
                    }
                    None => Ok(Step::Bad(place, bad)),
                };
            }
            Err(bad) => {
                self.lost = true;
                find_frame(window)?;
                return Ok(Step::Bad(place, bad));
            }
        };
        let bytes = FRAME_HEADER_BYTES + header.payload_bytes;
        let visible = window.fill(bytes + 1)?;
        let Some(payload) = visible.get(FRAME_HEADER_BYTES..bytes) else {
            self.cut(visible.len() as u64, report);
            return Ok(Step::End);
        };
        if !header.holds(payload) {
            if visible.len() == bytes {
                self.cut(bytes as u64, report);
                return Ok(Step::End);
            }
            self.lost = true;
            window.consume(FRAME_HEADER_BYTES);
            find_frame(window)?;
            let what =
                format!("the checksum of a frame of {} entries does not match", header.entries);
            return Ok(Step::Bad(place, Malformed::new(Fault::Damaged, what)));
        }
        let step = self.accept(&header, payload, volumes, place);
        window.consume(bytes);
        Ok(step)
    }

    fn accept(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        volumes: &mut Volumes,
        place: Place,
    ) -> Step {
        let gap = header.requests_before != self.counted && !self.lost;
        let what = format!(
            "{} requests should come before this frame, and {} do",
            header.requests_before, self.counted
        );
        self.counted = header.requests_before;
        self.lost = false;
        match header.kind {
            FrameKind::Requests => {
                self.counted += u64::from(header.entries);
                self.frame.begin(payload, header.entries);
            }
            FrameKind::Names => {
                let mut names = Names::new(payload, header.entries);
                loop {
                    match names.next_name() {
                        Ok(None) => break,
                        Ok(Some((number, name))) => {
                            if let Err(bad) = self.name(number, name, volumes) {
                                return Step::Bad(place, bad);
                            }
                        }
                        Err(bad) => return Step::Bad(place, bad),
                    }
                }
            }
            FrameKind::End => self.ended = true,
        }
        if gap { Step::Bad(place, Malformed::new(Fault::Damaged, what)) } else { Step::Nothing }
    }

    fn cut(&self, bytes: u64, report: &mut ReadReport) {
        report.cut = true;
        report.note(format!(
            "the recording is cut: it has no closing mark (a crash, or it is still being written). \
             All whole frames were read; {bytes} bytes after the last one are lost"
        ));
    }
}

fn pass_rest<R: Read>(window: &mut Window<R>) -> io::Result<()> {
    loop {
        let count = window.fill(1)?.len();
        if count == 0 {
            return Ok(());
        }
        window.consume(count);
    }
}

/// How many zeroes there are up to the end; `None` if something else follows, where the window
/// then begins.
fn only_zeroes_follow<R: Read>(window: &mut Window<R>) -> io::Result<Option<u64>> {
    let mut count = 0;
    loop {
        let visible = window.fill(1)?;
        let zeroes = visible.iter().take_while(|byte| **byte == 0).count();
        let (is_end, all) = (visible.is_empty(), zeroes == visible.len());
        window.consume(zeroes);
        count += zeroes as u64;
        if is_end {
            return Ok(Some(count));
        }
        if !all {
            return Ok(None);
        }
    }
}

/// Moves the window to the next whole frame header after its beginning, or to the end.
fn find_frame<R: Read>(window: &mut Window<R>) -> io::Result<()> {
    window.consume(1);
    loop {
        let visible = window.fill(FRAME_HEADER_BYTES)?;
        if visible.len() < FRAME_HEADER_BYTES {
            // What is left is a frame that was cut, or nothing.
            let keep = memchr::memmem::find(visible, &FRAME_MAGIC).unwrap_or(visible.len());
            window.consume(keep);
            return Ok(());
        }
        match memchr::memmem::find(visible, &FRAME_MAGIC) {
            Some(at) => {
                window.consume(at);
                let visible = window.fill(FRAME_HEADER_BYTES)?;
                match visible.first_chunk() {
                    Some(bytes) if FrameHeader::from_bytes(bytes).is_err() => window.consume(1),
                    _ => return Ok(()),
                }
            }
            None => {
                let count = visible.len() - (FRAME_MAGIC.len() - 1);
                window.consume(count);
            }
        }
    }
}
