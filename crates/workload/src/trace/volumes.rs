//! The names of a trace's volumes.

use std::hash::BuildHasherDefault;

use hashbrown::HashMap;

use super::fault::{Fault, Malformed, quoted};
use crate::VolumeId;
use crate::mix::Mix;

/// The volumes of a trace, in the order in which they first occur.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    names: Vec<String>,
    by_name: HashMap<Box<[u8]>, VolumeId, BuildHasherDefault<Mix>>,
    last: Option<(Vec<u8>, VolumeId)>,
}

impl Volumes {
    /// The most volumes that one trace may have: bounds what a damaged trace can make us keep.
    pub const MAX: usize = 1 << 16;
    /// The longest name in bytes.
    pub const MAX_NAME: usize = 255;

    /// No volumes.
    pub fn new() -> Self {
        Volumes::default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name of a volume; `None` if there is no such volume.
    pub fn name(&self, id: VolumeId) -> Option<&str> {
        self.names.get(id.0 as usize).map(String::as_str)
    }

    /// All names, in the order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = (VolumeId, &str)> {
        self.names.iter().enumerate().map(|(id, name)| (VolumeId(id as u32), name.as_str()))
    }

    /// The volume of this name, made now if there is none. Bytes that are no UTF-8 are shown as
    /// replacement characters, but still told apart.
    ///
    /// # Errors
    ///
    /// [`Fault::Volume`] if the name is longer than [`Volumes::MAX_NAME`] or there are
    /// [`Volumes::MAX`] volumes.
    pub fn intern(&mut self, name: &[u8]) -> Result<VolumeId, Malformed> {
        if let Some((last, id)) = &self.last
            && last == name
        {
            return Ok(*id);
        }
        let id = match self.by_name.get(name) {
            Some(id) => *id,
            None => self.add(name)?,
        };
        let last = self.last.get_or_insert_default();
        last.0.clear();
        last.0.extend_from_slice(name);
        last.1 = id;
        Ok(id)
    }

    fn add(&mut self, name: &[u8]) -> Result<VolumeId, Malformed> {
        if name.len() > Self::MAX_NAME {
            return Err(Malformed::value(
                Fault::Volume,
                "the volume's name",
                name,
                "longer than 255 bytes",
            ));
        }
        if self.names.len() == Self::MAX {
            return Err(Malformed::new(
                Fault::Volume,
                format!(
                    "volume {} is one more than the 65,536 that a trace may have",
                    quoted(name)
                ),
            ));
        }
        let id = VolumeId(self.names.len() as u32);
        self.names.push(String::from_utf8_lossy(name).into_owned());
        self.by_name.insert(name.into(), id);
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number() {
        let mut volumes = Volumes::new();
        assert_eq!(volumes.intern(b"a").unwrap(), VolumeId(0));
        assert_eq!(volumes.intern(b"b").unwrap(), VolumeId(1));
        assert_eq!(volumes.intern(b"a").unwrap(), VolumeId(0));
        assert_eq!(volumes.name(VolumeId(1)), Some("b"));
        assert_eq!(volumes.name(VolumeId(2)), None);
    }

    #[test]
    fn names_that_look_alike_stay_apart() {
        let mut volumes = Volumes::new();
        assert_ne!(volumes.intern(b"\xff").unwrap(), volumes.intern(b"\xfe").unwrap());
    }

    #[test]
    fn the_number_of_volumes_is_bounded() {
        let mut volumes = Volumes::new();
        for number in 0..Volumes::MAX {
            volumes.intern(number.to_string().as_bytes()).unwrap();
        }
        assert_eq!(volumes.intern(b"one more").unwrap_err().fault, Fault::Volume);
        assert_eq!(volumes.intern(b"17").unwrap(), VolumeId(17));
        assert_eq!(volumes.intern(&[b'x'; 256]).unwrap_err().fault, Fault::Volume);
    }
}
