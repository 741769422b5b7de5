//! The files that the switch itself uses: no port, capture or command may write to them.

use p4jet_ports::{FileId, PortError};
use p4jet_syntax::span::SourceMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The files that the switch itself uses, besides those of its program.
#[derive(Default)]
pub struct OwnFiles {
    /// The state file.
    pub state: Option<PathBuf>,
    /// Each other file, and what it is.
    pub others: Vec<(PathBuf, &'static str)>,
}

/// The folder of a file and its name there.
fn place(path: &Path) -> Option<(PathBuf, OsString)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some((folder.canonicalize().ok()?, path.file_name()?.to_os_string()))
}

impl OwnFiles {
    /// What the file `name` is to the switch; `None` if the switch does not use it and it is no source of the running program.
    /// `file` is the file if it exists. Files are compared as they are now, because state files and logs are replaced.
    fn use_of(&self, name: &Path, file: Option<&FileId>, program: &SourceMap) -> Option<&'static str> {
        let is_same = |path: &Path| match file {
            Some(_) => FileId::of(path).as_ref() == file,
            None => place(name).is_some_and(|name| place(path) == Some(name)),
        };
        let states = self.state.iter().flat_map(|path| p4jet_control::state_files(path));
        let states = states.map(|path| (path, "a state file of this switch (--state)"));
        let sources = program.files.iter().filter(|source| !source.builtin);
        let sources = sources.map(|source| (PathBuf::from(&source.name), "a source file of the program"));
        let mut all = states.chain(self.others.iter().cloned()).chain(sources);
        all.find(|(path, _)| is_same(path)).map(|(_, what)| what)
    }

    /// Refuses the file `file`, called `name`, to which a port or a capture would write, if the switch uses it.
    pub fn check_output(
        &self,
        name: &Path,
        file: Option<&FileId>,
        program: &SourceMap,
    ) -> Result<(), PortError> {
        match self.use_of(name, file, program) {
            None => Ok(()),
            Some(what) => {
                let name = name.display();
                Err(PortError::usage(format!(
                    "{name} is {what}, to which no port and no capture may write; choose another file"
                )))
            }
        }
    }

    /// Refuses a file to which a command would write a dump, if the switch uses it.
    pub fn check_dump(&self, name: &Path, program: &SourceMap) -> Result<(), String> {
        match self.use_of(name, FileId::of(name).as_ref(), program) {
            None => Ok(()),
            Some(what) => {
                let name = name.display();
                Err(format!("{name} is {what}, to which no command may write; choose another file"))
            }
        }
    }
}
