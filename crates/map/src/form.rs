//! The forms in which a checkpoint writes the images of its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::words::Base;
use crate::{Node, NodeId};

/// The most bytes of images with one common base, before the writer pads each. An append that has
/// no room for them is closed, and the segment's end stays unused.
pub const ONE_BASE_BYTES_MAX: usize = 16 << 10;

/// A form of a node's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With all content of the node.
    Whole,
    /// With the words that the leaf shares, and its edits.
    WithBase,
    /// With its edits only: the shared words begin `back` bytes (not 0) before the image.
    AfterBase {
        /// Distance from the shared words to the image, in bytes.
        back: u32,
    },
}

/// The fewest adjacent leaves in a list of nodes that are written with one base: one image with the
/// base, then images after it.
const FEWEST: usize = 2;

/// How many of these nodes, from the first on, to write with one base, in at most
/// [`ONE_BASE_BYTES_MAX`]: the first [with it](Form::WithBase), the others [after
/// it](Form::AfterBase). 1 if that saves too little over whole images.
pub fn with_one_base(nodes: &[(NodeId, Arc<Node>)]) -> usize {
    let Some(base) = nodes.first().and_then(|(_, node)| node.patched()).map(|first| &first.base)
    else {
        return 1;
    };
    let alike = |node: &&(NodeId, Arc<Node>)| {
        node.1.patched().is_some_and(|patched| Arc::ptr_eq(&patched.base, base))
    };
    let (mut count, mut together, mut alone) = (0, 0, 0);
    for (_, node) in nodes.iter().take_while(alike) {
        let form = if count == 0 { Form::WithBase } else { Form::AfterBase { back: 1 } };
        together += node.image_bytes_as(form);
        if together > ONE_BASE_BYTES_MAX {
            break;
        }
        alone += node.image_bytes();
        count += 1;
    }
    // Demands a saving of a quarter, so that the images stay smaller with the padding of each.
    let worth = count >= FEWEST && together < alone - alone / 4;
    if worth { count } else { 1 }
}

// Upper bounds for writing leaves with a common base. They form one group, or several if they
// exceed `ONE_BASE_BYTES_MAX` or a list of nodes is cut. A base takes at most a quarter of that
// limit, so a full group holds at least twice as many bytes of edits as of the base. The last group
// of a cut list is not full: that adds one base for each list. Leaves written whole instead take at
// most a third more than a group.

/// The most bytes to write for a node, its base excluded.
pub(crate) fn unwritten_bytes(node: &Node) -> usize {
    match node.patched() {
        None => node.bytes(),
        Some(_) => 2 * node.image_bytes_as(Form::AfterBase { back: 1 }) + 64,
    }
}

/// The most bytes to write for a base, if at least one of its leaves must be written.
pub(crate) fn unwritten_base_bytes(base: &Base) -> usize {
    base.bytes() + base.bytes() / 3
}

/// The most bytes to write for some nodes of a checkpoint. `next` is the node that follows them, if
/// any. A base counts with the last of its leaves.
pub fn unwritten_bytes_of(
    nodes: &[(NodeId, Arc<Node>)],
    next: Option<&(NodeId, Arc<Node>)>,
) -> usize {
    let follows = nodes.iter().skip(1).map(Some).chain([next]);
    let bytes = nodes.iter().zip(follows).map(|((_, node), follows)| {
        let base = node.patched().map(|patched| &patched.base);
        let other = follows.and_then(|(_, node)| node.patched()).map(|patched| &patched.base);
        let last = |base: &&Arc<Base>| other.is_none_or(|other| !Arc::ptr_eq(base, other));
        unwritten_bytes(node) + base.filter(last).map_or(0, |base| unwritten_base_bytes(base))
    });
    bytes.sum()
}

/// Sorts nodes by id, except that leaves that share words follow the first of them.
pub(crate) fn sort(nodes: &mut [(NodeId, Arc<Node>)]) {
    let base_of = |node: &Node| node.patched().map(|patched| Arc::as_ptr(&patched.base).addr());
    let mut firsts: BTreeMap<usize, NodeId> = BTreeMap::new();
    for (id, node) in nodes.iter() {
        if let Some(base) = base_of(node) {
            let first = firsts.entry(base).or_insert(*id);
            *first = (*first).min(*id);
        }
    }
    nodes.sort_unstable_by_key(|(id, _)| *id);
    if !firsts.is_empty() {
        // The nodes are in order of id, which a stable sort keeps.
        nodes.sort_by_cached_key(|(id, node)| base_of(node).map_or(*id, |base| firsts[&base]));
    }
}
