//! Golden tests of the passes: `tests/passes/PASS/*.ir` contain a program, a line `====`, and the output of the pass.
//!
//! `UPDATE_GOLDENS=1 cargo test -p p4jet-ir --test all passes::` writes the present output; read the diff.

use std::path::Path;

use p4jet_ir::{passes, text, verify};

const LINE: &str = "\n====\n";

#[test]
fn goldens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes");
    let update = std::env::var_os("UPDATE_GOLDENS").is_some();
    let mut cases = 0;
    for (pass_name, pass) in passes::PASSES {
        for file in std::fs::read_dir(folder.join(pass_name)).unwrap_or_else(|e| panic!("{pass_name}: {e}")) {
            let path = file.unwrap().path();
            let golden = std::fs::read_to_string(&path).unwrap();
            let name = path.display();
            let (before, expected) = match golden.split_once(LINE) {
                Some(parts) => parts,
                None if update => (golden.trim_end(), ""),
                None => panic!("{name}: no expectation; run with UPDATE_GOLDENS=1"),
            };
            let mut program = text::parse(before).unwrap_or_else(|e| panic!("{name}: {e}"));
            verify::verify(&program).unwrap_or_else(|e| panic!("{name}: {}", e[0]));
            pass(&mut program);
            verify::verify(&program).unwrap_or_else(|e| panic!("{name}, after: {}", e[0]));
            let found = text::print(&program);
            if update {
                std::fs::write(&path, format!("{before}{LINE}{found}")).unwrap();
            } else {
                assert_eq!(found, expected, "{name}");
            }
            cases += 1;
        }
    }
    assert!(cases >= 6, "{cases} cases");
}
