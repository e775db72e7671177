//! One client: asks for one thing after another.

use std::rc::Rc;
use std::time::Duration;

use mjolnir_device::Runtime;
use mjolnir_vtime::Chance;

use super::ground::Ground;
use super::{KINDS, Kind};
use crate::{Subject, Violation};

/// Refusals in a row after which a client gives up on a store that has failed.
const PATIENCE: u64 = 20;

/// Asks for `ops` things; returns early if the store refuses everything.
pub(crate) async fn client<S: Subject>(
    ground: Rc<Ground<S>>,
    mut chance: Chance,
    ops: u64,
) -> Result<(), Violation> {
    let mut refused_in_a_row = 0;
    for _ in 0..ops {
        let kind = next_kind(&ground, &mut chance);
        let before = ground.tally.borrow().refused;
        act(&ground, &mut chance, kind).await?;
        // Others are refused too meanwhile, so this only counts roughly.
        refused_in_a_row =
            if ground.tally.borrow().refused > before { refused_in_a_row + 1 } else { 0 };
        if refused_in_a_row == PATIENCE {
            break;
        }
    }
    Ok(())
}

fn next_kind<S: Subject>(ground: &Ground<S>, chance: &mut Chance) -> Kind {
    if ground.offered.borrow().is_empty() {
        return Kind::CreateVolume;
    }
    let (kind, _) = KINDS[chance.weighted(ground.swarm.weights.iter().copied())];
    let grows = matches!(
        kind,
        Kind::Write
            | Kind::DurableWrite
            | Kind::Atomic
            | Kind::Transaction
            | Kind::Snapshot
            | Kind::CloneVolume
    );
    if grows && ground.crowded() {
        return *chance.pick(&[
            Kind::Trim,
            Kind::Trim,
            Kind::DeleteSnapshot,
            Kind::DeleteVolume,
            Kind::Read,
        ]);
    }
    kind
}

async fn act<S: Subject>(
    ground: &Rc<Ground<S>>,
    chance: &mut Chance,
    kind: Kind,
) -> Result<(), Violation> {
    match kind {
        Kind::Write => ground.write(chance, false).await,
        Kind::DurableWrite => ground.write(chance, true).await,
        Kind::Read => ground.check_read(chance).await,
        Kind::Zeroes => ground.zeroes(chance).await,
        Kind::Trim => ground.trim(chance).await,
        Kind::Flush => ground.flush().await,
        Kind::CloneRange | Kind::MoveRange | Kind::Atomic => ground.vector(chance, kind).await,
        Kind::Race => ground.race(chance).await,
        Kind::Extents => ground.extents(chance).await,
        Kind::Snapshot | Kind::CloneVolume => ground.copy(chance, kind).await,
        Kind::DeleteSnapshot | Kind::DeleteVolume => ground.delete(chance, kind).await,
        Kind::Restore => ground.restore(chance).await,
        Kind::CreateVolume => ground.create_volume(chance).await,
        Kind::Resize => ground.resize(chance).await,
        Kind::Transaction => ground.transact(chance).await,
        Kind::Collect => ground.collect().await,
        Kind::Checkpoint => ground.checkpoint().await,
        Kind::Rest => {
            let rest = *chance.pick(&[10, 1_000, 100_000]);
            ground.runtime.sleep(Duration::from_micros(chance.below(rest))).await;
            Ok(())
        }
    }
}
