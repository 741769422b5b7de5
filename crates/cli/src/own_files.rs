//! The files that the switch itself uses: no port and no capture may write to them.

use p4jet_ports::{FileId, PortError};
use p4jet_syntax::span::SourceMap;
use std::path::{Path, PathBuf};

/// The files that the switch itself uses, besides those of its program.
#[derive(Default)]
pub struct OwnFiles {
    /// The state file.
    pub state: Option<PathBuf>,
    /// Each other file, and what it is.
    pub others: Vec<(PathBuf, &'static str)>,
}

impl OwnFiles {
    /// Checks that the file `file`, called `name`, to which a port or a capture would write, is none of them and no source of
    /// the running program. Files are compared as they are now, because state files and logs are replaced.
    pub fn check_output(
        &self,
        name: &Path,
        file: Option<&FileId>,
        program: &SourceMap,
    ) -> Result<(), PortError> {
        let is_same = |path: &Path| file.is_some() && FileId::of(path).as_ref() == file;
        let states = self.state.iter().flat_map(|path| p4jet_control::state_files(path));
        let states = states.map(|path| (path, "a state file of this switch (--state)"));
        let sources = program.files.iter().filter(|source| !source.builtin);
        let sources = sources.map(|source| (PathBuf::from(&source.name), "a source file of the program"));
        let mut all = states.chain(self.others.iter().cloned()).chain(sources);
        match all.find(|(path, _)| is_same(path)) {
            None => Ok(()),
            Some((_, what)) => {
                let name = name.display();
                Err(PortError::usage(format!(
                    "{name} is {what}, to which no port and no capture may write; choose another file"
                )))
            }
        }
    }
}
