//! Operations on volumes and snapshots as a whole.

use mjolnir_store::{Error, ErrorKind, TargetInfo};
use mjolnir_units::{BLOCK_BYTES, BLOCK_SIZE};
use mjolnir_vtime::Chance;

use super::Kind;
use super::ground::Ground;
use super::locks::{Guard, SHAPE, Want};
use crate::model::value_of;
use crate::{Incarnation, Key, Subject, Violation};

const ALL: std::ops::Range<u64> = 0..u64::MAX;

impl<S: Subject> Ground<S> {
    /// A name that nothing has or may have; `None` if all are taken.
    fn free_name(&self, chance: &mut Chance, names: &[String]) -> Option<String> {
        let name = chance.pick(names).clone();
        let taken = self.model.borrow().name_in_doubt(&name);
        (!taken && self.busy_names.borrow_mut().insert(name.clone())).then_some(name)
    }

    fn volume_name(&self, chance: &mut Chance) -> Option<String> {
        let most = self.swarm.volumes + 1;
        let volumes = self.model.borrow().existing();
        let volumes = volumes.iter().filter(|&&t| !self.model.borrow().read_only(t)).count();
        if volumes > most {
            return None;
        }
        let names: Vec<String> = (0..most + 2).map(|number| format!("volume-{number}")).collect();
        self.free_name(chance, &names)
    }

    /// A size for a volume, drawn: any multiple of 512 where requests have any alignment.
    fn some_size(&self, chance: &mut Chance) -> u64 {
        let blocks = chance.within(1..self.swarm.volume_blocks + 1);
        let is_odd = self.swarm.unaligned && chance.one_in(3);
        blocks * BLOCK_SIZE - if is_odd { chance.below(BLOCK_SIZE / 512) * 512 } else { 0 }
    }

    /// Makes an empty volume.
    pub(crate) async fn create_volume(&self, chance: &mut Chance) -> Result<(), Violation> {
        let Some(name) = self.volume_name(chance) else { return Ok(()) };
        let size = self.some_size(chance);
        let (op, volume) = {
            let what = format!("create {name} of {size} bytes");
            let model = &mut *self.model.borrow_mut();
            model.invoke_creation(what, name.clone(), false, size, [])
        };
        let result = self.store.create_volume(&name, size).await;
        let guard = self.sole(volume);
        if let Some(info) = self.settle(&op, guard, S::ADMIN_IS_DURABLE, result).await? {
            self.offer(volume, &info, &name, size)?;
            self.count(Kind::CreateVolume);
        }
        self.busy_names.borrow_mut().remove(&name);
        Ok(())
    }

    /// A guard of something that nobody else knows yet.
    fn sole(&self, target: Incarnation) -> Guard {
        let wants = vec![Want::change(target, ALL)];
        self.locks.try_take(wants).expect("nobody else has heard of it")
    }

    fn offer(
        &self,
        target: Incarnation,
        info: &TargetInfo,
        name: &str,
        size: u64,
    ) -> Result<(), Violation> {
        if info.name != name || info.size != size {
            let info = format!("{} of {} bytes", info.name, info.size);
            return Err(Violation::new(format!("asked for {name} of {size} bytes, got {info}")));
        }
        self.model.borrow_mut().learn_id(target, info.id);
        self.offered.borrow_mut().push(target);
        Ok(())
    }

    /// A snapshot of a volume, or a volume that is a copy of either, made while writes go on.
    pub(super) async fn copy(&self, chance: &mut Chance, kind: Kind) -> Result<(), Violation> {
        let snapshot = kind == Kind::Snapshot;
        let Some(source) = self.some_target(chance, snapshot) else { return Ok(()) };
        let Some(_there) = self.locks.try_take(vec![Want::look(source, SHAPE)]) else {
            return Ok(());
        };
        let source_name = self.model.borrow().name(source).to_owned();
        let name = if snapshot {
            let names: Vec<String> =
                (0..6).map(|number| format!("{source_name}@s{number}")).collect();
            self.free_name(chance, &names)
        } else {
            self.volume_name(chance)
        };
        let Some(name) = name else { return Ok(()) };
        let (op, copy) = {
            let model = &mut *self.model.borrow_mut();
            let what = format!("make {name} from {source_name}");
            model.invoke_copy(what, source, name.clone(), snapshot)
        };
        let result = match name.split_once('@') {
            Some((volume, snapshot)) => self.store.create_snapshot(volume, snapshot).await,
            None => self.store.clone_volume(&source_name, &name).await,
        };
        let guard = self.sole(copy);
        if result.is_ok() {
            // First of all: what is invoked from now on is not part of it.
            let capture = self.model.borrow_mut().end_copy(copy);
            let info =
                self.settle(&op, guard, S::ADMIN_IS_DURABLE, result).await?.expect("it succeeded");
            let size = self.model.borrow().size(copy);
            self.model.borrow_mut().learn_id(copy, info.id);
            let mut outcome = Vec::new();
            for block in capture.in_doubt() {
                let offset = block * BLOCK_SIZE;
                let Some(bytes) = self.read(copy, offset, BLOCK_SIZE.min(size - offset)).await?
                else {
                    return Ok(());
                };
                outcome.push((block, value_of(&bytes)));
            }
            self.model.borrow_mut().settle_copy(copy, &capture, &outcome)?;
            self.offer(copy, &info, &name, size)?;
            self.count(kind);
        } else {
            self.settle(&op, guard, S::ADMIN_IS_DURABLE, result).await?;
            if self.store.find(&name).is_err_and(|error| error.kind == ErrorKind::NotFound) {
                self.model.borrow_mut().drop_copy(copy);
            }
        }
        self.busy_names.borrow_mut().remove(&name);
        Ok(())
    }

    /// Deletes a volume without snapshots, or a snapshot.
    pub(super) async fn delete(&self, chance: &mut Chance, kind: Kind) -> Result<(), Violation> {
        let Some(target) = self.some_target(chance, kind == Kind::DeleteVolume) else {
            return Ok(());
        };
        let (name, has_snapshots) = {
            let model = self.model.borrow();
            let name = model.name(target).to_owned();
            let mut others = model.existing().into_iter();
            let prefix = format!("{name}@");
            let has = others.any(|other| model.name(other).starts_with(&prefix));
            let mut busy = self.busy_names.borrow().clone().into_iter();
            (name, has || busy.any(|other| other.starts_with(&prefix)))
        };
        if (kind == Kind::DeleteVolume && (has_snapshots || self.offered.borrow().len() < 2))
            || (kind == Kind::DeleteSnapshot && !name.contains('@'))
        {
            return Ok(());
        }
        let wants = vec![Want::change(target, ALL)];
        let Some(guard) = self.locks.try_take(wants) else { return Ok(()) };
        if !self.busy_names.borrow_mut().insert(name.clone()) {
            return Ok(());
        }
        self.offered.borrow_mut().retain(|&other| other != target);
        let op = self.model.borrow_mut().invoke_deletion(format!("delete {name}"), target);
        let result = match name.split_once('@') {
            Some((volume, snapshot)) => self.store.delete_snapshot(volume, snapshot).await,
            None => self.store.delete_volume(&name).await,
        };
        if self.settle(&op, guard, S::ADMIN_IS_DURABLE, result).await?.is_some() {
            self.count(kind);
            if self.store.find(&name).is_ok() {
                return Err(Violation::new(format!("{name} was deleted and is still found")));
            }
        } else if self.model.borrow().current(&Key::Name(name.clone())) == target.0 {
            self.offered.borrow_mut().push(target);
        }
        self.busy_names.borrow_mut().remove(&name);
        Ok(())
    }

    /// Makes a volume what a snapshot of it is.
    pub(super) async fn restore(&self, chance: &mut Chance) -> Result<(), Violation> {
        let Some(snapshot) = self.some_target(chance, false) else { return Ok(()) };
        let full_name = self.model.borrow().name(snapshot).to_owned();
        let Some((volume_name, snapshot_name)) = full_name.split_once('@') else {
            return Ok(());
        };
        let offered = self.offered.borrow().clone();
        let volume = offered.into_iter().find(|&t| self.model.borrow().name(t) == volume_name);
        let Some(volume) = volume else { return Ok(()) };
        let wants = vec![Want::look(snapshot, ALL), Want::change(volume, ALL)];
        let Some(guard) = self.locks.try_take(wants) else { return Ok(()) };
        let op = {
            let model = &mut *self.model.borrow_mut();
            let (old, new) = (model.blocks(volume), model.blocks(snapshot));
            let mut writes: Vec<(Key, u64)> = Vec::new();
            let mut all: Vec<u64> = old.keys().chain(new.keys()).copied().collect();
            all.sort_unstable();
            all.dedup();
            for block in all {
                if old.get(&block) != new.get(&block) {
                    let value = new.get(&block).copied().unwrap_or(0);
                    writes.push((Key::Block(volume, block), value));
                }
            }
            if model.size(volume) != model.size(snapshot) {
                writes.push((Key::Size(volume), model.size(snapshot)));
            }
            model.invoke(format!("restore {full_name}"), true, writes)
        };
        let result = self.store.restore_snapshot(volume_name, snapshot_name).await;
        if self.settle(&op, guard, S::ADMIN_IS_DURABLE, result).await?.is_some() {
            self.relearn(volume, volume_name)?;
            self.count(Kind::Restore);
        }
        Ok(())
    }

    /// The store may call a target otherwise after it was replaced.
    fn relearn(&self, volume: Incarnation, name: &str) -> Result<(), Violation> {
        let info = self.store.find(name).map_err(|error: Error| {
            Violation::new(format!("{name} is not found after it was restored: {error}"))
        })?;
        if self.model.borrow().id(volume) != info.id {
            self.model.borrow_mut().learn_id(volume, info.id);
        }
        Ok(())
    }

    /// Makes a volume longer or shorter.
    pub(super) async fn resize(&self, chance: &mut Chance) -> Result<(), Violation> {
        let Some(volume) = self.some_target(chance, true) else { return Ok(()) };
        let wants = vec![Want::change(volume, ALL)];
        let Some(guard) = self.locks.try_take(wants) else { return Ok(()) };
        let size = self.some_size(chance);
        let (op, name) = {
            let model = &mut *self.model.borrow_mut();
            let (whole, within) = (size / BLOCK_SIZE, (size % BLOCK_SIZE) as usize);
            let gone = model.blocks(volume).into_keys().filter(|&block| block >= whole);
            let mut writes: Vec<(Key, u64)> =
                gone.map(|block| (Key::Block(volume, block), 0)).collect();
            if let Some((_, value)) =
                writes.iter_mut().find(|(key, _)| within > 0 && *key == Key::Block(volume, whole))
            {
                // What is cut off of the block must not come back.
                let held = model.block(volume, whole);
                *value = model.contents.overlay(held, within, &vec![0; BLOCK_BYTES - within]);
            }
            writes.push((Key::Size(volume), size));
            let name = model.name(volume).to_owned();
            (model.invoke(format!("resize {name} to {size} bytes"), true, writes), name)
        };
        let result = self.store.resize_volume(&name, size).await;
        if self.settle(&op, guard, S::ADMIN_IS_DURABLE, result).await?.is_some() {
            self.count(Kind::Resize);
        }
        Ok(())
    }

    pub(super) async fn collect(&self) -> Result<(), Violation> {
        match self.store.collect().await {
            Ok(()) => self.count(Kind::Collect),
            Err(error) => self.weigh("a cycle of reclaim", &error, &[])?,
        }
        Ok(())
    }

    /// A checkpoint is no promise to clients: what it covers may still be lost until a flush.
    pub(super) async fn checkpoint(&self) -> Result<(), Violation> {
        match self.store.checkpoint().await {
            Ok(()) => self.count(Kind::Checkpoint),
            Err(error) => self.weigh("a checkpoint", &error, &[])?,
        }
        Ok(())
    }
}
