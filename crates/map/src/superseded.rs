//! Superseded versions of nodes that are held outside the map. Each takes memory until its last
//! holder drops it, and counts until a scan notices.

use std::sync::{Arc, Weak};

use crate::Node;

/// At least this many versions are noted before a scan of all.
const MANY: usize = 64;

#[derive(Default)]
pub(crate) struct Superseded {
    /// The versions, with their sizes.
    versions: Vec<(Weak<Node>, usize)>,
    /// The sum of their sizes.
    bytes: usize,
    /// A new version triggers a scan of all when the list has this length.
    many: usize,
    /// Index of the next version to look at.
    next: usize,
    /// How often a scan reached the end of the list.
    rounds: u64,
}

impl Superseded {
    /// Notes a version that the map drops and another holder keeps.
    pub fn note(&mut self, node: &Arc<Node>) {
        if self.versions.len() >= self.many {
            self.forget_all();
        }
        self.bytes += node.bytes();
        self.versions.push((Arc::downgrade(node), node.bytes()));
    }

    /// Looks at up to `limit` versions, on from where the last call stopped, and forgets those
    /// without a holder. The call ends at the end of the list; the next one starts over. Returns
    /// how often the end was reached.
    pub fn forget(&mut self, limit: usize) -> u64 {
        for _ in 0..limit {
            match self.versions.get(self.next) {
                Some((node, _)) if node.strong_count() > 0 => self.next += 1,
                Some((_, bytes)) => {
                    self.bytes -= bytes;
                    self.versions.swap_remove(self.next);
                }
                None => {
                    self.next = 0;
                    self.rounds += 1;
                    self.many = MANY.max(2 * self.versions.len());
                    self.versions.shrink_to(self.many);
                    break;
                }
            }
        }
        self.rounds
    }

    /// Looks at all versions at once.
    pub fn forget_all(&mut self) {
        self.next = 0;
        self.forget(usize::MAX);
    }

    /// Bytes of the versions that were still held when last looked at.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the list itself.
    pub fn list_bytes(&self) -> usize {
        self.versions.capacity() * size_of::<(Weak<Node>, usize)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_held_are_counted_and_the_others_do_not_pile_up() {
        let mut list = Superseded::default();
        let node = |words: usize| Arc::new(Node::leaf(vec![1; words]));
        let held: Vec<_> = (0..1000).map(|_| node(3)).collect();
        held.iter().for_each(|node| list.note(node));
        let bytes = held.iter().map(|node| node.bytes()).sum::<usize>();
        for _ in 0..100_000 {
            list.note(&node(5));
        }
        assert!(list.versions.len() <= 2 * held.len(), "{}", list.versions.len());
        assert!((bytes..=3 * bytes).contains(&list.bytes()), "of some it was not noticed yet");
        list.forget_all();
        assert_eq!(list.bytes(), bytes);
        drop(held);
        let (begun, mut pieces) = (list.rounds, 1);
        while list.forget(100) == begun {
            pieces += 1;
        }
        assert!(pieces > 1000 / 100 && list.versions.is_empty() && list.bytes() == 0);
        assert!(list.list_bytes() <= 64 * size_of::<(Weak<Node>, usize)>());
    }
}
