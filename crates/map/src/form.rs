//! In what form the images of a checkpoint's nodes are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::words::Base;
use crate::{Node, NodeId};

/// The most bytes of images that have one base for all of them, before whoever stores them pads each: an
/// append that they do not fit is closed, and a segment's end left unused.
pub const ONE_BASE_BYTES_MAX: usize = 16 << 10;

/// A form of a node's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With all that the node has.
    Whole,
    /// With the words that the leaf has in common with others, and its edits.
    WithBase,
    /// With its edits: the words in common begin `back` bytes (not 0) before the image.
    AfterBase {
        /// See above.
        back: u32,
    },
}

/// Leaves that have their words in common, side by side in a list of nodes: one image with the base,
/// then those after it.
const FEWEST: usize = 2;

/// How many of these nodes, from the first on, are to be written with one base, in at most
/// [`ONE_BASE_BYTES_MAX`]: the first [with it](Form::WithBase), the others [after it](Form::AfterBase). 1 where that
/// would take no less than the nodes alone.
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
    // As a part of what they take alone, so that it stays less with what is added to each.
    let worth = count >= FEWEST && together < alone - alone / 4;
    if worth { count } else { 1 }
}

// What is to be written of leaves with a base in common, at most. There is one group of them, and more
// where they take more than `ONE_BASE_BYTES_MAX`, or a list of nodes is cut. A base takes a quarter of
// that at most, so a group that is full holds twice as many bytes of edits as of the base; of a list that
// is cut the last group is not, which is one base for each list. Those that are written whole instead take
// a third more than a group would.

/// Bytes to write for a node at most, but for its base.
pub(crate) fn unwritten_bytes(node: &Node) -> usize {
    match node.patched() {
        None => node.bytes(),
        Some(_) => 2 * node.image_bytes_as(Form::AfterBase { back: 1 }) + 64,
    }
}

/// Bytes to write for a base at most, where one leaf or more with it must be written.
pub(crate) fn unwritten_base_bytes(base: &Base) -> usize {
    base.bytes() + base.bytes() / 3
}

/// Bytes to write at most for some of the nodes of a checkpoint, of which `next` is the first that
/// follows, if there is one: for a base with the last of its leaves.
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

/// Orders nodes by id, but for leaves with words in common: these follow the first of them.
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
        // By id already, which a stable sort keeps.
        nodes.sort_by_cached_key(|(id, node)| base_of(node).map_or(*id, |base| firsts[&base]));
    }
}
