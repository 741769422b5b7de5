//! The P4 program behind a JSON file that p4c wrote for bmv2.

use crate::compile;
use std::path::{Path, PathBuf};

/// Returns the P4 program for a path: for a JSON file that p4c wrote for bmv2, its source.
pub fn source_of(program: &Path) -> Result<PathBuf, String> {
    if program.extension().is_none_or(|extension| extension != "json") {
        return Ok(program.to_path_buf());
    }
    // p4jet's own p4c puts the source into the JSON.
    if compile::wrapped(program, &p4jet_syntax::Files::System).is_ok_and(|source| source.is_some()) {
        return Ok(program.to_path_buf());
    }
    let folder = program.parent().unwrap_or(Path::new(""));
    let above = folder.join("..");
    let mut places: Vec<PathBuf> = Vec::new();
    if let Some(named) = named_in(program) {
        // Relative to the folder in which p4c ran, which is unknown.
        places.extend([folder.join(&named), above.join(&named), named.clone()]);
        if let Some(name) = named.file_name() {
            places.extend([folder.join(name), above.join(name)]);
        }
    }
    let name = program.with_extension("p4");
    if let Some(name) = name.file_name() {
        places
            .extend([folder, &above, &above.join("p4src"), &above.join("src")].map(|place| place.join(name)));
    }
    if let Some(place) = places.iter().find(|place| place.is_file()) {
        return Ok(place.clone());
    }
    let this = if program.exists() { "this JSON" } else { "this JSON, which does not exist either" };
    let mut seen = Vec::new();
    for place in places {
        let place = format!("\n  {}", place.display());
        if !seen.contains(&place) {
            seen.push(place);
        }
    }
    Err(format!(
        "{}: p4jet compiles the P4 program itself and found none for {this}; it looked for{}\nname the .p4 file instead",
        program.display(),
        seen.concat()
    ))
}

/// Returns the source that a JSON file of p4c names.
fn named_in(json: &Path) -> Option<PathBuf> {
    #[derive(serde::Deserialize)]
    struct Named {
        program: Option<PathBuf>,
    }
    let text = crate::output::read_text(json).ok()?;
    serde_json::from_str::<Named>(&text)
        .ok()?
        .program
        .filter(|named| named.extension().is_some_and(|e| e == "p4"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_source_of_a_json() {
        let top = std::env::temp_dir().join(format!("p4jet-source-of-{}", std::process::id()));
        let build = top.join("build");
        fs::create_dir_all(&build).unwrap();
        let json = build.join("basic.json");
        assert_eq!(source_of(Path::new("x.p4")), Ok("x.p4".into()));
        let error = source_of(&json).unwrap_err();
        for place in ["build/basic.p4", "build/../basic.p4"] {
            assert!(error.contains(place), "{error}");
        }
        fs::write(top.join("basic.p4"), "").unwrap();
        assert_eq!(source_of(&json), Ok(build.join("../basic.p4")), "the JSON need not be there");
        fs::write(top.join("other.p4"), "").unwrap();
        fs::write(&json, r#"{"program": "other.p4", "__meta__": {"version": [2, 23]}}"#).unwrap();
        assert_eq!(source_of(&json), Ok(build.join("../other.p4")), "what the JSON says comes first");
        fs::write(&json, "{").unwrap();
        assert_eq!(source_of(&json), Ok(build.join("../basic.p4")));
        fs::remove_dir_all(&top).unwrap();
    }
}
