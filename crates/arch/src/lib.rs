//! Architectures: they recognise the package of `main`, connect its blocks, and define the meaning of its externs.
//!
//! An architecture is one module that implements [`Architecture`] and one line in [`ALL`]. Lowering and the IR do not
//! know it.

mod data;
mod direct;
mod objects;
pub mod psa;
pub mod v1model;
mod writes;

use p4jet_analysis::typed;
pub use p4jet_lower::Architecture;

/// All architectures.
const ALL: &[&dyn Architecture] = &[&v1model::V1Model, &psa::Psa];

/// Returns the architecture for which a program is written.
pub fn detect(program: &typed::Program) -> Option<&'static dyn Architecture> {
    ALL.iter().copied().find(|a| a.recognises(program))
}

/// Returns the architecture with this name.
pub fn by_name(name: &str) -> Option<&'static dyn Architecture> {
    ALL.iter().copied().find(|a| a.name() == name)
}

/// Returns the names of all architectures.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|a| a.name()).collect()
}

/// Returns the name of the package that `main` instantiates and its number of parameters, because a program may declare
/// its own package under a name that an architecture uses.
pub fn main_package(program: &typed::Program) -> Option<(&str, usize)> {
    let main = &program.instances[program.main?.index()];
    match &main.ty {
        typed::Type::Package(id, _) => {
            let package = &program.packages[id.index()];
            Some((&package.name, package.params.len()))
        }
        _ => None,
    }
}
