//! The names that the standard include files declare, for programs that lack an `#include`.

use crate::BUILTINS;
use p4jet_syntax::ast::DeclKind;
use p4jet_syntax::{Options, parse_text};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The files; each comes before those that include it.
const FILES: [&str; 3] = ["core.p4", "v1model.p4", "psa.p4"];

/// Returns the file that declares a name, which may be a match kind.
pub(crate) fn declares(name: &str) -> Option<&'static str> {
    static NAMES: OnceLock<HashMap<String, &'static str>> = OnceLock::new();
    NAMES.get_or_init(names).get(name).copied()
}

fn names() -> HashMap<String, &'static str> {
    let options = Options { builtins: BUILTINS.to_vec(), ..Options::default() };
    let mut names = HashMap::new();
    for file in FILES {
        let text = BUILTINS.iter().find(|(name, _)| *name == file).map_or("", |(_, text)| *text);
        for decl in parse_text(file, text, &options).program.decls {
            let declared = match &decl.kind {
                DeclKind::MatchKind(kinds) => kinds.iter().collect(),
                kind => Vec::from_iter(kind.name()),
            };
            for name in declared {
                names.entry(name.text.clone()).or_insert(file);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::declares;

    #[test]
    fn each_name_has_its_file() {
        for (name, file) in [
            ("packet_in", Some("core.p4")),
            ("NoAction", Some("core.p4")),
            ("verify", Some("core.p4")),
            ("lpm", Some("core.p4")),
            ("selector", Some("v1model.p4")),
            ("mark_to_drop", Some("v1model.p4")),
            ("V1Switch", Some("v1model.p4")),
            ("PSA_Switch", Some("psa.p4")),
            ("PortId_t", Some("psa.p4")),
            ("hdr", None),
        ] {
            assert_eq!(declares(name), file, "{name}");
        }
    }
}
