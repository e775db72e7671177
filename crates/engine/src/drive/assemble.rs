//! Assembles an engine from its parts, before any task runs.

use std::cell::RefCell;
use std::rc::Rc;

use event_listener::Event;
use mjolnir_device::{Buffers, Device, Runtime};
use mjolnir_map::Map;

use crate::catalog::Catalog;
use crate::drive::checkpoint::CheckpointState;
use crate::drive::engine::{Engine, Inner};
use crate::drive::line::Line;
use crate::drive::read::checksums::Checksums;
use crate::drive::state::State;
use crate::format::root::Root;
use crate::log::Log;
use crate::memory;
use crate::options::OpenOptions;
use crate::pacing::ReclaimState;
use crate::placement::Placement;
use crate::report::{Counters, ReadErrors, WarmState};
use crate::space::{CLIENT_STREAM, NodeTableMedia, Space};

impl<D: Device, R: Runtime> Engine<D, R> {
    /// Replaces the log by an empty one, as of the root.
    pub(crate) fn renew_log(&self, root: &Root) {
        let mut state = self.state();
        let streams = usize::from(CLIENT_STREAM + state.placement.streams());
        let sum = self.device().abilities().block_checksum();
        state.log = Log::new(&state.info, sum, root.epoch, streams, root.sequence);
        state.checksums = Checksums::default();
    }

    pub(crate) fn assemble(
        device: D,
        runtime: R,
        options: OpenOptions,
        map: Map,
        epoch: u64,
        sequence: u64,
    ) -> Self {
        let info = device.info();
        let placement = Placement::new(&options, &info)
            .expect("the policy's name was checked when the store was opened");
        let streams = usize::from(CLIENT_STREAM + placement.streams());
        let state = State {
            map,
            catalog: Catalog::default(),
            transactions: Default::default(),
            space: Space::new(info.zones, info.zone_blocks),
            log: Log::new(&info, device.abilities().block_checksum(), epoch, streams, sequence),
            placement,
            checksums: Checksums::default(),
            table: NodeTableMedia::default(),
            checkpoint: CheckpointState::new(runtime.random()),
            reclaim: ReclaimState::new(
                &options.reclaim,
                memory::index_bytes(&options),
                runtime.parallelism(),
            ),
            counters: Counters::default(),
            read_errors: ReadErrors::default(),
            buffers: Buffers::keeping(memory::buffer_bytes(&options)),
            client_buffers: Buffers::keeping(memory::client_buffer_bytes(&options)),
            client_inputs: Buffers::keeping(memory::client_input_bytes(&options)),
            buffers_watched: false,
            runs_room: Vec::new(),
            failed: None,
            log_loss: None,
            recovered: Default::default(),
            damaged_at: Vec::new(),
            warm_log: WarmState::Off,
            unsure: Default::default(),
            outage: None,
            failing: Default::default(),
            doubts: 0,
            doubts_settled: 0,
            given_up: 0,
            repeated: Default::default(),
            is_serving: false,
            closing: false,
            stopping: false,
            flush_running: false,
            tasks: 0,
            clients_waiting: 0,
            kept_at: 0,
            info,
        };
        let opened_at = runtime.now();
        Engine {
            inner: Rc::new(Inner {
                device,
                runtime,
                options,
                state: RefCell::new(state),
                line: Line::default(),
                changed: Event::new(),
                reclaim_wanted: Event::new(),
                checkpoint_wanted: Event::new(),
                lead_wanted: Event::new(),
                reset_wanted: Event::new(),
                release_wanted: Event::new(),
                bad_noticed: Event::new(),
                refused: Event::new(),
                group_begun: Event::new(),
                buffers_grown: Event::new(),
                promise_wanted: Event::new(),
                opened_at,
            }),
        }
    }
}
