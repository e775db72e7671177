//! Tests of the program, a module for each behaviour. They are one test binary, since each that is
//! linked apart takes as long to link as the program itself. `cargo test -p mjolnir-cli --test cli
//! real_` runs those that drive real clients.
//!
//! They share a process: none may change its working directory, environment, limits or umask. Each
//! works in a folder of its own, and what needs a limit gets it in a child process.

#![allow(clippy::disallowed_methods)] // They run the program, and wait for it by the clock.

mod advise;
mod control_crowd;
mod control_socket;
mod damaged_data;
mod damaged_superblock;
mod demo_short;
mod first_session_at_rest;
mod first_session_served;
mod full_disk;
mod full_store;
mod garbage_client;
mod gc_beside_writers;
mod grow_cut_short;
mod impossible_sizes;
mod json_output;
mod killed_server;
mod lab_commands;
mod listening;
mod log_floods;
mod long_paths;
mod lost_disk;
mod manual;
mod memory_budget;
mod name_taken;
mod newer_version;
mod not_a_store;
mod odd_names;
mod odd_size;
mod older_stores;
mod quiet_log;
mod range_commands;
mod read_only;
mod real_activation;
mod real_backup;
mod real_chromium;
mod real_ext4;
mod real_failing_device;
mod real_fio;
mod real_kill;
mod real_many_clients;
mod real_nbdcopy;
mod real_nbdinfo;
mod real_nbdsh;
mod real_odd_size;
mod real_qemu_img;
mod real_qemu_io;
mod real_record;
mod real_support;
#[cfg(feature = "tls")]
mod real_tls_certificates;
#[cfg(feature = "tls")]
mod real_tls_hostile;
#[cfg(feature = "tls")]
mod real_tls_psk;
mod record;
mod recordings;
mod salvage;
mod service_unit;
mod shutdown_keeps_data;
mod slow_clients;
mod space_given_back;
mod stalled_writes;
mod store_in_use;
mod support;
mod trace_commands;
mod transactions;
mod truncated_file;
mod turned_away;
mod warm_log;
