//! "Did you mean": the nearest of several words.

/// Most choices that a list names.
pub(crate) const LISTED_MAX: usize = 12;
/// The longest word that is compared with others: the time grows with the square.
const WORD_MAX: usize = 60;

/// The choice nearest to `word`, the first of equally near ones, if it is near enough to be what was meant: one letter
/// in three may be missing, too many, wrong or swapped with the next, small and capital letters being one.
pub fn nearest<'a>(word: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    choices
        .into_iter()
        .filter(|choice| *choice != word && choice.len().max(word.len()) <= WORD_MAX)
        .map(|choice| (strsim::osa_distance(&lower, &choice.to_lowercase()), choice))
        .filter(|&(distance, choice)| {
            let letters = choice.chars().count().min(word.chars().count());
            distance <= if letters < 3 { 0 } else { (letters / 3).max(1) }
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, choice)| choice)
}

/// "`a`, `b`, `c`", cut off after a dozen.
pub fn list<S: AsRef<str>>(words: &[S]) -> String {
    some(words, LISTED_MAX)
}

/// The first of them: "`a`, `b` and 3 more".
pub fn some<S: AsRef<str>>(words: &[S], max: usize) -> String {
    let mut text = words.iter().take(max).map(|w| format!("`{}`", w.as_ref())).collect::<Vec<_>>().join(", ");
    if words.len() > max {
        text.push_str(&format!(" and {} more", words.len() - max));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_enough_or_nothing() {
        let choices = ["set_next_hop", "drop", "NoAction", "lpm", "count", "start"];
        for (word, meant) in [
            ("set_nexthop", Some("set_next_hop")),
            ("noaction", Some("NoAction")),
            ("lmp", Some("lpm")),
            ("cuont", Some("count")),
            ("strat", Some("start")),
            ("forward", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, choices), meant, "{word}");
        }
    }
}
