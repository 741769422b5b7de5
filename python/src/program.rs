//! Compiled programs.

use p4jet_analysis::typed;
use p4jet_arch::Architecture;
use p4jet_compile::Compiled;
use p4jet_p4info::Format;
use p4jet_p4info::reflect::Reflect;
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::SourceMap;
use p4jet_syntax::{Files, Options, json};
use p4jet_tools::{complexity, derive};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;

create_exception!(
    _native,
    Diagnosed,
    PyException,
    "Diagnostics: one JSON object per line, and as the binary prints them."
);

/// A compiled program.
#[pyclass(frozen)]
pub struct Program {
    typed: typed::Program,
    architecture: &'static dyn Architecture,
    warnings: Vec<Diagnostic>,
    name: String,
    /// For switches without output queues.
    pub(crate) compiled: Compiled,
}

/// The exception for these diagnostics.
fn diagnosed(diagnostics: &[Diagnostic], sources: &SourceMap) -> PyErr {
    Diagnosed::new_err((json::lines(diagnostics, sources), p4jet_syntax::render(diagnostics, sources, false)))
}

impl Program {
    /// Compiles the program for switches with output queues.
    pub(crate) fn queued(&self) -> PyResult<Compiled> {
        let queued = p4jet_compile::lower(&self.typed, self.architecture, &self.name, true);
        queued.map_err(|errors| diagnosed(&errors, &self.typed.sources))
    }
}

#[pymethods]
impl Program {
    /// Compiles the file `path`, or `text` under that name.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        text: Option<&str>,
        include: Vec<PathBuf>,
        define: Vec<String>,
        arch: &str,
    ) -> PyResult<Program> {
        let options = Options {
            include_dirs: include,
            defines: p4jet_compile::defines(&define),
            builtins: p4jet_analysis::BUILTINS.to_vec(),
            files: Files::System,
        };
        let name = path
            .file_stem()
            .map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned());
        py.detach(|| {
            let parsed = match text {
                Some(text) => p4jet_syntax::parse_text(&path.display().to_string(), text, &options),
                None => p4jet_syntax::parse_file(&path, &options).map_err(|error| {
                    PyOSError::new_err(format!("cannot read {}: {error}", path.display()))
                })?,
            };
            let (typed, warnings) = p4jet_compile::analyse(parsed, |_| ())
                .map_err(|refused| diagnosed(&refused.diagnostics, &refused.sources))?;
            let all = |more: Vec<Diagnostic>| {
                let all: Vec<Diagnostic> = warnings.iter().cloned().chain(more).collect();
                diagnosed(&all, &typed.sources)
            };
            let architecture = match arch {
                "auto" => p4jet_compile::architecture(&typed).map_err(|error| all(vec![*error]))?,
                _ => p4jet_arch::by_name(arch).ok_or_else(|| {
                    let known = p4jet_arch::names().join(", ");
                    PyValueError::new_err(format!("unknown architecture `{arch}`; there are: auto, {known}"))
                })?,
            };
            let compiled = p4jet_compile::lower(&typed, architecture, &name, false).map_err(all)?;
            Ok(Program { typed, architecture, warnings, name, compiled })
        })
    }

    /// The name of the program in reports.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The architecture's name.
    #[getter]
    fn arch(&self) -> &str {
        self.architecture.name()
    }

    /// The warnings: one JSON object per line, and as text.
    fn warnings(&self) -> (String, String) {
        let (warnings, sources) = (&self.warnings, &self.typed.sources);
        (json::lines(warnings, sources), p4jet_syntax::render(warnings, sources, false))
    }

    /// The objects of the program with their shapes, as JSON.
    fn schema(&self) -> PyResult<String> {
        let schema = p4jet_control::Schema::new(&self.compiled.program);
        serde_json::to_string(schema.description()).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// P4Info, or with `entries` the declared entries as a WriteRequest, in the form `text`, `json` or `binary`.
    fn p4info(&self, format: &str, entries: bool) -> PyResult<Vec<u8>> {
        let format = match format {
            "text" => Format::Text,
            "json" => Format::Json,
            "binary" => Format::Binary,
            other => {
                return Err(PyValueError::new_err(format!(
                    "unknown format `{other}`; there are: text, json, binary"
                )));
            }
        };
        let generated = p4jet_p4info::generate(&self.typed, self.architecture.name())
            .map_err(|errors| diagnosed(&errors, &self.typed.sources))?;
        let message: &dyn Reflect = if entries { &generated.entries } else { &generated.p4info };
        Ok(format.write(message))
    }

    /// The complexity: as JSON, and as Markdown.
    fn complexity(&self, py: Python<'_>) -> PyResult<(String, String)> {
        let options = derive::Options::default();
        let found = py.detach(|| complexity::complexity(&self.compiled.lowered, &self.typed, &options));
        let found = found.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((found.to_json().to_string(), found.markdown(&self.name)))
    }

    /// The graph of parsers and controls as an SVG picture.
    fn svg(&self) -> String {
        complexity::svg(&self.typed)
    }
}
