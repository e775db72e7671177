//! Images: nodes and roots as bytes. All numbers are little-endian.
//!
//! ```text
//! node    0  magic "MJND"            8  id (u32)         24  entries
//!         4  version (u8) = 1       12  entries (u32)
//!         5  level (u8)             16  blocks (u64)
//!         6  zero (u16)
//! entry   leaf: a word (u64, see `word`)
//!         inner: blocks | shared << 63 (u64), child (u32)
//! root    0  blocks | shared << 63 (u64)   8  child (u32)   12  level (u8)   13  zero (3 bytes)
//! ```
//!
//! An image carries no checksum and no sequence number: whoever stores it adds these.

use crate::dense::trim;
use crate::node::Body;
use crate::{BLOCKS_MAX, Edge, INNER_MAX, LEVEL_MAX, Node, NodeId, Root, word};

/// The most words in the image of a leaf. A leaf that a relocation fragmented may have more than
/// [`LEAF_MAX`](crate::LEAF_MAX), and its image be larger than a block.
pub const LEAF_WORDS_HARD: usize = 1 << 22;
/// Size of an encoded root.
pub const ROOT_BYTES: usize = 16;

const MAGIC: [u8; 4] = *b"MJND";
const VERSION: u8 = 1;
const HEADER: usize = 24;
const WORD: usize = 8;
const EDGE: usize = 12;
const SHARED: u64 = 1 << 63;

const _: () = assert!(BLOCKS_MAX < SHARED);
const _: () = assert!(ROOT_BYTES == EDGE + 4);

/// Bytes that are not a node, a root or a node table of this map: damaged media, or a defect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; the map's metadata is damaged: restore the store, or go back a checkpoint")]
pub struct DecodeError {
    what: String,
}

impl DecodeError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        DecodeError { what: what.into() }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn edge_bytes(edge: &Edge) -> [u8; EDGE] {
    let mut out = [0; EDGE];
    let flag = if edge.shared { SHARED } else { 0 };
    out[..8].copy_from_slice(&(edge.blocks | flag).to_le_bytes());
    out[8..].copy_from_slice(&edge.child.0.to_le_bytes());
    out
}

fn edge_at(bytes: &[u8]) -> Edge {
    let blocks = u64_at(bytes, 0);
    Edge { blocks: blocks & !SHARED, child: NodeId(u32_at(bytes, 8)), shared: blocks & SHARED != 0 }
}

/// A root as bytes.
pub fn root_encode(root: &Root) -> [u8; ROOT_BYTES] {
    let mut out = [0; ROOT_BYTES];
    out[..EDGE].copy_from_slice(&edge_bytes(&root.edge));
    out[EDGE] = root.level;
    out
}

/// The root that [`root_encode`] made these bytes of.
pub fn root_decode(bytes: &[u8; ROOT_BYTES]) -> Result<Root, DecodeError> {
    let root = Root { edge: edge_at(bytes), level: bytes[EDGE] };
    if bytes[EDGE + 1..] != [0; 3] {
        return Err(DecodeError::new("a root has bytes set that must be zero"));
    }
    check_root(&root)?;
    Ok(root)
}

pub(crate) fn check_root(root: &Root) -> Result<(), DecodeError> {
    let Root { edge, level } = root;
    if edge.child.0 == 0 || edge.blocks > BLOCKS_MAX || *level > LEVEL_MAX {
        return Err(DecodeError::new(format!(
            "a root names {} at level {level} with {} blocks, which cannot be",
            edge.child, edge.blocks
        )));
    }
    Ok(())
}

impl Node {
    /// Writes the image of this version, stored under `id`, to `out`, which has
    /// [`image_bytes`](Node::image_bytes).
    pub fn encode(&self, id: NodeId, out: &mut [u8]) {
        let (head, body) = out.split_at_mut(HEADER);
        head[..4].copy_from_slice(&MAGIC);
        head[4..8].copy_from_slice(&[VERSION, self.level(), 0, 0]);
        head[8..12].copy_from_slice(&id.0.to_le_bytes());
        head[12..16].copy_from_slice(&(self.size() as u32).to_le_bytes());
        head[16..].copy_from_slice(&self.blocks.to_le_bytes());
        match &self.body {
            Body::Leaf(_) | Body::Patched(_) => {
                assert_eq!(body.len(), self.size() * WORD, "the image has the node's size");
                for (at, piece) in self.entries().pieces() {
                    for (out, word) in body[at * WORD..].chunks_exact_mut(WORD).zip(piece) {
                        out.copy_from_slice(&word.to_le_bytes());
                    }
                }
            }
            Body::Inner(_, edges) => {
                assert_eq!(body.len(), edges.len() * EDGE, "the image has the node's size");
                for (out, edge) in body.chunks_exact_mut(EDGE).zip(edges) {
                    out.copy_from_slice(&edge_bytes(edge));
                }
            }
        }
    }

    /// Bytes of its image.
    pub fn image_bytes(&self) -> usize {
        HEADER + self.size() * if self.is_leaf() { WORD } else { EDGE }
    }

    /// The node of an image of exactly these bytes, checked but for what only the map knows (its
    /// children).
    pub(crate) fn decode(id: NodeId, image: &[u8]) -> Result<Node, DecodeError> {
        let wrong = |what: String| DecodeError::new(format!("the image of {id} {what}"));
        if image.len() < HEADER || image[..4] != MAGIC {
            return Err(wrong("is not one: no magic".into()));
        }
        if image[4] != VERSION || image[6..8] != [0; 2] {
            return Err(wrong(format!("has version {}, not {VERSION}", image[4])));
        }
        let (level, found) = (image[5], NodeId(u32_at(image, 8)));
        let (count, blocks) = (u32_at(image, 12) as usize, u64_at(image, 16));
        if found != id {
            return Err(wrong(format!("is that of {found}")));
        }
        if level > LEVEL_MAX || blocks > BLOCKS_MAX {
            return Err(wrong(format!("has level {level} and {blocks} blocks")));
        }
        let (least, most, each) = match level {
            0 => (usize::from(blocks > 0), LEAF_WORDS_HARD, WORD),
            _ => (1, INNER_MAX, EDGE),
        };
        // What follows the entries is the writer's padding.
        if count < least || count > most || image.len() < HEADER + count * each {
            return Err(wrong(format!("has {count} entries in {} bytes", image.len())));
        }
        let entries = image[HEADER..HEADER + count * each].chunks_exact(each);
        let mut sum = 0u128;
        let node = if level == 0 {
            let words: Vec<u64> = entries.map(|entry| u64_at(entry, 0)).collect();
            if let Some(at) = words.iter().position(|w| !word::is_valid(*w, BLOCKS_MAX)) {
                return Err(wrong(format!("has word {:#018x} at {at}", words[at])));
            }
            if let Some(at) = words.windows(2).position(|w| word::join(w[0], w[1]).is_some()) {
                return Err(wrong(format!("has two words at {at} that should be one")));
            }
            sum += words.iter().map(|w| u128::from(word::blocks(*w))).sum::<u128>();
            (sum == u128::from(blocks)).then(|| Node::leaf(words))
        } else {
            let mut edges: Vec<Edge> = entries.map(edge_at).collect();
            let odd = |e: &Edge| e.blocks == 0 || e.blocks > BLOCKS_MAX || e.child.0 == 0;
            if let Some(at) = edges.iter().position(odd) {
                return Err(wrong(format!(
                    "leads to {} with {} blocks",
                    edges[at].child, edges[at].blocks
                )));
            }
            trim(&mut edges, usize::MAX);
            sum += edges.iter().map(|edge| u128::from(edge.blocks)).sum::<u128>();
            (sum == u128::from(blocks)).then(|| Node::inner(level, edges))
        };
        node.ok_or_else(|| wrong(format!("says {blocks} blocks and has {sum}")))
    }
}
