//! A format's names for the volumes of a trace.

use std::collections::BTreeSet;

use super::losses::Losses;
use crate::VolumeId;
use crate::trace::format::{Format, Names};
use crate::trace::volumes::Volumes;

/// The labels given so far. No two volumes have the same.
pub(super) struct Labels {
    format: Format,
    /// By volume; an index into `labels`.
    by_volume: Vec<Option<usize>>,
    labels: Vec<Vec<u8>>,
    taken: BTreeSet<Vec<u8>>,
}

impl Labels {
    pub(super) fn new(format: Format) -> Self {
        Labels { format, by_volume: Vec::new(), labels: Vec::new(), taken: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(super) fn get(&self, index: usize) -> &[u8] {
        &self.labels[index]
    }

    pub(super) fn all(&self) -> &[Vec<u8>] {
        &self.labels
    }

    /// Whether this volume was not seen before.
    pub(super) fn first_sight(&mut self, volume: VolumeId) -> bool {
        let index = volume.0 as usize;
        if self.by_volume.len() <= index {
            self.by_volume.resize(index + 1, None);
        }
        self.by_volume[index].replace(0).is_none()
    }

    /// The label of a volume, as an index for [`get`](Self::get).
    pub(super) fn of(&mut self, volume: VolumeId, volumes: &Volumes, losses: &mut Losses) -> usize {
        if let Some(Some(index)) = self.by_volume.get(volume.0 as usize) {
            return *index;
        }
        let unnamed = format!("volume{}", volume.0);
        let name = volumes.name(volume).unwrap_or(&unnamed);
        let label = self.choose(name, volume);
        losses.names_changed += u64::from(label != name.as_bytes());
        let index = self.labels.len();
        self.taken.insert(label.clone());
        self.labels.push(label);
        self.first_sight(volume);
        self.by_volume[volume.0 as usize] = Some(index);
        index
    }

    fn choose(&self, name: &str, volume: VolumeId) -> Vec<u8> {
        let fits = match (self.format, self.format.abilities().names) {
            (Format::Blkparse, _) => {
                pair(name).is_some_and(|(major, minor)| is_number(major) && is_number(minor))
            }
            (Format::Msr, _) => {
                pair(name).is_some_and(|(host, disk)| is_word(host) && is_number(disk))
            }
            (_, Names::Numbers) => is_number(name),
            (_, Names::Words) => is_word_of_fio(name),
            (_, Names::Any | Names::None) => true,
        };
        if fits && !self.taken.contains(name.as_bytes()) {
            return name.as_bytes().to_vec();
        }
        let word: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        (u64::from(volume.0)..)
            .map(|number| match self.format {
                Format::Blkparse => format!("259,{number}"),
                Format::Msr => format!("{word},{number}"),
                Format::FioV2 | Format::FioV3 => format!("{word}.{number}"),
                _ => number.to_string(),
            })
            .map(String::into_bytes)
            .find(|label| !self.taken.contains(label))
            .expect("there are more numbers than volumes")
    }
}

/// Cuts `host,disk`.
fn pair(name: &str) -> Option<(&str, &str)> {
    name.split_once(',')
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.len() <= 19 && name.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_./".contains(c)
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_plain)
}

/// fio ends a name at a blank; all else may be in it.
fn is_word_of_fio(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control())
}
