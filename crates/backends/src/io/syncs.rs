//! The syncs of a file under way.

use std::sync::{Arc, Mutex, PoisonError};

use super::in_flight::{Hold, InFlight};

/// Counts the syncs under way, so that one can wait for those that began before, and for none that come
/// after: there may always be another.
#[derive(Default)]
pub(super) struct Syncs(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    newest: Arc<InFlight>,
    /// Those that somebody waits for, as long as they are not idle.
    older: Vec<Arc<InFlight>>,
}

impl Syncs {
    /// One more is under way until what is returned is dropped.
    pub fn begin(&self) -> Hold {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).newest.hold()
    }

    /// All that are under way now.
    pub fn under_way(&self) -> Vec<Arc<InFlight>> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Generations { newest, older } = &mut *generations;
        older.retain(|syncs| !syncs.is_idle());
        if !newest.is_idle() {
            older.push(std::mem::take(newest));
        }
        older.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn those_that_begin_later_are_not_waited_for() {
        let syncs = Syncs::default();
        assert!(syncs.under_way().is_empty());
        let first = syncs.begin();
        let waiter = |syncs: Vec<Arc<InFlight>>| async move {
            for syncs in syncs {
                syncs.idle().await;
            }
        };
        let mut early = pin!(waiter(syncs.under_way()));
        let second = syncs.begin();
        let mut late = pin!(waiter(syncs.under_way()));
        let _third = syncs.begin();
        assert!(block_on(poll_once(&mut early)).is_none());
        drop(second);
        assert!(block_on(poll_once(&mut late)).is_none(), "the first goes on");
        drop(first);
        block_on(early);
        block_on(late);
        assert_eq!(syncs.under_way().len(), 1, "the third");
    }
}
