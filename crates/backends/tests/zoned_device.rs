//! Zoned devices of Linux keep the Device contract. `MJOLNIR_ZONED_DEVICES` names devices whose content may be
//! destroyed; `cargo xtask guest` boots a machine that has some.

use std::path::PathBuf;

use mjolnir_backends::{ZonedCreateOptions, ZonedDevice};
use mjolnir_device::contract::{Bench, all, random_history};
use mjolnir_device::{Device, ErrorKind};
use mjolnir_host::{HostRuntime, run};

fn devices() -> Vec<PathBuf> {
    let named = std::env::var("MJOLNIR_ZONED_DEVICES").expect("MJOLNIR_ZONED_DEVICES names them");
    named.split_whitespace().map(PathBuf::from).collect()
}

struct OnDevice {
    path: PathBuf,
    runtime: HostRuntime,
}

impl Bench for OnDevice {
    type Device = ZonedDevice;

    async fn fresh(&self) -> ZonedDevice {
        let options = ZonedCreateOptions { uuid: [3; 16], overwrite: true };
        ZonedDevice::create(&self.path, options, &self.runtime).await.unwrap();
        ZonedDevice::open(&self.path, false, &self.runtime).await.unwrap()
    }

    async fn reopen(&self, device: ZonedDevice) -> Option<ZonedDevice> {
        drop(device);
        Some(ZonedDevice::open(&self.path, false, &self.runtime).await.unwrap())
    }

    fn grows(&self) -> bool {
        false
    }
}

#[test]
#[ignore = "needs zoned devices that may be overwritten"]
fn zoned_devices_keep_the_contract() {
    for path in devices() {
        run(async move |runtime: HostRuntime| {
            assert!(ZonedDevice::is_one(&path), "{} is zoned", path.display());
            let bench = OnDevice { path, runtime };
            let info = bench.fresh().await.info();
            println!("{info:?}");
            all(&bench).await;
            for seed in 0..2 {
                random_history(&bench, seed, 300).await;
            }
            // One that is open is not opened or overwritten by another.
            let held = bench.fresh().await;
            let options = ZonedCreateOptions { uuid: [4; 16], overwrite: true };
            let busy = ZonedDevice::create(&bench.path, options, &bench.runtime).await;
            assert_eq!(busy.unwrap_err().kind, ErrorKind::Busy);
            assert_eq!(held.refused_writes(), 0);
        });
    }
}
