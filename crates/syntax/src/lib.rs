//! P4 text to syntax tree: preprocessor, lexer, parser, and the diagnostics that all compiler stages share.
//!
//! ```
//! use p4jet_syntax::{Options, parse_text, render};
//!
//! let parsed = parse_text("port.p4", "const bit<9> DROP = 511;\nheader H { bit<8> x }\n", &Options::default());
//! assert_eq!(parsed.program.decls.len(), 2);
//! assert_eq!(
//!     render(&parsed.diagnostics, &parsed.sources, false),
//!     "\
//! error[syntax]: expected `;` after the field, found `}`
//!  --> port.p4:2:20
//!   |
//! 2 | header H { bit<8> x }
//!   |                    ^ expected `;`
//!
//! 1 error
//! "
//! );
//! ```

pub mod ast;
pub mod diagnostic;
pub mod json;
mod lexer;
mod literal;
mod parser;
mod preprocess;
mod render;
pub mod sources;
pub mod span;

pub use preprocess::FILE_BYTES_MAX;
pub use render::render;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The sources of included files, and the predefined macros.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-I`: directories of included files, in order.
    pub include_dirs: Vec<PathBuf>,
    /// `-D`: macros; one without a value is 1.
    pub defines: Vec<(String, Option<String>)>,
    /// Files that come with p4jet, by the name in `#include <name>`; a file in `include_dirs` has precedence.
    pub builtins: Vec<(&'static str, &'static str)>,
    /// The source of files.
    pub files: Files,
}

/// The source of the program and of the files that it includes.
#[derive(Clone, Debug, Default)]
pub enum Files {
    /// The file system.
    #[default]
    System,
    /// These texts, by path without `.` and `x/..`. Other files are read from the file system only if `and_system` is set.
    Given {
        /// The texts.
        texts: Arc<BTreeMap<PathBuf, String>>,
        /// True if a file that is missing here may come from the file system.
        and_system: bool,
    },
    /// Only these texts, by such paths: they are all files of the program, wherever it comes from.
    Whole(Arc<BTreeMap<PathBuf, String>>),
}

impl Files {
    /// Reads a file of at most [`FILE_BYTES_MAX`] bytes.
    pub(crate) fn read(&self, path: &Path) -> io::Result<String> {
        let (texts, and_system) = match self {
            Files::System => (None, true),
            Files::Given { texts, and_system } => (Some(texts), *and_system),
            Files::Whole(texts) => (Some(texts), false),
        };
        if let Some(text) = texts.and_then(|texts| texts.get(&sources::normalised(path))) {
            return Ok(text.clone());
        }
        if !and_system {
            return Err(ErrorKind::NotFound.into());
        }
        // P4_16 "Lexical constructs": comments and strings may contain any 8-bit characters.
        p4jet_files::read(path, FILE_BYTES_MAX).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The result of parsing a program.
#[derive(Debug)]
pub struct Parsed {
    /// The tree, without the parts that contain errors.
    pub program: ast::Program,
    /// The files that were read; the program is the first.
    pub sources: span::SourceMap,
    /// Errors and warnings in order of discovery.
    pub diagnostics: Vec<diagnostic::Diagnostic>,
}

/// Parses the program in the file `path`. Returns an error if this file cannot be read; an included file that cannot be read is
/// a diagnostic.
pub fn parse_file(path: &Path, options: &Options) -> io::Result<Parsed> {
    Ok(parse_text(&path.display().to_string(), &options.files.read(path)?, options))
}

/// Parses `text`; `name` appears in diagnostics, and its directory is the first place to look for `#include "x"`.
pub fn parse_text(name: &str, text: &str, options: &Options) -> Parsed {
    // The permitted nesting depth must not depend on the caller's remaining stack, nor on the build profile.
    std::thread::scope(|scope| {
        let parse = || parse_here(name, text, options);
        match p4jet_threads::builder("parser", PARSER_STACK_BYTES)
            .and_then(|thread| thread.spawn_scoped(scope, parse))
        {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // Without a thread, the caller's stack probably suffices.
            Err(_) => parse_here(name, text, options),
        }
    })
}

/// The output of the preprocessor.
#[derive(Debug)]
pub struct Preprocessed {
    /// The program without directives and macros. Line markers (`# 12 "router.p4"`) name the origin of what follows.
    pub text: String,
    /// The files that were read; the program is the first.
    pub sources: span::SourceMap,
    /// Errors and warnings in order of discovery.
    pub diagnostics: Vec<diagnostic::Diagnostic>,
}

/// Preprocesses the program in the file `path`, but does not parse it. Returns an error if this file cannot be read.
pub fn preprocess_file(path: &Path, options: &Options) -> io::Result<Preprocessed> {
    let output = preprocess::preprocess(&path.display().to_string(), &options.files.read(path)?, options);
    let text = output.print();
    Ok(Preprocessed { text, sources: output.sources, diagnostics: output.diagnostics })
}

/// Several times the stack for 256 levels of the largest frames in an unoptimised build.
const PARSER_STACK_BYTES: usize = 32 * 1024 * 1024;

fn parse_here(name: &str, text: &str, options: &Options) -> Parsed {
    let preprocess::Output { tokens, pragmas, interner, sources, mut diagnostics, aborted } =
        preprocess::preprocess(name, text, options);
    let (program, errors) = parser::parse(tokens, &pragmas, &interner);
    // A truncated program is not the user's syntax error.
    if !aborted {
        diagnostics.extend(errors);
    }
    Parsed { program, sources, diagnostics }
}
