//! How many clients use each volume and snapshot of a served store, and which none may begin to use.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use event_listener::Event;
use mjolnir_units::TreeId;

/// Who uses what.
#[derive(Debug, Default)]
pub struct Users {
    counts: RefCell<BTreeMap<TreeId, usize>>,
    /// How often each is reserved.
    reserved: RefCell<BTreeMap<TreeId, usize>>,
    /// A reservation has ended.
    freed: Event,
}

/// A client's use of a volume or snapshot; over when dropped.
pub struct Use {
    users: Rc<Users>,
    id: TreeId,
}

/// Nobody begins to use a volume or snapshot until this is dropped.
pub struct Reserved {
    users: Rc<Users>,
    id: TreeId,
}

impl Users {
    /// One more uses it, once it is not reserved.
    pub async fn begin(self: Rc<Self>, id: TreeId) -> Use {
        while self.reserved.borrow().contains_key(&id) {
            self.freed.listen().await;
        }
        *self.counts.borrow_mut().entry(id).or_default() += 1;
        Use { users: self, id }
    }

    /// How many use it.
    pub fn of(&self, id: TreeId) -> usize {
        self.counts.borrow().get(&id).copied().unwrap_or(0)
    }

    /// Keeps those away who would begin to use it.
    pub fn reserve(self: Rc<Self>, id: TreeId) -> Reserved {
        *self.reserved.borrow_mut().entry(id).or_default() += 1;
        Reserved { users: self, id }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        one_less(&mut self.users.counts.borrow_mut(), self.id);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        one_less(&mut self.users.reserved.borrow_mut(), self.id);
        self.users.freed.notify(usize::MAX);
    }
}

fn one_less(counts: &mut BTreeMap<TreeId, usize>, id: TreeId) {
    match counts.get(&id).map_or(0, |count| count - 1) {
        0 => drop(counts.remove(&id)),
        left => drop(counts.insert(id, left)),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_lite::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn each_is_counted_until_it_ends() {
        let users = Rc::new(Users::default());
        let (a, b) = (TreeId(1), TreeId(2));
        let mut uses = Vec::from([b, a, a].map(|id| block_on(users.clone().begin(id))));
        assert_eq!((users.of(a), users.of(b)), (2, 1));
        drop(uses.pop());
        assert_eq!((users.of(a), users.of(b)), (1, 1));
        drop(uses);
        assert!(users.counts.borrow().is_empty());
    }

    #[test]
    fn who_comes_to_what_is_reserved_waits() {
        let users = Rc::new(Users::default());
        let (a, b) = (TreeId(1), TreeId(2));
        let both = [users.clone().reserve(a), users.clone().reserve(a)];
        block_on(async {
            let mut waits = pin!(users.clone().begin(a));
            assert!(poll_once(&mut waits).await.is_none());
            assert!(poll_once(users.clone().begin(b)).await.is_some());
            let [one, other] = both;
            drop(one);
            assert!(poll_once(&mut waits).await.is_none());
            assert_eq!(users.of(a), 0, "it does not use it yet");
            drop(other);
            let used = waits.await;
            assert_eq!(used.users.of(a), 1);
        });
        assert!(users.reserved.borrow().is_empty() && users.counts.borrow().is_empty());
    }
}
