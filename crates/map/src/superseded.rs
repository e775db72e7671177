//! Versions of nodes that were superseded while somebody still held them: they take memory as long as
//! they are held, and a little until it is noticed that they are not.

use std::sync::{Arc, Weak};

use crate::Node;

/// Versions that are noted at least before all of them are looked at.
const MANY: usize = 64;

#[derive(Default)]
pub(crate) struct Superseded {
    /// With their sizes.
    versions: Vec<(Weak<Node>, usize)>,
    /// The sizes of all of them together.
    bytes: usize,
    /// How many of them are so many that all of them are looked at.
    many: usize,
    /// Which of them is looked at next.
    next: usize,
    /// How often the last one was reached.
    rounds: u64,
}

impl Superseded {
    /// Somebody else holds a version that the map is letting go of.
    pub fn note(&mut self, node: &Arc<Node>) {
        if self.versions.len() >= self.many {
            self.forget_all();
        }
        self.bytes += node.bytes();
        self.versions.push((Arc::downgrade(node), node.bytes()));
    }

    /// Looks at up to `limit` versions, on from where it stopped before, and forgets those that nobody holds
    /// any more. From the last one it begins anew; returns how often that has been reached, which ends the call.
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

    /// Looks at all of them at once.
    pub fn forget_all(&mut self) {
        self.next = 0;
        self.forget(usize::MAX);
    }

    /// Bytes of the versions that somebody holds, or held when they were last looked at.
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
