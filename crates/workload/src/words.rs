//! Finds the word that a user probably meant.

/// The word nearest to `text`, if one is near.
pub(crate) fn nearest<'a>(text: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let text = text.to_ascii_lowercase();
    words
        .into_iter()
        .map(|word| (strsim::osa_distance(&text, word), word))
        .filter(|(distance, word)| *distance <= (word.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}
