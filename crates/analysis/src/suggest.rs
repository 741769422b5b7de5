//! "Did you mean": the closest of the valid choices.

/// Most choices that a note lists.
const LISTED_MAX: usize = 12;

/// The choice nearest to `name`, if it is near enough to be a slip of the pen: a third of the letters may
/// differ.
pub(crate) fn nearest<'a>(name: &str, choices: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = name.chars().count();
    let limit = if letters < 3 { 0 } else { (letters / 3).max(1) };
    choices
        .into_iter()
        .filter(|choice| *choice != name)
        .map(|choice| (distance(&name.to_lowercase(), &choice.to_lowercase()), choice))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, choice)| choice)
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// "`a`, `b`, `c`", cut off after a dozen.
pub(crate) fn list<S: AsRef<str>>(names: &[S]) -> String {
    some(names, LISTED_MAX)
}

/// The first of them: "`a`, `b` and 3 more".
pub(crate) fn some<S: AsRef<str>>(names: &[S], max: usize) -> String {
    let mut text = names.iter().take(max).map(|n| format!("`{}`", n.as_ref())).collect::<Vec<_>>().join(", ");
    if names.len() > max {
        text.push_str(&format!(" and {} more", names.len() - max));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_enough_or_nothing() {
        let choices = ["set_next_hop", "drop", "NoAction"];
        assert_eq!(nearest("set_nexthop", choices), Some("set_next_hop"));
        assert_eq!(nearest("noaction", choices), Some("NoAction"));
        assert_eq!(nearest("forward", choices), None);
        assert_eq!(nearest("x", ["y"]), None);
    }
}
