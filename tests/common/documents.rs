//! Extracts the examples of documents, which are run.

use std::fs;
use std::path::Path;

/// Returns the fenced blocks of a document: the mark after the fence, and the text.
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

/// Returns the calls of p4jet in a block of shell text, expanded like by a shell in `folder`; other lines are skipped, and
/// so are calls that need an interface (`@veth`).
///
/// A `*` is expanded just before its call, because earlier calls may create the files.
pub fn calls(body: &str, folder: &Path) -> impl Iterator<Item = Vec<String>> {
    let joined = body.replace("\\\n", " ");
    let lines = joined.lines().filter_map(|l| l.strip_prefix("p4jet ")).filter(|l| !l.contains("@veth"));
    let codes: Vec<String> = lines.map(|l| l.split(" #").next().unwrap_or(l).to_string()).collect();
    codes.into_iter().map(|code| code.split_whitespace().flat_map(|word| expand(folder, word)).collect())
}

/// Expands a `*` in the last part of a path like a shell.
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
