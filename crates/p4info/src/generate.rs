//! From the typed program to P4Info and the initial entries.

use p4jet_analysis::typed::Program;
use p4jet_syntax::diagnostic::Diagnostic;

use crate::blocks::Blocks;
use crate::entries;
use crate::generator::Generator;
use crate::proto::config::P4Info;
use crate::proto::v1::WriteRequest;
use crate::types::Types;

/// The annotations with constraints.
const CONSTRAINTS: [&str; 2] = ["entry_restriction", "action_restriction"];

/// The control plane's view of a program.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Its objects.
    pub p4info: P4Info,
    /// The entries that the program declares, as one batch of insertions.
    pub entries: WriteRequest,
    /// Warnings about doubtful declarations.
    pub warnings: Vec<Diagnostic>,
}

/// Describes a program for the control plane; `arch` is the name of its architecture. What cannot be described is an error.
pub fn generate(program: &Program, arch: &str) -> Result<Generated, Vec<Diagnostic>> {
    let (generated, errors) = generate_all(program, arch)?;
    if errors.is_empty() { Ok(generated) } else { Err(errors) }
}

/// Checks the constraints of a program's tables and actions, which only P4Runtime enforces. Returns their errors.
pub fn check_constraints(program: &Program, arch: &str) -> Vec<Diagnostic> {
    let tables = program.tables.iter().map(|table| &table.annotations);
    let mut all = tables.chain(program.actions.iter().map(|action| &action.annotations)).flatten();
    if !all.any(|annotation| CONSTRAINTS.contains(&annotation.name.text.as_str())) {
        return Vec::new();
    }
    // A program without P4Info cannot be run with P4Runtime, so nothing enforces its constraints.
    generate_all(program, arch).map(|(_, errors)| errors).unwrap_or_default()
}

/// Describes a program; also returns the errors of its constraints.
fn generate_all(program: &Program, arch: &str) -> Result<(Generated, Vec<Diagnostic>), Vec<Diagnostic>> {
    let Some(main) = program.main else { return Err(vec![p4jet_analysis::no_main(program)]) };
    let blocks = Blocks::of(program, main).map_err(|error| vec![*error])?;
    let mut generator = Generator::new(program, arch, blocks);
    let found = generator.collect();
    generator.symbols.settle();
    generator.describe(&found);
    generator.package(main, arch);
    let entries = entries::initial(&mut generator, &found.tables);
    let Generator { mut info, types: Types { info: types, mut errors, .. }, warnings, .. } = generator;
    let mut of_constraints = generator.constraint_errors;
    info.type_info = types;
    match errors.is_empty() {
        true => Ok((Generated { p4info: info, entries, warnings }, of_constraints)),
        false => {
            errors.append(&mut of_constraints);
            Err(errors)
        }
    }
}
