//! Tests of the engine, a module for each behaviour. They are one test binary, since each that is
//! linked apart compiles all of the engine for its devices once more.

mod admission;
mod cold_checksums;
mod collecting;
mod failed_writes;
mod full_of_snapshots;
mod full_store;
mod given_back;
mod growth;
mod hostile_media;
mod in_common;
mod lost_places;
mod map_garbage;
mod marks_by_threads;
mod memory_budget;
mod missing_part;
mod odd_sizes;
mod order;
mod outages;
mod outlives;
mod pacing;
mod placement;
mod promised;
mod read_errors;
mod reading_ahead;
mod reserve;
mod smoke;
mod snapshots_together;
mod space_told;
mod support;
mod transactions;
mod turns;
mod vectors;
mod victims;
mod waits;
mod zeroing;
