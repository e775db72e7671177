//! The zoned backend on an emulated device.

use bytes::Bytes;
use mjolnir_device::contract::{Bench, all, random_history};
use mjolnir_device::{Device, DeviceError, ErrorKind};
use mjolnir_host::{HostRuntime, run};
use mjolnir_units::ZoneId;

use super::emulated::Emulated;
use super::kernel::{Command, Condition, Kernel, Limits};
use super::{ZonedCreateOptions, ZonedDevice, create_on, open_on};

const BLOCK: u64 = 4096;
const LENGTH: u64 = 64 * BLOCK;
const CAPACITY: u64 = 40 * BLOCK;
const TIGHT: Limits = Limits { open: Some(6), active: Some(8) };

fn emulated(limits: Limits) -> Emulated {
    Emulated::new(24, LENGTH, CAPACITY, 2, limits)
}

fn options() -> ZonedCreateOptions {
    ZonedCreateOptions { uuid: [5; 16], overwrite: false }
}

async fn opened(disk: &Emulated, runtime: &HostRuntime) -> ZonedDevice<Emulated> {
    open_on(disk.clone(), "zoned", false, runtime).await.unwrap()
}

async fn fresh(limits: Limits, runtime: &HostRuntime) -> (Emulated, ZonedDevice<Emulated>) {
    let disk = emulated(limits);
    create_on(disk.clone(), "zoned", options()).await.unwrap();
    let device = opened(&disk, runtime).await;
    (disk, device)
}

fn block(fill: u8) -> Vec<Bytes> {
    vec![Bytes::from(vec![fill; BLOCK as usize])]
}

fn blocks(count: u64) -> Vec<Bytes> {
    vec![Bytes::from(vec![1; (count * BLOCK) as usize])]
}

async fn append(device: &ZonedDevice<Emulated>, zone: u32, at: u64, data: Vec<Bytes>) {
    let at = ZoneId(zone).start(40).plus(at);
    assert_eq!(device.append(at, data).await, Ok(at));
}

struct Zoned {
    limits: Limits,
    runtime: HostRuntime,
    last: std::cell::RefCell<Option<Emulated>>,
}

impl Zoned {
    fn check(&self) {
        if let Some(disk) = self.last.borrow().as_ref() {
            disk.with(|media| assert_eq!(media.refused, [""; 0]));
        }
    }
}

impl Bench for Zoned {
    type Device = ZonedDevice<Emulated>;

    async fn fresh(&self) -> Self::Device {
        self.check();
        let (disk, device) = fresh(self.limits, &self.runtime).await;
        *self.last.borrow_mut() = Some(disk);
        device
    }

    async fn reopen(&self, device: Self::Device) -> Option<Self::Device> {
        drop(device);
        let disk = self.last.borrow().clone().unwrap();
        Some(opened(&disk, &self.runtime).await)
    }

    fn grows(&self) -> bool {
        false
    }
}

#[test]
fn it_keeps_the_contract_and_breaks_no_rule_of_zones() {
    for limits in [Limits::default(), TIGHT] {
        run(async move |runtime: HostRuntime| {
            let bench = Zoned { limits, runtime, last: Default::default() };
            all(&bench).await;
            for seed in 0..6 {
                random_history(&bench, seed, 600).await;
            }
            bench.check();
        });
    }
}

#[test]
fn roots_take_turns_in_two_zones_and_the_newest_counts() {
    run(async |runtime: HostRuntime| {
        let (disk, mut device) = fresh(TIGHT, &runtime).await;
        for number in 0..150u8 {
            device.write_root(Bytes::from(vec![number; 100])).await.unwrap();
            if number % 7 == 0 {
                drop(device);
                device = opened(&disk, &runtime).await;
                let root = device.read_root().await.unwrap().unwrap();
                assert_eq!(root, vec![number; 100]);
            }
        }
        disk.with(|media| {
            assert_eq!(media.refused, [""; 0]);
            assert!(media.commands.iter().filter(|did| did.0 == Command::Reset).count() >= 5);
        });
    });
}

#[test]
fn a_root_goes_to_the_other_zone_if_its_own_fails() {
    run(async |runtime: HostRuntime| {
        for condition in [Condition::ReadOnly, Condition::Offline] {
            let (disk, device) = fresh(TIGHT, &runtime).await;
            device.write_root(Bytes::from_static(b"first")).await.unwrap();
            // The pair is behind the two conventional zones.
            disk.with(|media| media.turning.push((2, condition)));
            device.write_root(Bytes::from_static(b"second")).await.unwrap();
            device.write_root(Bytes::from_static(b"third")).await.unwrap();
            drop(device);
            let device = opened(&disk, &runtime).await;
            assert_eq!(device.read_root().await.unwrap().unwrap(), "third");
            device.write_root(Bytes::from_static(b"fourth")).await.unwrap();
            disk.with(|media| media.turning.push((3, Condition::ReadOnly)));
            let refused = device.write_root(Bytes::from_static(b"fifth")).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Io);
            drop(device);
            let device = opened(&disk, &runtime).await;
            assert_eq!(device.read_root().await.unwrap().unwrap(), "fourth");
        }
    });
}

#[test]
fn the_newest_root_is_found_in_a_zone_that_a_crash_or_the_drive_ended() {
    run(async |runtime: HostRuntime| {
        for how in 0..4 {
            let (disk, device) = fresh(TIGHT, &runtime).await;
            for root in [&b"first"[..], b"second"] {
                device.write_root(Bytes::from(root.to_vec())).await.unwrap();
            }
            drop(device);
            disk.with(|media| match how {
                // A root of which a part was written.
                0 => media.tear(2, 512),
                1 => media.tear(2, 4096),
                // The drive has finished the zone, or made it read-only.
                2 => (media.zone(2).condition, media.zone(2).written) = (Condition::Full, CAPACITY),
                _ => media.zone(2).condition = Condition::ReadOnly,
            });
            for root in [&b"third"[..], b"fourth"] {
                let device = opened(&disk, &runtime).await;
                let before = if root == b"third" { &b"second"[..] } else { b"third" };
                assert_eq!(device.read_root().await.unwrap().unwrap(), before, "{how}");
                device.write_root(Bytes::from(root.to_vec())).await.unwrap();
            }
            let device = opened(&disk, &runtime).await;
            assert_eq!(device.read_root().await.unwrap().unwrap(), "fourth", "{how}");
        }
    });
}

#[test]
fn a_root_that_may_be_older_is_in_doubt_or_refused() {
    run(async |runtime: HostRuntime| {
        // The root has moved on to the second zone, from one that is full, or from one that failed.
        for is_full in [true, false] {
            let (disk, device) = fresh(TIGHT, &runtime).await;
            for number in 0..10u8 {
                device.write_root(Bytes::from(vec![number])).await.unwrap();
            }
            match is_full {
                true => {
                    for number in 10..60u8 {
                        device.write_root(Bytes::from(vec![number])).await.unwrap();
                    }
                }
                false => {
                    disk.with(|media| media.turning.push((2, Condition::Closed)));
                    device.write_root(Bytes::from(vec![10])).await.unwrap();
                }
            }
            assert!(!mjolnir_device::Abilities::is_root_in_doubt(&device));
            drop(device);
            disk.with(|media| media.zone(3).condition = Condition::Offline);
            match open_on(disk.clone(), "zoned", false, &runtime).await {
                Err(error) => assert!(is_full, "{error}"),
                Ok(device) => {
                    assert!(!is_full);
                    assert!(mjolnir_device::Abilities::is_root_in_doubt(&device));
                }
            }
        }
    });
}

#[test]
fn a_zone_that_turns_read_only_fails_what_waits_behind_it_and_nothing_else() {
    run(async |runtime: HostRuntime| {
        let (disk, device) = fresh(TIGHT, &runtime).await;
        for zone in [0, 1] {
            device.reset(ZoneId(zone)).await.unwrap();
            append(&device, zone, 0, block(7)).await;
        }
        disk.with(|media| media.turning.push((4, Condition::ReadOnly)));
        let waiting: Vec<_> =
            (1..6).map(|at| device.append(ZoneId(0).start(40).plus(at), block(8))).collect();
        append(&device, 1, 1, block(9)).await;
        for write in waiting {
            let error = write.await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Io);
            assert!(error.context.contains("the zone is read-only now"), "{error}");
        }
        let again = device.append_again(ZoneId(0).start(40).plus(1), block(8)).await;
        assert_eq!(again.unwrap_err().kind, ErrorKind::Invalid, "zones take blocks in order");
        device.seal(ZoneId(0)).await.unwrap();
        assert_eq!(device.reset(ZoneId(0)).await.unwrap_err().kind, ErrorKind::Io);
        let buffer = mjolnir_device::AlignedBuf::zeroed(4096);
        let read = device.read(ZoneId(0).start(40), buffer).await.unwrap();
        assert_eq!(read.as_ref(), &[7; 4096]);
        disk.with(|media| media.zone(4).condition = Condition::Offline);
        let buffer = mjolnir_device::AlignedBuf::zeroed(4096);
        let lost = device.read(ZoneId(0).start(40), buffer).await.unwrap_err();
        assert_eq!(lost.kind, ErrorKind::Unreadable);
        assert_eq!(device.refused_writes(), 1);
        // It takes no place of others. And one may turn so after it was sealed.
        disk.with(|media| media.zone(5).condition = Condition::ReadOnly);
        device.seal(ZoneId(1)).await.unwrap();
        for zone in 2..16 {
            device.reset(ZoneId(zone)).await.unwrap();
            append(&device, zone, 0, block(1)).await;
            device.seal(ZoneId(zone)).await.unwrap();
        }
        disk.with(|media| assert_eq!(media.refused, [""; 0]));
    });
}

#[test]
fn zones_are_finished_when_nearly_full_or_when_others_need_their_place() {
    run(async |runtime: HostRuntime| {
        let (disk, device) = fresh(TIGHT, &runtime).await;
        let finished = || {
            let is_finish = |did: &&(Command, usize)| did.0 == Command::Finish;
            disk.with(|media| {
                media.commands.iter().filter(is_finish).map(|did| did.1).collect::<Vec<_>>()
            })
        };
        // Of 40 blocks: nearly full, and full.
        for (zone, count) in [(0, 36), (1, 40)] {
            device.reset(ZoneId(zone)).await.unwrap();
            for at in (0..count).step_by(4) {
                append(&device, zone, at, blocks(4)).await;
            }
            device.seal(ZoneId(zone)).await.unwrap();
        }
        assert_eq!(finished(), [4], "a full one needs it not");
        // Six may be active: those that are nearly empty are closed, as long as there is room.
        for zone in 2..8 {
            device.reset(ZoneId(zone)).await.unwrap();
            append(&device, zone, 0, blocks(1 + u64::from(zone % 5))).await;
            device.seal(ZoneId(zone)).await.unwrap();
        }
        assert_eq!(finished(), [4]);
        for zone in 8..10 {
            device.reset(ZoneId(zone)).await.unwrap();
            append(&device, zone, 0, block(1)).await;
        }
        assert_eq!(finished(), [4, 8, 7], "the fullest go first");
        // So it is after a restart, with other zones left as they were.
        drop(device);
        let device = opened(&disk, &runtime).await;
        for zone in 10..16 {
            device.reset(ZoneId(zone)).await.unwrap();
            append(&device, zone, 0, block(1)).await;
            device.seal(ZoneId(zone)).await.unwrap();
        }
        disk.with(|media| assert_eq!(media.refused, [""; 0]));
    });
}

#[test]
fn what_is_no_store_or_holds_something_is_refused_by_name() {
    run(async |runtime: HostRuntime| {
        let disk = emulated(TIGHT);
        let said =
            |result: Result<ZonedDevice<Emulated>, DeviceError>| result.err().unwrap().to_string();
        let none = said(open_on(disk.clone(), "/dev/z", false, &runtime).await);
        assert!(none.contains("/dev/z: it is not a Mjolnir store"), "{none}");
        let start = disk.with(|media| media.zone(9).start);
        disk.write(start, block(1)).await.unwrap();
        let full = create_on(disk.clone(), "/dev/z", options()).await.unwrap_err();
        assert!(full.context.contains(&format!("the zone at byte {start} is not empty")), "{full}");
        let overwrite = ZonedCreateOptions { overwrite: true, ..options() };
        create_on(disk.clone(), "/dev/z", overwrite).await.unwrap();
        let again = create_on(disk.clone(), "/dev/z", options()).await.unwrap_err();
        assert!(again.context.contains("it holds a Mjolnir store"), "{again}");
        // Another tool resets the root's zones.
        for zone in [2, 3] {
            disk.with(|media| media.empty(zone));
        }
        let none = said(open_on(disk.clone(), "/dev/z", false, &runtime).await);
        assert!(none.contains("it is not a Mjolnir store"), "{none}");
    });
}
