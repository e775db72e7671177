//! Checkpoints: write the map's dirty nodes, the node table and a manifest, then the root that
//! names the manifest.

mod images;
mod manifest;
mod promise;
mod refused;
mod sparse;
mod steps;
mod task;
mod write;
