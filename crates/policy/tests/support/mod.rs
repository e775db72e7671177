//! The load of the published figures.

use mjolnir_units::BLOCK_SIZE;
use mjolnir_workload::synthetic::{Workload, WorkloadSpec};

/// Every one of `blocks` blocks once, in order, then `overwrites` times as many writes whose
/// addresses follow `distribution` (in fio's words), ranks scattered over the addresses.
pub fn load(blocks: u32, overwrites: u64, distribution: &str, seed: u64) -> Vec<u32> {
    let spec = format!(
        "seed = {seed}\n[[job]]\nname = \"overwrites\"\nrw = \"randwrite\"\nbs = \"4k\"\nsize = {}\n\
         number_ios = {}\nrandom_distribution = \"{distribution}\"\n",
        u64::from(blocks) * BLOCK_SIZE,
        u64::from(blocks) * overwrites,
    );
    let spec: WorkloadSpec = toml::from_str(&spec).expect("the load is well formed");
    let workload = Workload::new(&spec).expect("the load is possible");
    let writes = workload.generator(0).map(|write| (write.offset / BLOCK_SIZE) as u32);
    (0..blocks).chain(writes).collect()
}
