//! Images: nodes and roots as bytes. All numbers are little-endian.
//!
//! ```text
//! node    0  magic "MJND"            8  id (u32)         24  entries
//!         4  version (u8) = 1       12  entries (u32)
//!         5  level (u8)             16  blocks (u64)
//!         6  zero (u16)
//! entry   leaf: a word (u64, see `word`)
//!         inner: blocks | shared << 63 (u64), child (u32)
//! edited  as a leaf, but:
//!         4  version (u8) = 2       24  back (u32)       32  edits
//!        12  edits (u32)            28  base words (u32)     base, where `back` is 0
//! edit    which of the base's words (u32), the word in its place (u64)
//! root    0  blocks | shared << 63 (u64)   8  child (u32)   12  level (u8)   13  zero (3 bytes)
//! ```
//!
//! Leaves may share words ([`crate::words`]). The image of the first such leaf holds the base; each
//! other image holds the distance in bytes back to it. The images must keep this distance as long
//! as one of them is in use, so the caller writes them with one append.
//!
//! An image carries no checksum and no sequence number: the caller adds both.

use crate::dense::trim;
use crate::form::Form;
use crate::node::Body;
use crate::words::Edit;
use crate::{BLOCKS_MAX, Edge, INNER_MAX, LEAF_MAX, LEVEL_MAX, Node, NodeId, Root, word};

/// The most words in the image of a leaf. A leaf fragmented by a relocation may have more than
/// [`LEAF_MAX`], and an image larger than a block.
pub const LEAF_WORDS_HARD: usize = (IMAGE_BYTES_MAX - HEADER) / WORD;
/// The most bytes in an image.
pub const IMAGE_BYTES_MAX: usize = 4095 * 64;
/// Size of an encoded root.
pub const ROOT_BYTES: usize = 16;

const MAGIC: [u8; 4] = *b"MJND";
const VERSION: u8 = 1;
/// The version of an image with edits.
const EDITED: u8 = 2;
const HEADER: usize = 24;
const EDITED_HEADER: usize = 32;
const EDIT: usize = 12;
const WORD: usize = 8;
const EDGE: usize = 12;
const SHARED: u64 = 1 << 63;

const _: () = assert!(BLOCKS_MAX < SHARED);
const _: () = assert!(ROOT_BYTES == EDGE + 4);

/// Bytes that do not decode to a node, a root or a node table of this map: damaged media, or a bug.
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

/// Decodes the bytes of [`root_encode`].
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

fn put_words(words: &[u64], out: &mut [u8]) {
    for (out, word) in out.chunks_exact_mut(WORD).zip(words) {
        out.copy_from_slice(&word.to_le_bytes());
    }
}

/// The content of an image.
pub(crate) enum Decoded {
    Node(Node),
    /// A leaf that shares words with others: its length in blocks, the shared words, the distance
    /// in bytes from the image's first byte to theirs, and the leaf's edits.
    Edited {
        base: Vec<u64>,
        begin: i64,
        edits: Box<[Edit]>,
        blocks: u64,
    },
}

/// The place of the words that an image shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseBefore {
    /// Distance before the image, in bytes.
    pub back: u64,
    /// Length in bytes.
    pub bytes: usize,
}

impl BaseBefore {
    /// The place for an image without its base; `None` for any other image.
    pub fn of(image: &[u8]) -> Option<BaseBefore> {
        let edited = image.len() >= EDITED_HEADER && image[..4] == MAGIC && image[4] == EDITED;
        let back = edited.then(|| u32_at(image, 24)).filter(|back| *back > 0)?;
        let words = (u32_at(image, 28) as usize).min(LEAF_MAX);
        Some(BaseBefore { back: back.into(), bytes: words * WORD })
    }
}

impl Node {
    fn encode_head(&self, id: NodeId, version: u8, entries: usize, head: &mut [u8]) {
        head[..4].copy_from_slice(&MAGIC);
        head[4..8].copy_from_slice(&[version, self.level(), 0, 0]);
        head[8..12].copy_from_slice(&id.0.to_le_bytes());
        head[12..16].copy_from_slice(&(entries as u32).to_le_bytes());
        head[16..24].copy_from_slice(&self.blocks.to_le_bytes());
    }

    /// Writes the image of this version, stored under `id`, to `out` in one of its forms. `out` has
    /// [`image_bytes_as`](Node::image_bytes_as) bytes.
    ///
    /// # Panics
    ///
    /// If the form is not one of this node's.
    pub fn encode_as(&self, id: NodeId, form: Form, out: &mut [u8]) {
        let (patched, back) = match (form, self.patched()) {
            (Form::Whole, _) => return self.encode(id, out),
            (Form::WithBase, Some(patched)) => (patched, 0),
            (Form::AfterBase { back }, Some(patched)) => (patched, back),
            (_, None) => panic!("{id} has no words in common with others"),
        };
        assert_eq!(out.len(), self.image_bytes_as(form), "the image has the node's size");
        let (base, edits) = (patched.base.words(), &patched.edits);
        self.encode_head(id, EDITED, edits.len(), out);
        out[24..28].copy_from_slice(&back.to_le_bytes());
        out[28..32].copy_from_slice(&(base.len() as u32).to_le_bytes());
        let (own, common) = out[EDITED_HEADER..].split_at_mut(edits.len() * EDIT);
        for (out, edit) in own.chunks_exact_mut(EDIT).zip(&edits[..]) {
            out[..4].copy_from_slice(&edit.at.to_le_bytes());
            out[4..].copy_from_slice(&edit.word.to_le_bytes());
        }
        put_words(base, common); // Nowhere, if it lies before this image.
    }

    /// Size of the node's image in a form, in bytes.
    pub fn image_bytes_as(&self, form: Form) -> usize {
        let own = EDITED_HEADER + EDIT * self.patched().map_or(0, |patched| patched.edits.len());
        match form {
            Form::Whole => self.image_bytes(),
            Form::WithBase => own + WORD * self.size(),
            Form::AfterBase { .. } => own,
        }
    }

    /// Offset of the base within an image [with base](Form::WithBase).
    pub fn base_at(&self) -> usize {
        self.image_bytes_as(Form::AfterBase { back: 0 })
    }

    /// Writes the image of this version, stored under `id`, to `out`, which has
    /// [`image_bytes`](Node::image_bytes) bytes.
    pub fn encode(&self, id: NodeId, out: &mut [u8]) {
        let (head, body) = out.split_at_mut(HEADER);
        self.encode_head(id, VERSION, self.size(), head);
        match &self.body {
            Body::Leaf(_) | Body::Patched(_) => {
                assert_eq!(body.len(), self.size() * WORD, "the image has the node's size");
                for (at, piece) in self.entries().pieces() {
                    put_words(piece, &mut body[at * WORD..]);
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

    /// Size of the node's image in bytes.
    pub fn image_bytes(&self) -> usize {
        HEADER + self.size() * if self.is_leaf() { WORD } else { EDGE }
    }

    /// Decodes and checks an image. Only the map can check the children. `before` has the bytes
    /// that [`BaseBefore`] names.
    pub(crate) fn decode(id: NodeId, image: &[u8], before: &[u8]) -> Result<Decoded, DecodeError> {
        let wrong = |what: String| DecodeError::new(format!("the image of {id} {what}"));
        if image.len() < HEADER || image[..4] != MAGIC {
            return Err(wrong("is not one: no magic".into()));
        }
        if !matches!(image[4], VERSION | EDITED) || image[6..8] != [0; 2] {
            return Err(wrong(format!("has version {}, not {VERSION} or {EDITED}", image[4])));
        }
        let (level, found) = (image[5], NodeId(u32_at(image, 8)));
        let (count, blocks) = (u32_at(image, 12) as usize, u64_at(image, 16));
        if found != id {
            return Err(wrong(format!("is that of {found}")));
        }
        if level > LEVEL_MAX || blocks > BLOCKS_MAX {
            return Err(wrong(format!("has level {level} and {blocks} blocks")));
        }
        if image[4] == EDITED {
            return edited(image, before, blocks).map_err(wrong);
        }
        let (least, most, each) = match level {
            0 => (usize::from(blocks > 0), LEAF_WORDS_HARD, WORD),
            _ => (1, INNER_MAX, EDGE),
        };
        // The writer's padding may follow the entries.
        if count < least || count > most || image.len() < HEADER + count * each {
            return Err(wrong(format!("has {count} entries in {} bytes", image.len())));
        }
        let entries = image[HEADER..HEADER + count * each].chunks_exact(each);
        if level == 0 {
            let words: Vec<u64> = entries.map(|entry| u64_at(entry, 0)).collect();
            check_words(&words, blocks).map_err(wrong)?;
            return Ok(Decoded::Node(Node::leaf(words)));
        }
        let mut edges: Vec<Edge> = entries.map(edge_at).collect();
        let odd = |e: &Edge| e.blocks == 0 || e.blocks > BLOCKS_MAX || e.child.0 == 0;
        if let Some(at) = edges.iter().position(odd) {
            let Edge { child, blocks, .. } = edges[at];
            return Err(wrong(format!("leads to {child} with {blocks} blocks")));
        }
        trim(&mut edges, usize::MAX);
        check_sum(edges.iter().map(|edge| edge.blocks), blocks).map_err(wrong)?;
        Ok(Decoded::Node(Node::inner(level, edges)))
    }
}

fn check_sum(lengths: impl Iterator<Item = u64>, blocks: u64) -> Result<(), String> {
    let sum: u128 = lengths.map(u128::from).sum();
    let equal = sum == u128::from(blocks);
    equal.then_some(()).ok_or_else(|| format!("says {blocks} blocks and has {sum}"))
}

/// Checks the words of a leaf of `blocks` blocks; the error says what is wrong.
fn check_words(words: &[u64], blocks: u64) -> Result<(), String> {
    if let Some(at) = words.iter().position(|w| !word::is_valid(*w, BLOCKS_MAX)) {
        return Err(format!("has word {:#018x} at {at}", words[at]));
    }
    if let Some(at) = words.windows(2).position(|w| word::join(w[0], w[1]).is_some()) {
        return Err(format!("has two words at {at} that should be one"));
    }
    check_sum(words.iter().map(|word| word::blocks(*word)), blocks)
}

/// Decodes an image with edits; the error says what is wrong.
fn edited(image: &[u8], before: &[u8], blocks: u64) -> Result<Decoded, String> {
    if image.len() < EDITED_HEADER {
        return Err(format!("ends after {} bytes", image.len()));
    }
    let (level, edits, words) = (image[5], u32_at(image, 12) as usize, u32_at(image, 28) as usize);
    if level != 0 || words == 0 || words > LEAF_MAX || edits > words {
        return Err(format!("has level {level}, {words} words in common and {edits} edits"));
    }
    let (own, rest) = image[EDITED_HEADER..]
        .split_at_checked(edits * EDIT)
        .ok_or_else(|| format!("has {edits} edits in {} bytes", image.len()))?;
    let (bytes, begin) = match BaseBefore::of(image) {
        Some(BaseBefore { back, .. }) => (before, -(back as i64)),
        None => (rest, (EDITED_HEADER + own.len()) as i64),
    };
    let base = bytes.get(..words * WORD).ok_or_else(|| {
        format!("has {words} words in common with others in {} bytes", bytes.len())
    })?;
    let base: Vec<u64> = base.chunks_exact(WORD).map(|word| u64_at(word, 0)).collect();
    // A word that no leaf has any more may be joinable with a neighbour, but must be valid.
    if let Some(at) = base.iter().position(|word| !word::is_valid(*word, BLOCKS_MAX)) {
        return Err(format!("has word {:#018x} at {at} in common with others", base[at]));
    }
    let mut words = base.clone();
    let (mut edits, mut least) = (Vec::with_capacity(edits), 0);
    for edit in own.chunks_exact(EDIT) {
        let (at, word) = (u32_at(edit, 0), u64_at(edit, 4));
        let fits = |old: &&mut u64| at >= least && word::blocks(**old) == word::blocks(word);
        let Some(old) = words.get_mut(at as usize).filter(fits) else {
            return Err(format!("has word {word:#018x} in place of word {at}"));
        };
        *old = word;
        edits.push(Edit { at, word });
        least = at + 1;
    }
    check_words(&words, blocks)?;
    Ok(Decoded::Edited { base, begin, edits: edits.into(), blocks })
}
