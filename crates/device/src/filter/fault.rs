//! A device that fails, by script or by chance.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use mjolnir_units::{BLOCK_BYTES, Pba, ZoneId};
use rand_core::SeedableRng;
use rand_pcg::Pcg32;

use super::Verb;
use crate::chance::{below, one_in};
use crate::{Abilities, AlignedBuf, Device, DeviceError, DeviceInfo, ErrorKind};

/// How often requests fail by chance: once in so many; 0 for never.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultRates {
    /// Appends that fail with [`ErrorKind::Io`].
    pub append: u64,
    /// Appends that fail with [`ErrorKind::Io`], of which each block has landed or not, and some
    /// blocks of payload (all but the first) are [`Damage::Unreadable`] from then on.
    pub bad_place: u64,
    /// Appends that fail with [`ErrorKind::NoSpace`].
    pub no_space: u64,
    /// Reads that fail, this time only: those of even number with [`ErrorKind::Unreadable`], the others with
    /// [`ErrorKind::Io`].
    pub read: u64,
    /// Reads that return a block with one bit inverted, this time only.
    pub flip: u64,
    /// Flushes that fail with [`ErrorKind::Io`].
    pub flush: u64,
    /// Seals, resets, releases and writes of the root that fail with [`ErrorKind::Io`].
    pub zones: u64,
    /// Any other request that fails with [`ErrorKind::Io`].
    pub other: u64,
}

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Reads that touch it fail with [`ErrorKind::Unreadable`].
    Unreadable,
    /// Reads that touch it fail with [`ErrorKind::Io`], which says nothing of the medium.
    Failing,
    /// Reads return it with this bit inverted (0 is the lowest bit of the first byte).
    Flipped(u32),
    /// Reads return zeroes in its place.
    Overwritten,
}

/// Passes requests on, and makes them fail as its [`FaultControl`] says.
///
/// A request that fails has reached the medium or not, as with real faults. An append that fails
/// keeps its claim of addresses; its blocks then hold its data or zeroes.
pub struct Fault<D> {
    inner: D,
    control: FaultControl,
}

/// Tells a [`Fault`] what to do, also while it is in use; clones steer the same device.
#[derive(Clone)]
pub struct FaultControl {
    plan: Rc<RefCell<Plan>>,
}

struct Plan {
    /// Requests made so far, by verb.
    counts: BTreeMap<Verb, u64>,
    script: Vec<Scripted>,
    outages: BTreeMap<Verb, ErrorKind>,
    damage: BTreeMap<Pba, Damage>,
    /// Zones of which all appends fail.
    worn_out: BTreeSet<ZoneId>,
    /// Zones of which all resets fail, too.
    read_only: BTreeSet<ZoneId>,
    /// How many zones may turn read-only; `None` for a device whose zones take blocks in any order.
    read_only_max: Option<usize>,
    /// Zones of which an append failed since the last reset, on a device whose zones take blocks in order.
    ended: BTreeSet<ZoneId>,
    rates: FaultRates,
    chance: Pcg32,
    faults: u64,
}

struct Scripted {
    verb: Verb,
    /// Fails when the count of the verb gets here.
    at: u64,
    error: ErrorKind,
    landed: bool,
}

/// A fault that befalls one request.
#[derive(Clone, Copy)]
struct Mishap {
    error: ErrorKind,
    landed: bool,
    /// Each block of an append has a fate of its own.
    in_parts: bool,
}

impl FaultControl {
    /// The `nth` request of that kind from now on (1 is the next) fails with `error`. If it has
    /// `landed`, it reached the medium all the same.
    pub fn fail(&self, verb: Verb, nth: u64, error: ErrorKind, landed: bool) {
        assert!(nth > 0, "requests are counted from 1");
        let mut plan = self.plan.borrow_mut();
        let at = plan.counts.get(&verb).copied().unwrap_or(0) + nth;
        plan.script.push(Scripted { verb, at, error, landed });
    }

    /// From now on each request of that kind fails with `error`, before it reaches the medium; none ends it.
    pub fn fail_all(&self, verb: Verb, error: Option<ErrorKind>) {
        let outages = &mut self.plan.borrow_mut().outages;
        match error {
            Some(error) => outages.insert(verb, error),
            None => outages.remove(&verb),
        };
    }

    /// From now on each append to this zone fails with [`ErrorKind::Io`], before it reaches the medium, or none does
    /// for that reason.
    pub fn wear_out(&self, zone: ZoneId, fails: bool) {
        let worn_out = &mut self.plan.borrow_mut().worn_out;
        match fails {
            true => worn_out.insert(zone),
            false => worn_out.remove(&zone),
        };
    }

    /// The device is a zoned one: after an append that failed, all others to its zone do, until a reset. One
    /// failure in four turns the zone read-only for good, for at most so many zones.
    pub fn in_order(&self, read_only_max: usize) {
        self.plan.borrow_mut().read_only_max = Some(read_only_max);
    }

    /// A zone turns read-only: appends to it and its resets fail from now on.
    pub fn turn_read_only(&self, zone: ZoneId) {
        self.plan.borrow_mut().read_only.insert(zone);
    }

    /// The zones that are read-only.
    pub fn read_only(&self) -> Vec<ZoneId> {
        self.plan.borrow().read_only.iter().copied().collect()
    }

    /// Damages a block, until its zone is reset.
    pub fn damage(&self, pba: Pba, damage: Damage) {
        if let Damage::Flipped(bit) = damage {
            assert!((bit as usize) < BLOCK_BYTES * 8, "a block has no bit {bit}");
        }
        self.plan.borrow_mut().damage.insert(pba, damage);
    }

    /// Repairs a block.
    pub fn repair(&self, pba: Pba) {
        self.plan.borrow_mut().damage.remove(&pba);
    }

    /// From now on requests fail by chance, drawn from `seed`; all rates 0 ends it.
    pub fn by_chance(&self, seed: u64, rates: FaultRates) {
        let mut plan = self.plan.borrow_mut();
        (plan.chance, plan.rates) = (Pcg32::seed_from_u64(seed), rates);
    }

    /// Requests of that kind made so far, failed ones included.
    pub fn count(&self, verb: Verb) -> u64 {
        self.plan.borrow().counts.get(&verb).copied().unwrap_or(0)
    }

    /// Faults so far, so that a test can tell that there were any. A damaged block counts each
    /// time it is met.
    pub fn faults(&self) -> u64 {
        self.plan.borrow().faults
    }

    /// Counts a request and says what befalls it.
    fn meet(&self, verb: Verb) -> Option<Mishap> {
        let plan = &mut *self.plan.borrow_mut();
        let count = plan.counts.entry(verb).or_insert(0);
        *count += 1;
        let outage = plan.outages.get(&verb);
        let mishap_of = |error, landed| Mishap { error, landed, in_parts: false };
        let mut mishap = outage.map(|error| mishap_of(*error, false));
        if let Some(at) = plan.script.iter().position(|s| s.verb == verb && s.at == *count) {
            let Scripted { error, landed, .. } = plan.script.swap_remove(at);
            mishap = Some(mishap_of(error, landed));
        }
        let rates = match verb {
            Verb::Append => {
                [(plan.rates.append, ErrorKind::Io), (plan.rates.no_space, ErrorKind::NoSpace)]
            }
            Verb::Read => {
                let kinds = [ErrorKind::Unreadable, ErrorKind::Io];
                [(plan.rates.read, kinds[(*count % 2) as usize]), (0, ErrorKind::Io)]
            }
            Verb::Flush => [(plan.rates.flush, ErrorKind::Io), (0, ErrorKind::Io)],
            Verb::Seal | Verb::Reset | Verb::Release | Verb::WriteRoot => {
                [(plan.rates.other, ErrorKind::Io), (plan.rates.zones, ErrorKind::Io)]
            }
            _ => [(plan.rates.other, ErrorKind::Io), (0, ErrorKind::Io)],
        };
        for (rate, error) in rates {
            if one_in(&mut plan.chance, rate) && mishap.is_none() {
                mishap = Some(mishap_of(error, one_in(&mut plan.chance, 2)));
            }
        }
        if verb == Verb::Append && one_in(&mut plan.chance, plan.rates.bad_place) {
            mishap.get_or_insert(Mishap { in_parts: true, ..mishap_of(ErrorKind::Io, true) });
        }
        plan.faults += u64::from(mishap.is_some());
        mishap
    }

    /// What befalls an append to a zone, of which `mishap` befalls it wherever it goes.
    fn meet_zone(&self, zone: ZoneId, mishap: Option<Mishap>) -> Option<Mishap> {
        let plan = &mut *self.plan.borrow_mut();
        if let (Some(_), Some(most)) = (mishap, plan.read_only_max) {
            plan.ended.insert(zone);
            if plan.read_only.len() < most && one_in(&mut plan.chance, 4) {
                plan.read_only.insert(zone);
            }
            return mishap;
        }
        let fails = [&plan.worn_out, &plan.read_only, &plan.ended];
        match fails.iter().any(|zones| zones.contains(&zone)) {
            true => Some(Mishap { error: ErrorKind::Io, landed: false, in_parts: false }),
            false => mishap,
        }
    }

    /// Loses some blocks of an append at `at`, and spoils others but the first.
    fn tear(&self, at: Pba, data: &[Bytes]) -> Vec<Bytes> {
        let plan = &mut *self.plan.borrow_mut();
        let mut torn = data.concat();
        for (index, block) in torn.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            if one_in(&mut plan.chance, 2) {
                block.fill(0);
            }
            if index > 0 && one_in(&mut plan.chance, 8) {
                plan.damage.insert(at.plus(index as u64), Damage::Unreadable);
            }
        }
        vec![Bytes::from(torn)]
    }

    /// The blocks that are damaged now.
    pub fn damaged(&self) -> Vec<(Pba, Damage)> {
        self.plan.borrow().damage.iter().map(|(pba, damage)| (*pba, *damage)).collect()
    }

    /// Applies damage to the blocks that were read from `from` on.
    fn spoil(&self, from: Pba, bytes: &mut [u8]) -> Result<(), (Pba, ErrorKind)> {
        let plan = &mut *self.plan.borrow_mut();
        let end = from.plus((bytes.len() / BLOCK_BYTES) as u64);
        let flip = |bytes: &mut [u8], bit: usize| bytes[bit / 8] ^= 1 << (bit % 8);
        for (&pba, damage) in plan.damage.range(from..end) {
            plan.faults += 1;
            let start = (pba.0 - from.0) as usize * BLOCK_BYTES;
            match damage {
                Damage::Unreadable => return Err((pba, ErrorKind::Unreadable)),
                Damage::Failing => return Err((pba, ErrorKind::Io)),
                Damage::Flipped(bit) => flip(bytes, start * 8 + *bit as usize),
                Damage::Overwritten => bytes[start..start + BLOCK_BYTES].fill(0),
            }
        }
        if one_in(&mut plan.chance, plan.rates.flip) {
            plan.faults += 1;
            let bits = (end.0 - from.0) * BLOCK_BYTES as u64 * 8;
            flip(bytes, below(&mut plan.chance, bits) as usize);
        }
        Ok(())
    }
}

impl<D: Device> Fault<D> {
    /// Wraps `inner`; nothing fails until its control says so.
    pub fn new(inner: D) -> Self {
        let plan = Plan {
            counts: BTreeMap::new(),
            script: Vec::new(),
            outages: BTreeMap::new(),
            damage: BTreeMap::new(),
            worn_out: BTreeSet::new(),
            read_only: BTreeSet::new(),
            read_only_max: None,
            ended: BTreeSet::new(),
            rates: FaultRates::default(),
            chance: Pcg32::seed_from_u64(0),
            faults: 0,
        };
        Fault { inner, control: FaultControl { plan: Rc::new(RefCell::new(plan)) } }
    }

    /// The handle that says what fails.
    pub fn control(&self) -> FaultControl {
        self.control.clone()
    }

    /// The wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn error(&self, mishap: Mishap, what: String) -> DeviceError {
        DeviceError::new(
            mishap.error,
            format!("{what} of {}: injected fault", self.inner.info().name),
        )
    }

    /// Runs a request that has no other effect when it fails than to have landed or not.
    fn strike<T, F: Future<Output = Result<T, DeviceError>> + 'static>(
        &self,
        verb: Verb,
        what: String,
        request: impl FnOnce() -> F,
    ) -> impl Future<Output = Result<T, DeviceError>> + 'static {
        let mishap = self.control.meet(verb);
        let request = mishap.is_none_or(|mishap| mishap.landed).then(request);
        let error = mishap.map(|mishap| self.error(mishap, what));
        async move {
            let result = match request {
                Some(request) => Some(request.await),
                None => None,
            };
            match (result, error) {
                (Some(Err(error)), _) | (_, Some(error)) => Err(error),
                (Some(Ok(value)), None) => Ok(value),
                (None, None) => unreachable!("only a mishap keeps a request back"),
            }
        }
    }

    /// What befalls an append of `data`, of which nothing or parts land if it fails.
    fn befall(&self, at: Pba, data: &mut Vec<Bytes>) -> Option<DeviceError> {
        let mishap = self.control.meet(Verb::Append);
        let mishap = self.control.meet_zone(self.inner.info().zone_of(at), mishap)?;
        if !mishap.landed {
            data.iter_mut().for_each(|piece| *piece = Bytes::from(vec![0; piece.len()]));
        }
        if mishap.in_parts {
            *data = self.control.tear(at, data);
        }
        Some(self.error(mishap, format!("append at {at}")))
    }
}

impl<D: Device> Device for Fault<D> {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn abilities(&self) -> &dyn Abilities {
        self.inner.abilities()
    }

    fn append(
        &self,
        at: Pba,
        mut data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let error = self.befall(at, &mut data);
        let request = self.inner.append(at, data);
        async move { request.await.and_then(|landed| error.map_or(Ok(landed), Err)) }
    }

    fn append_again(
        &self,
        at: Pba,
        mut data: Vec<Bytes>,
    ) -> impl Future<Output = Result<Pba, DeviceError>> + 'static {
        let blocks = data.iter().map(|piece| piece.len() / BLOCK_BYTES).sum::<usize>() as u64;
        // What is written can be read.
        self.control.plan.borrow_mut().damage.retain(|pba, _| !(at..at.plus(blocks)).contains(pba));
        let error = self.befall(at, &mut data);
        let request = self.inner.append_again(at, data);
        async move { request.await.and_then(|landed| error.map_or(Ok(landed), Err)) }
    }

    fn read(
        &self,
        from: Pba,
        buffer: AlignedBuf,
    ) -> impl Future<Output = Result<AlignedBuf, DeviceError>> + 'static {
        let request = self
            .strike(Verb::Read, format!("read at {from}"), move || self.inner.read(from, buffer));
        let (control, name) = (self.control.clone(), self.inner.info().name);
        async move {
            let mut buffer = request.await?;
            control.spoil(from, buffer.as_mut()).map_err(|(pba, kind)| {
                let context = format!("read at {pba} of {name}: injected damage");
                DeviceError::new(kind, context)
            })?;
            Ok(buffer)
        }
    }

    fn flush(&self) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.strike(Verb::Flush, "flush".into(), move || self.inner.flush())
    }

    fn seal(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.strike(Verb::Seal, format!("seal of {zone}"), move || self.inner.seal(zone))
    }

    fn reset(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        let zone_blocks = self.inner.info().zone_blocks;
        let blocks = zone.start(zone_blocks)..zone.start(zone_blocks).plus(zone_blocks);
        {
            let plan = &mut *self.control.plan.borrow_mut();
            if plan.read_only.contains(&zone) {
                let at = plan.counts.get(&Verb::Reset).copied().unwrap_or(0) + 1;
                let (verb, error) = (Verb::Reset, ErrorKind::Io);
                plan.script.push(Scripted { verb, at, error, landed: false });
            } else {
                plan.damage.retain(|pba, _| !blocks.contains(pba));
                plan.ended.remove(&zone);
            }
        }
        self.strike(Verb::Reset, format!("reset of {zone}"), move || self.inner.reset(zone))
    }

    fn release(&self, zone: ZoneId) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.strike(Verb::Release, format!("release of {zone}"), move || self.inner.release(zone))
    }

    fn read_root(&self) -> impl Future<Output = Result<Option<Bytes>, DeviceError>> + 'static {
        self.strike(Verb::ReadRoot, "reading the root".into(), move || self.inner.read_root())
    }

    fn write_root(&self, root: Bytes) -> impl Future<Output = Result<(), DeviceError>> + 'static {
        self.strike(Verb::WriteRoot, "writing the root".into(), move || self.inner.write_root(root))
    }

    fn grow(&self, bytes: u64) -> impl Future<Output = Result<u32, DeviceError>> + 'static {
        self.strike(Verb::Grow, "growing".into(), move || self.inner.grow(bytes))
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::block_on;

    use super::*;
    use crate::MemoryDevice;

    fn device() -> (Fault<MemoryDevice>, FaultControl) {
        let device = Fault::new(MemoryDevice::of_zones(2, 64));
        block_on(device.reset(ZoneId(0))).unwrap();
        let control = device.control();
        (device, control)
    }

    fn append(device: &Fault<MemoryDevice>, at: u64) -> Result<Pba, ErrorKind> {
        let data = vec![Bytes::from(vec![0xAA; BLOCK_BYTES])];
        block_on(device.append(Pba(at), data)).map_err(|error| error.kind)
    }

    fn read(device: &Fault<MemoryDevice>, at: u64, blocks: usize) -> Result<Vec<u8>, ErrorKind> {
        let buffer = AlignedBuf::zeroed(blocks * BLOCK_BYTES);
        let read = block_on(device.read(Pba(at), buffer)).map_err(|error| error.kind)?;
        Ok(read.as_ref().to_vec())
    }

    #[test]
    fn the_nth_request_fails_and_an_append_keeps_its_claim() {
        let (device, control) = device();
        control.fail(Verb::Append, 2, ErrorKind::NoSpace, false);
        control.fail(Verb::Append, 3, ErrorKind::Io, true);
        assert_eq!(append(&device, 0), Ok(Pba(0)));
        assert_eq!(append(&device, 1), Err(ErrorKind::NoSpace));
        assert_eq!(append(&device, 2), Err(ErrorKind::Io));
        assert_eq!(append(&device, 3), Ok(Pba(3)), "both failed appends keep their claim");
        let first_bytes: Vec<u8> = (0..4).map(|at| read(&device, at, 1).unwrap()[0]).collect();
        assert_eq!(first_bytes, [0xAA, 0, 0xAA, 0xAA]);
        assert_eq!((control.count(Verb::Append), control.faults()), (4, 2));
    }

    #[test]
    fn a_flush_that_fails_made_nothing_durable_unless_it_landed() {
        for landed in [false, true] {
            let mut kept = 0;
            for seed in 0..30 {
                let (device, control) = device();
                append(&device, 0).unwrap();
                control.fail(Verb::Flush, 1, ErrorKind::Io, landed);
                assert_eq!(block_on(device.flush()).unwrap_err().kind, ErrorKind::Io);
                let found = Fault::new(device.inner().crash(seed));
                kept += u32::from(read(&found, 0, 1).unwrap()[0] == 0xAA);
            }
            assert_eq!(landed, kept == 30, "{kept} of 30 kept");
        }
    }

    #[test]
    fn damage_stays_until_it_is_repaired_or_its_zone_is_reset() {
        let (device, control) = device();
        for at in 0..4 {
            append(&device, at).unwrap();
        }
        control.damage(Pba(1), Damage::Unreadable);
        control.damage(Pba(2), Damage::Flipped(9));
        assert_eq!(read(&device, 0, 4), Err(ErrorKind::Unreadable));
        assert_eq!(read(&device, 1, 1), Err(ErrorKind::Unreadable));
        let flipped = read(&device, 2, 2).unwrap();
        assert_eq!(flipped[..3], [0xAA, 0xA8, 0xAA]);
        assert_eq!(flipped.iter().filter(|&&byte| byte != 0xAA).count(), 1);
        control.repair(Pba(1));
        read(&device, 0, 2).unwrap();
        block_on(device.reset(ZoneId(0))).unwrap();
        for at in 0..4 {
            append(&device, at).unwrap();
        }
        assert!(read(&device, 0, 4).unwrap().iter().all(|&byte| byte == 0xAA));
    }

    #[test]
    fn chance_repeats_for_a_seed_and_comes_near_its_rates() {
        let run = |seed| {
            let (device, control) = device();
            append(&device, 0).unwrap();
            control.by_chance(seed, FaultRates { read: 4, flip: 8, ..Default::default() });
            let outcomes = (0..400).map(|_| match read(&device, 0, 1) {
                Err(_) => 'e',
                Ok(bytes) if bytes.iter().all(|&byte| byte == 0xAA) => '.',
                Ok(_) => 'f',
            });
            outcomes.collect::<String>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        let count = |kind| run(7).chars().filter(|&c| c == kind).count();
        assert!((60..140).contains(&count('e')), "{}", run(7));
        assert!((15..65).contains(&count('f')), "{}", run(7));
    }
}
