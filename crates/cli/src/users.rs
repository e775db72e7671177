//! How many clients use each volume and snapshot of a served store.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mjolnir_units::TreeId;

/// Who uses what.
#[derive(Debug, Default)]
pub struct Users {
    counts: RefCell<BTreeMap<TreeId, usize>>,
}

/// A client's use of a volume or snapshot; over when dropped.
pub struct Use {
    users: Rc<Users>,
    id: TreeId,
}

impl Users {
    /// One more uses it.
    pub fn begin(self: Rc<Self>, id: TreeId) -> Use {
        *self.counts.borrow_mut().entry(id).or_default() += 1;
        Use { users: self, id }
    }

    /// How many use it.
    pub fn of(&self, id: TreeId) -> usize {
        self.counts.borrow().get(&id).copied().unwrap_or(0)
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut counts = self.users.counts.borrow_mut();
        let left = counts.get(&self.id).map_or(0, |count| count - 1);
        match left {
            0 => drop(counts.remove(&self.id)),
            left => drop(counts.insert(self.id, left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_until_it_ends() {
        let users = Rc::new(Users::default());
        let (a, b) = (TreeId(1), TreeId(2));
        let mut uses = Vec::from([b, a, a].map(|id| users.clone().begin(id)));
        assert_eq!((users.of(a), users.of(b)), (2, 1));
        drop(uses.pop());
        assert_eq!((users.of(a), users.of(b)), (1, 1));
        drop(uses);
        assert!(users.counts.borrow().is_empty());
    }
}
