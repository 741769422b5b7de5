//! "Did you mean …?": finds the nearest of several words, and formats lists of words for messages.

/// Maximum number of choices that a list names.
pub const LISTED_MAX: usize = 12;
/// Maximum length of a word that is compared with others, because the time grows with the square.
const WORD_MAX: usize = 60;

/// Maximum number of choices that a word is compared with: the first ones with similar letters.
const COMPARED_MAX: usize = 1000;

/// Returns the choice nearest to `word`, the first of equally near ones, if it is near enough to be what was meant: one letter
/// in three may be missing, superfluous, wrong or swapped with the next one. The letters of the shorter word count, or those of
/// the longer one if that only has more, as `set_nexthop` for `set_nhop`. Upper and lower case are the same.
pub fn nearest<'a>(word: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > WORD_MAX {
        return None;
    }
    let lower = word.to_lowercase();
    let (letters, bag) = (lower.chars().count(), Bag::of(&lower));
    choices
        .into_iter()
        .filter(|choice| *choice != word && choice.len() <= WORD_MAX)
        .filter_map(|choice| {
            let choice_lower = choice.to_lowercase();
            let of_choice = choice_lower.chars().count();
            let (shorter, more) = (of_choice.min(letters), of_choice.abs_diff(letters));
            let far = if shorter < 3 { 0 } else { (shorter / 3).max(1) };
            let may_have_more = more <= (shorter + more) / 3;
            let may_be_near = (more <= far || may_have_more)
                && bag.distance(&Bag::of(&choice_lower)) <= if may_have_more { far.max(more) } else { far };
            may_be_near.then_some((far, may_have_more.then_some(more), choice_lower, choice))
        })
        .take(COMPARED_MAX)
        .map(|(far, more, choice_lower, choice)| {
            (far, more, strsim::osa_distance(&lower, &choice_lower), choice)
        })
        // The distance is the difference of the lengths if the longer word only has more letters.
        .filter(|(far, more, distance, _)| distance <= far || Some(*distance) == *more)
        .min_by_key(|&(.., distance, _)| distance)
        .map(|(.., choice)| choice)
}

/// Returns the text to add to the refusal of a word: `did you mean …? ` with a trailing space. Empty if no choice is near, or
/// if the word is a choice, so that something else is wrong.
pub fn did_you_mean<'a>(word: &str, choices: impl IntoIterator<Item = &'a str>) -> String {
    let choices: Vec<&str> = choices.into_iter().collect();
    match nearest(word, choices.iter().copied()) {
        Some(near) if !choices.contains(&word) => format!("did you mean `{near}`? "),
        _ => String::new(),
    }
}

/// Returns the number of edits (insert, delete, replace, swap neighbours) between two texts, of which the first [`WORD_MAX`]
/// characters count, to order choices.
pub fn distance(a: &str, b: &str) -> usize {
    let cut = |text: &str| text.char_indices().nth(WORD_MAX).map_or(text.len(), |(end, _)| end);
    strsim::osa_distance(&a[..cut(a)], &b[..cut(b)])
}

/// The number of occurrences of each letter in a word.
struct Bag([u8; 32]);

impl Bag {
    fn of(word: &str) -> Self {
        let mut counts = [0; 32];
        word.bytes().for_each(|byte| counts[usize::from(byte % 32)] += 1);
        Bag(counts)
    }

    /// Returns a lower bound of the edit distance: an edit of a letter changes two counts by one.
    fn distance(&self, other: &Bag) -> usize {
        let differences = self.0.iter().zip(&other.0).map(|(a, b)| usize::from(a.abs_diff(*b)));
        differences.sum::<usize>() / 2
    }
}

/// Returns "`a`, `b`, `c`", limited to [`LISTED_MAX`] words.
pub fn list<S: AsRef<str>>(words: &[S]) -> String {
    some(words, LISTED_MAX)
}

/// Returns the first words: "`a`, `b` and 3 more".
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
        let choices = ["set_next_hop", "drop", "NoAction", "lpm", "count", "start", "if"];
        for (word, meant) in [
            ("set_nexthop", Some("set_next_hop")),
            ("noaction", Some("NoAction")),
            ("lmp", Some("lpm")),
            ("cuont", Some("count")),
            ("strat", Some("start")),
            ("set_xyznext_hop", Some("set_next_hop")),
            ("next_hop", Some("set_next_hop")),
            ("iff", Some("if")),
            ("i", None),
            ("loop", None),
            ("forward", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, choices), meant, "{word}");
        }
    }

    #[test]
    fn a_hint_for_words_that_are_no_choice() {
        let choices = ["start", "stop", "strat"];
        assert_eq!(did_you_mean("strt", choices), "did you mean `start`? ");
        assert_eq!(did_you_mean("list", choices), "");
        assert_eq!(did_you_mean("strat", choices), "", "it is one");
    }

    /// Words with different letters take little time; the number of similar words that are compared is limited.
    #[test]
    fn the_number_of_compared_choices_is_limited() {
        let others: Vec<String> = (0..COMPARED_MAX).map(|i| format!("{i:04}drawrof")).collect();
        let long = "a_name_of_another_length".to_string();
        let choices = |n: usize, first: &'static str| {
            std::iter::once(first)
                .chain(others[..n].iter().map(String::as_str))
                .chain(std::iter::repeat_n(long.as_str(), 10_000))
                .chain(["forwarded"])
                .collect::<Vec<_>>()
        };
        assert_eq!(nearest("forwadred", choices(COMPARED_MAX - 1, "x")), Some("forwarded"));
        assert_eq!(nearest("forwadred", choices(COMPARED_MAX - 1, "dedrawrof")), None);
    }
}
