//! Checkpoints: the map's dirty nodes, the node table and a manifest are written, then the root names them.

mod images;
mod manifest;
mod promise;
mod sparse;
mod steps;
mod task;
mod write;
