//! Documents whose examples are run.

use std::fs;
use std::path::Path;

/// The fenced blocks of a document: the mark after the fence, and the text.
pub fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(mark) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
            blocks.push((mark.to_string(), body.join("\n")));
        }
    }
    blocks
}

/// The calls of p4jet in a block of shell text, as a shell in `folder` would make them of it; what else is there is passed
/// over, and so are calls that need an interface (`@veth`).
///
/// A `*` is expanded when its call's turn comes: earlier calls may make the files.
pub fn calls(body: &str, folder: &Path) -> impl Iterator<Item = Vec<String>> {
    let joined = body.replace("\\\n", " ");
    let lines = joined.lines().filter_map(|l| l.strip_prefix("p4jet ")).filter(|l| !l.contains("@veth"));
    let codes: Vec<String> = lines.map(|l| l.split(" #").next().unwrap_or(l).to_string()).collect();
    codes.into_iter().map(|code| code.split_whitespace().flat_map(|word| expand(folder, word)).collect())
}

/// What a shell makes of a `*` in the last part of a path.
fn expand(folder: &Path, word: &str) -> Vec<String> {
    let Some((path, pattern)) = word.rsplit_once('/').filter(|(_, name)| name.contains('*')) else {
        return vec![word.to_string()];
    };
    let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
    let entries = fs::read_dir(folder.join(path)).unwrap_or_else(|e| panic!("{word}: {e}"));
    let names = entries.map(|e| e.expect("readable").file_name().to_string_lossy().into_owned());
    let mut paths: Vec<_> = names
        .filter(|n| n.starts_with(before) && n.ends_with(after))
        .map(|n| format!("{path}/{n}"))
        .collect();
    assert!(!paths.is_empty(), "{word} matches nothing");
    paths.sort();
    paths
}
