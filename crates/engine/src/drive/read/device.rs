//! Device reads; their errors are counted and recorded.

use mjolnir_device::{AlignedBuf, Device, DeviceError, ErrorKind, Runtime};
use mjolnir_store::report::{ReadError, ReadErrorKind, ReadPurpose};
use mjolnir_units::{BLOCK_SIZE, Pba};

use crate::drive::engine::Engine;
use crate::drive::outage::Lack;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Reads blocks from the device. Once a store has its map, all reads go through here.
    pub(crate) fn read_device(
        &self,
        purpose: ReadPurpose,
        at: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        let length = buffer.len();
        let blocks = length as u64 / BLOCK_SIZE;
        let read = self.device().read(at, buffer);
        let engine = self.clone();
        async move {
            let mut read = read.await;
            while let Err(error) = &read
                && error.kind == ErrorKind::Gone
                && engine.state().is_serving
            {
                engine.begin_outage(Lack::Everything, error);
                if engine.outlast(true).await.is_err() {
                    break;
                }
                read = engine.device().read(at, AlignedBuf::zeroed(length)).await;
            }
            match &read {
                Ok(_) => engine.state().counters.device_read_blocks += blocks,
                Err(error) => {
                    let kind = ReadErrorKind::Failed;
                    engine.note_read_error(kind, purpose, at, blocks, error.to_string());
                }
            }
            read
        }
    }

    /// Records a block whose content is not the data written there.
    pub(crate) fn note_mismatch(&self, purpose: ReadPurpose, at: Pba, message: impl Into<String>) {
        self.note_read_error(ReadErrorKind::Mismatch, purpose, at, 1, message.into());
    }

    pub(crate) fn note_read_error(
        &self,
        kind: ReadErrorKind,
        purpose: ReadPurpose,
        at: Pba,
        blocks: u64,
        message: String,
    ) {
        let at_ms = self.runtime().now().since(self.inner.opened_at).as_millis() as u64;
        let mut state = self.state();
        let segment = at.zone(state.info.zone_blocks).0;
        let block = at.0;
        state.read_errors.note(ReadError { kind, purpose, block, blocks, segment, at_ms, message });
    }
}
