//! The engine in the fault simulator: one program, for each that has an engine takes long to build.

mod bad_media;
mod checker;
mod even_pace;
mod forged;
mod full_store;
mod many_engines;
mod power_cuts;
mod seeds;
mod space_after_deletion;
mod toy;
