//! Collects the files of a program, to be compiled elsewhere: [`crate::Files::Given`].

use crate::preprocess::FILE_BYTES_MAX;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// Maximum number of files of a program.
const FILES_MAX: usize = 1000;

/// Reads a program and, as far as they exist, the files that it and they name in `#include "…"`, whether or not a condition
/// skips that line. Files of `#include <…>` belong to the machine that compiles.
///
/// # Errors
///
/// Fails if the program cannot be read, or if there are more than 1,000 files or [`FILE_BYTES_MAX`] bytes.
pub fn collect(
    program: &Path,
    open: impl Fn(&Path) -> io::Result<File>,
) -> io::Result<BTreeMap<PathBuf, String>> {
    let mut texts = BTreeMap::new();
    let mut wanted = vec![program.to_path_buf()];
    let mut left = FILE_BYTES_MAX;
    while let Some(path) = wanted.pop() {
        // Files that include each other have ever longer paths.
        let name = normalised(&path);
        if texts.contains_key(&name) {
            continue;
        }
        let bytes = match open(&path).and_then(|file| p4jet_files::read_from(file, left)) {
            Ok(bytes) => bytes,
            Err(error) if path == program || error.kind() == ErrorKind::FileTooLarge => return Err(error),
            // The compiler reports that it is missing, if it is needed.
            Err(_) => continue,
        };
        if texts.len() >= FILES_MAX {
            return Err(io::Error::other(format!("the program has more than {FILES_MAX} files")));
        }
        left -= bytes.len() as u64;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let folder = path.parent().unwrap_or(Path::new(""));
        wanted.extend(text.lines().filter_map(included).map(|name| folder.join(name)));
        texts.insert(name, text);
    }
    Ok(texts)
}

/// Returns the path without `.` and `x/..`.
pub fn normalised(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Returns the name in `#include "name"`.
fn included(line: &str) -> Option<&str> {
    let directive = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
    let (name, _) = directive.trim_start().strip_prefix('"')?.split_once('"')?;
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_program_brings_what_it_includes() {
        let folder = std::env::temp_dir().join(format!("p4jet-collect-{}", std::process::id()));
        fs::create_dir_all(folder.join("lib")).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("main.p4", "#include <core.p4>\n #  include \"lib/a.p4\" // a\n#include \"missing.p4\"\n");
        write("lib/a.p4", "#ifndef A\n#define A\n#include \"b.p4\"\n#include \"../main.p4\"\n#endif\n");
        write("lib/b.p4", "const bit<8> B = 1;\n");
        let open = |path: &Path| File::open(path);
        let texts = collect(&folder.join("main.p4"), open).unwrap();
        let names: Vec<_> =
            texts.keys().map(|path| path.strip_prefix(&folder).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["lib/a.p4", "lib/b.p4", "main.p4"]);
        let main = folder.join("main.p4");
        fs::remove_dir_all(&folder).unwrap();
        let parse = |texts| {
            let files = crate::Files::Given { texts: std::sync::Arc::new(texts), and_system: false };
            let options = crate::Options { files, builtins: vec![("core.p4", "")], ..Default::default() };
            crate::parse_file(&main, &options)
        };
        let parsed = parse(texts).unwrap();
        let messages: Vec<_> = parsed.diagnostics.iter().map(|d| d.message.as_str()).collect();
        assert!(messages[0].contains("cannot find include file `missing.p4`"), "{messages:?}");
        // Nothing else is read, even if it exists.
        let nosy =
            BTreeMap::from([(main.clone(), "#include \"/etc/passwd\"\n#include </etc/passwd>\n".into())]);
        let parsed = parse(nosy).unwrap();
        assert_eq!(parsed.diagnostics.len(), 2);
        assert!(parsed.diagnostics.iter().all(|d| d.message.contains("cannot find include file")));
        assert!(collect(Path::new("/nowhere/x.p4"), open).is_err());
    }
}
