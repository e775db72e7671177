//! Implements the Store contract's layers above bytes, and [`Collects`].

use mjolnir_device::{Device, Runtime};
use mjolnir_store::report::{
    BadTried, CheckReport, Collected, Growth, RecoveryReport, ScrubReport, Stats,
};
use mjolnir_store::{
    CollectOrder, Collects, DiffPage, Error, Maintenance, Pressure, TargetInfo, Volumes,
};

use crate::drive::Engine;

impl<D: Device, R: Runtime> Volumes for Engine<D, R> {
    async fn create_volume(&self, name: &str, bytes: u64) -> Result<TargetInfo, Error> {
        Engine::create_volume(self, name, bytes).await
    }

    async fn delete_volume(&self, name: &str, with_snapshots: bool) -> Result<(), Error> {
        Engine::delete_volume(self, name, with_snapshots).await
    }

    async fn resize_volume(
        &self,
        name: &str,
        bytes: u64,
        shrink: bool,
    ) -> Result<TargetInfo, Error> {
        Engine::resize_volume(self, name, bytes, shrink).await
    }

    async fn rename_volume(&self, name: &str, new: &str) -> Result<TargetInfo, Error> {
        Engine::rename_volume(self, name, new).await
    }

    async fn clone_volume(&self, source: &str, new: &str) -> Result<TargetInfo, Error> {
        Engine::clone_volume(self, source, new).await
    }

    async fn create_snapshot(&self, volume: &str, name: &str) -> Result<TargetInfo, Error> {
        Engine::create_snapshot(self, volume, name).await
    }

    async fn create_snapshots(
        &self,
        snapshots: &[(String, String)],
    ) -> Result<Vec<TargetInfo>, Error> {
        Engine::create_snapshots(self, snapshots).await
    }

    async fn delete_snapshot(&self, volume: &str, name: &str) -> Result<(), Error> {
        Engine::delete_snapshot(self, volume, name).await
    }

    async fn restore_snapshot(&self, volume: &str, name: &str) -> Result<TargetInfo, Error> {
        Engine::restore_snapshot(self, volume, name).await
    }

    async fn diff(&self, old: &str, new: &str, from: u64, limit: usize) -> Result<DiffPage, Error> {
        Engine::diff(self, old, new, from, limit).await
    }

    async fn mapped_from(&self, name: &str, from: u64) -> Result<u64, Error> {
        Engine::mapped_from(self, name, from).await
    }
}

impl<D: Device, R: Runtime> Maintenance for Engine<D, R> {
    fn stats(&self) -> Stats {
        Engine::stats(self)
    }

    fn recovery(&self) -> RecoveryReport {
        Engine::recovery(self)
    }

    async fn check(&self, progress: &dyn Fn(f64)) -> Result<CheckReport, Error> {
        self.check_telling(progress).await
    }

    async fn scrub(&self, progress: &dyn Fn(f64)) -> Result<ScrubReport, Error> {
        Engine::scrub(self, progress).await
    }

    async fn retry_bad(&self) -> Result<BadTried, Error> {
        self.retry_bad_segments().await
    }

    async fn reclaim(&self) -> Result<Collected, Error> {
        self.collect_telling().await
    }

    async fn checkpoint(&self) -> Result<(), Error> {
        Engine::checkpoint(self).await
    }

    async fn grow(&self, bytes: u64) -> Result<Growth, Error> {
        Engine::grow(self, bytes).await
    }

    async fn close(&self) -> Result<(), Error> {
        Engine::close(self).await
    }
}

impl<D: Device, R: Runtime> Collects for Engine<D, R> {
    fn pressure(&self) -> Pressure {
        self.state().collect_pressure()
    }

    async fn order(&self, order: CollectOrder) -> Result<Pressure, Error> {
        self.hold_back(order == CollectOrder::Hold);
        if let CollectOrder::Collect { free_bytes } = order {
            self.collect_until_free(free_bytes).await?;
        }
        Ok(self.state().collect_pressure())
    }
}
