//! Growing a store onto a larger device.

use mjolnir_device::{Device, Runtime};
use mjolnir_store::report::Growth;
use mjolnir_store::{Error, ErrorKind};
use mjolnir_units::{BLOCK_SIZE, ByteSize};

use crate::drive::Engine;
use crate::fault;
use crate::space::check_segments;

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Uses a device (or file) that has grown, or enlarges the file: to `bytes` in all.
    ///
    /// After an interrupted growth, a repeated call does the rest, and reports all zones added. If
    /// nothing is left to do, it adds nothing, which is no error.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if `bytes` is less than the store has or more than it can
    /// have; otherwise the device's error.
    pub async fn grow(&self, bytes: u64) -> Result<Growth, Error> {
        self.state().check_health()?;
        let info = self.device().info();
        let zone_bytes = info.zone_blocks * BLOCK_SIZE;
        // Checked first: once the device has the zones, the store has them.
        check_segments(&info, bytes / zone_bytes)?;
        if bytes < info.bytes() {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{}: {} are less than the {} that the store has, and a store does not shrink",
                    info.name,
                    ByteSize(bytes),
                    ByteSize(info.bytes())
                ),
            ));
        }
        let zones = self
            .device()
            .grow(bytes)
            .await
            .map_err(|error| fault::device("growing the device", error))?;
        {
            let mut state = self.state();
            state.info = self.device().info();
            state.space.grow(zones);
        }
        self.inner.reset_wanted.notify(1);
        self.notify();
        self.checkpoint().await?;
        // Set in the step that returns the answer: if the call is cut short, the next one reports
        // the zones added.
        let mut state = self.state();
        let told = std::mem::replace(&mut state.space.told_zones, zones);
        let added = u64::from(zones.saturating_sub(told)) * zone_bytes;
        Ok(Growth { bytes: u64::from(zones) * zone_bytes, added })
    }
}
