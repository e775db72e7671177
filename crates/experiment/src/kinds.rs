//! The sorts of run that experiments may ask for: a registry, filled from outside.

use std::fmt;

use crate::Kind;

/// The sorts of run that experiments may ask for. There are none but those that were added.
#[derive(Clone, Default)]
pub struct Kinds(Vec<&'static dyn Kind>);

impl Kinds {
    /// These and others.
    ///
    /// # Panics
    ///
    /// If a name is there already.
    pub fn with(mut self, others: &[&'static dyn Kind]) -> Self {
        for other in others {
            assert!(self.by_name(other.name()).is_none(), "{} is there already", other.name());
            self.0.push(*other);
        }
        self
    }

    /// The kind of that name.
    pub fn by_name(&self, name: &str) -> Option<&'static dyn Kind> {
        self.0.iter().copied().find(|kind| kind.name() == name)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|kind| kind.name())
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Kinds for tests of what is made of results.
#[cfg(test)]
pub(crate) mod unchecked {
    use super::*;
    use crate::Outcome;

    /// Takes every configuration, and measures nothing.
    struct Unchecked(&'static str);

    impl Kind for Unchecked {
        fn name(&self) -> &'static str {
            self.0
        }

        fn check(&self, _: &toml::Table) -> Result<(), String> {
            Ok(())
        }

        fn run(
            &self,
            _: &toml::Table,
            _: u64,
            _: &mut dyn FnMut(f64) -> bool,
        ) -> Result<Outcome, String> {
            Ok(Outcome::default())
        }
    }

    /// Kinds by the names of some that ship.
    pub fn kinds() -> Kinds {
        Kinds::default().with(&[&Unchecked("closed-form"), &Unchecked("reclaim-cost")])
    }

    #[test]
    fn a_kind_is_found_by_its_name_once_it_was_added() {
        assert!(Kinds::default().by_name("closed-form").is_none());
        assert!(kinds().by_name("closed-form").is_some() && kinds().by_name("open-form").is_none());
        assert_eq!(format!("{:?}", kinds()), r#"["closed-form", "reclaim-cost"]"#);
    }

    #[test]
    #[should_panic(expected = "closed-form is there already")]
    fn two_kinds_of_one_name_are_a_bug() {
        let _ = kinds().with(&[&Unchecked("closed-form")]);
    }
}
