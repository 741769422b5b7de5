//! Follows docs/add-an-extern.md: applies its code to a copy of the crates and runs its test there.
//!
//! The copy is compiled without optimisation, with the dependencies that the checkout has compiled already: about 25 seconds
//! of CPU time, and none if nothing has changed since. It is a separate test target, so that the compiler does not run
//! beside tests that measure time.

#[path = "common/documents.rs"]
#[allow(dead_code)]
mod documents;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the page says that each of its Rust blocks belongs, in order: the file, and the text before which to insert the block;
/// at the end of the file if that is empty.
const PLACES: [(&str, &str); 6] = [
    ("crates/ir/src/function.rs", "    /// `(values…)`: sends them to the control plane."),
    ("crates/ir/src/work.rs", "            Function::Hash(hash) => {"),
    ("crates/externs/src/functions.rs", "        Function::Foreign(_) => return None,"),
    ("crates/externs/src/functions.rs", ""),
    ("crates/arch/src/v1model/externs.rs", "        _ => objects::foreign(cx, call),"),
    ("crates/arch/tests/behaviour.rs", ""),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn page() -> String {
    fs::read_to_string(root().join("docs/add-an-extern.md")).unwrap()
}

/// The text of the page's blocks with this mark.
fn blocks(mark: &str) -> Vec<String> {
    documents::blocks(&page()).into_iter().filter(|(found, _)| found == mark).map(|(_, body)| body).collect()
}

#[test]
fn the_code_of_the_page_works() {
    let page = page();
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("add-an-extern");
    let mut changed: Vec<(&str, String)> = Vec::new();
    let code = blocks("rust");
    assert_eq!(code.len(), PLACES.len(), "the page has another number of Rust blocks: adapt PLACES");
    for (code, (file, before)) in code.iter().zip(PLACES) {
        assert!(page.contains(file), "the page does not name {file}");
        if !changed.iter().any(|(name, _)| *name == file) {
            changed.push((file, fs::read_to_string(root().join(file)).unwrap()));
        }
        let (_, text) = changed.iter_mut().find(|(name, _)| *name == file).unwrap();
        let places: Vec<usize> = text.match_indices(before).map(|(at, _)| at).collect();
        let at = match before {
            "" => text.len(),
            _ => *places.first().unwrap_or_else(|| panic!("{file} has no {before:?}: adapt PLACES")),
        };
        text.insert_str(at, &format!("\n{code}\n"));
    }
    for name in ["Cargo.toml", "Cargo.lock"] {
        write(&copy.join(name), &fs::read(root().join(name)).unwrap());
    }
    for folder in ["crates", "p4", "python"] {
        update(&root().join(folder), &copy.join(folder), &|path| {
            let path = path.strip_prefix(root()).unwrap().to_str().unwrap();
            changed.iter().find(|(name, _)| *name == path).map(|(_, text)| text.clone())
        });
    }
    let mut cargo = Command::new(env!("CARGO"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    cargo.args(["test", "--offline", "--workspace", "--test", "arch"]).current_dir(&copy);
    cargo.env("CARGO_TARGET_DIR", target);
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    if profile == "release" {
        cargo.arg("--release");
    }
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        let manifest = fs::read_to_string(folder.unwrap().path().join("Cargo.toml")).unwrap();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"');
        cargo.args(["--config", &format!("profile.{profile}.package.{name}.opt-level=0")]);
    }
    let output = cargo.args(["--", "popcount"]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stdout.contains("test result: ok. 1 passed"), "{stdout}{stderr}");
    assert!(!stderr.contains("warning"), "{stderr}");
}

#[test]
fn the_message_of_the_page_is_printed() {
    let [program] = &blocks("p4")[..] else { panic!("the page shows one program") };
    let (declaration, call) = program.split_once("\n…\n").expect("a declaration and a call");
    let text = format!(
        "#include <core.p4>
#include <v1model.p4>
{declaration}
header report_t {{ bit<32> mask; bit<16> ones; }}
struct headers_t {{ report_t report; }}
struct metadata_t {{ bit<8> flags; }}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    state start {{ packet.extract(hdr.report); transition accept; }}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{ {call} }} }}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{ }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"
    );
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("add-an-extern.p4");
    fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_p4jet")).arg("check").arg(&file).output().unwrap();
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let page = page();
    let shown = page.lines().find(|line| line.contains("fine as P4")).expect("the message");
    assert!(printed.contains(shown.trim()), "{printed}");
}

/// Makes `to` a copy of the folder `from`, with other text for some files. It leaves files that are equal as they are, and thus
/// what was compiled from them.
fn update(from: &Path, to: &Path, other: &dyn Fn(&Path) -> Option<String>) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(to).unwrap().map(Result::unwrap) {
        if !from.join(entry.file_name()).exists() {
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
    }
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match other(&path) {
            _ if path.is_dir() => update(&path, &to, other),
            Some(text) => write(&to, text.as_bytes()),
            None => write(&to, &fs::read(&path).unwrap()),
        }
    }
}

/// Writes a file unless it has this content.
fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if fs::read(path).ok().as_deref() != Some(content) {
        fs::write(path, content).unwrap();
    }
}
