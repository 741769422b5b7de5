//! "Did you mean": the nearest of several words.

/// The choice nearest to `word`, if it is near enough to be what was meant.
pub(crate) fn nearest<'a>(word: &str, choices: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 40 {
        return None;
    }
    choices
        .map(|choice| (distance(word, choice), choice))
        .filter(|&(distance, choice)| {
            if choice == word {
                return false;
            }
            let length = choice.len().min(word.len());
            distance <= if length >= 6 { 2 } else { usize::from(length >= 3) }
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, choice)| choice)
}

/// How many letters to insert, delete, change or swap with the next, small and capital letters being one.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().map(|c| c.to_ascii_lowercase()).collect();
    let b: Vec<char> = b.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

/// "`a`, `b`, `c`"
pub(crate) fn list(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}
