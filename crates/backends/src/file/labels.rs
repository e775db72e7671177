//! The two labels of an open container: at any moment at least one is intact.

use std::io;

use super::warning::Warnings;
use super::write_block;
use crate::container::{LABELS_AT, Label};
use crate::io::Target;

pub(super) struct Labels {
    /// The content of at least one of the labels.
    pub label: Label,
    /// Which labels differ from it: damaged, or older and left by a crash while the container grew.
    pub unsound: [bool; 2],
    /// Whether to rewrite that label.
    pub mend: bool,
    pub warnings: Warnings,
}

impl Labels {
    /// Rewrites the differing label; tries once only. Called after a root was written: the writer
    /// of a root has opened the store by the valid label.
    pub fn mend(&mut self, target: &Target) -> io::Result<()> {
        if !std::mem::take(&mut self.mend) {
            return Ok(());
        }
        let label = self.label.clone();
        for slot in [0, 1] {
            if !self.unsound[slot] {
                continue;
            }
            // A label that cannot be written stays unchanged: the other label suffices.
            if write_block(target, &label.encode(), LABELS_AT[slot]).is_ok() {
                target.sync()?;
                self.is_sound(slot);
            }
        }
        Ok(())
    }

    /// Replaces the content of both labels.
    pub fn replace(&mut self, label: Label, target: &Target) -> io::Result<()> {
        self.mend = false;
        // The copy first, or the label that is unsound anyway.
        let mut slots = [1, 0];
        slots.sort_by_key(|slot| !self.unsound[*slot]);
        for slot in slots {
            self.unsound[slot] = true;
            write_block(target, &label.encode(), LABELS_AT[slot])?;
            target.sync()?;
            self.is_sound(slot);
        }
        self.label = label;
        Ok(())
    }

    fn is_sound(&mut self, slot: usize) {
        self.unsound[slot] = false;
        self.warnings.mended(LABELS_AT[slot]);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use tempfile::NamedTempFile;

    use super::*;
    use crate::Warning;

    fn label(zones: u32) -> Label {
        Label { uuid: [1; 16], zone_blocks: 256, zones, preallocated: false }
    }

    fn labels(unsound: [bool; 2]) -> Labels {
        let offset = LABELS_AT[usize::from(unsound[1])];
        let warning = Warning::LabelDamaged { name: "it".into(), offset };
        let warnings = Warnings::default();
        warnings.add(unsound.contains(&true).then_some(warning).into_iter());
        Labels { label: label(16), unsound, mend: true, warnings }
    }

    /// A target that takes no writes.
    fn read_only(file: &NamedTempFile) -> Target {
        Target::new(File::open(file.path()).unwrap())
    }

    fn has(file: &NamedTempFile, slot: usize, label: &Label) -> bool {
        let bytes = fs::read(file.path()).unwrap();
        bytes[LABELS_AT[slot] as usize..].starts_with(label.encode().as_ref())
    }

    #[test]
    fn one_that_cannot_be_written_keeps_no_root_from_being() {
        let file = NamedTempFile::new().unwrap();
        let mut labels = labels([true, false]);
        labels.mend(&read_only(&file)).unwrap();
        assert_eq!((labels.unsound, labels.warnings.list().len()), ([true, false], 1));
        labels.mend(&Target::new(file.reopen().unwrap())).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), [0; 0], "it is tried once");
    }

    #[test]
    fn the_one_that_is_not_sound_is_replaced_first() {
        for unsound in [[false, false], [true, false], [false, true]] {
            let file = NamedTempFile::new().unwrap();
            let mut labels = labels(unsound);
            assert!(labels.replace(label(20), &read_only(&file)).is_err());
            // As if the block was torn, which the failure may have left.
            let torn = usize::from(!unsound[0]);
            assert_eq!(
                labels.unsound,
                [torn == 0, torn == 1],
                "at most one, and {unsound:?} before"
            );
            assert_eq!(labels.label, label(16));
            labels.replace(label(20), &Target::new(file.reopen().unwrap())).unwrap();
            assert_eq!((labels.unsound, labels.warnings.list()), ([false, false], vec![]));
            assert!(has(&file, 0, &label(20)) && has(&file, 1, &label(20)));
        }
    }

    /// The newer one counts; what comes after must not bring the older one back.
    #[test]
    fn nothing_is_mended_once_they_were_to_be_replaced() {
        let file = NamedTempFile::new().unwrap();
        let mut labels = labels([false, true]);
        assert!(labels.replace(label(20), &read_only(&file)).is_err());
        labels.mend(&Target::new(file.reopen().unwrap())).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), [0; 0]);
    }
}
