//! `p4c`, `p4c-bm2-ss`, `p4c-bm2-psa` and `p4test`: the command lines of p4c's programs, so that Makefiles and scripts written for
//! them compile with p4jet. They write P4Info, and a JSON file that holds the program's source (crates/p4runtime/src/programs.rs).

use crate::compile::{self, ProgramArgs, SourceArgs};
use crate::failure::Failure;
use clap::Parser;
use p4jet_control::Source;
use p4jet_p4info::Format;
use p4jet_p4info::reflect::Reflect;
use p4jet_p4runtime::programs;
use p4jet_syntax::sources;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A program of p4c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// The driver: writes into a folder.
    Driver,
    /// A back end, with the architecture of its programs: writes a file.
    BackEnd(&'static str),
    /// The front end alone.
    Test,
}

impl Tool {
    /// The program of this name.
    pub fn by_name(name: &str) -> Option<Tool> {
        Some(match name {
            "p4c" => Tool::Driver,
            "p4c-bm2-ss" => Tool::BackEnd("v1model"),
            "p4c-bm2-psa" => Tool::BackEnd("psa"),
            "p4test" => Tool::Test,
            _ => return None,
        })
    }
}

/// The P4 compiler of p4jet, with p4c's command line.
#[derive(Parser, Debug)]
#[allow(dead_code, reason = "some options are accepted without effect")]
#[command(name = "p4c", disable_version_flag = true, infer_long_args = true, args_override_self = true)]
struct Options {
    /// The P4_16 program.
    #[arg(required_unless_present_any = ["version", "target_help"])]
    program: Option<PathBuf>,
    /// Target: bmv2 (or bmv2-ss-p4org, bmv2-psa-p4org with the architecture).
    #[arg(short = 'b', long, alias = "backend", value_name = "TARGET")]
    target: Option<String>,
    /// Architecture: v1model or psa.
    #[arg(short = 'a', long, value_name = "ARCH")]
    arch: Option<String>,
    /// List the targets.
    #[arg(long)]
    target_help: bool,
    /// p4c: write PROGRAM.json into this folder. p4c-bm2-ss: write this file.
    #[arg(short, long = "output", value_name = "PATH")]
    output: Option<PathBuf>,
    /// Language: p4-16.
    #[arg(short = 'x', long = "std", alias = "language", value_name = "STD")]
    language: Option<String>,
    /// Language version: 16.
    #[arg(long = "p4v", value_name = "16")]
    version_of_p4: Option<String>,
    /// Write P4Info to these files; the ending selects the format: .txtpb, .json or .bin.
    #[arg(long = "p4runtime-files", value_name = "FILE,…", value_delimiter = ',')]
    p4runtime_files: Vec<PathBuf>,
    /// Write P4Info to this file.
    #[arg(long = "p4runtime-file", value_name = "FILE")]
    p4runtime_file: Option<PathBuf>,
    /// The format of that file.
    #[arg(long = "p4runtime-format", value_name = "FORMAT", value_parser = ["text", "json", "binary"])]
    p4runtime_format: Option<String>,
    /// Write the program's entries to these files, as for P4Info.
    #[arg(long = "p4runtime-entries-files", value_name = "FILE,…", value_delimiter = ',')]
    entries_files: Vec<PathBuf>,
    /// Write the program's entries to this file.
    #[arg(long = "p4runtime-entries-file", value_name = "FILE")]
    entries_file: Option<PathBuf>,
    /// Search this folder for included files.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Define a macro.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Undefine a macro.
    #[arg(short = 'U', value_name = "NAME")]
    undefine: Vec<String>,
    /// Hide warnings.
    #[arg(long = "Wdisable", value_name = "NAME,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    hidden: Vec<String>,
    /// Turn warnings into errors.
    #[arg(long = "Werror", value_name = "NAME,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    errors: Vec<String>,
    /// Show warnings.
    #[arg(long = "Wwarn", value_name = "NAME,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    warnings: Vec<String>,
    /// Show warnings as infos.
    #[arg(long = "Winfo", value_name = "NAME,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    infos: Vec<String>,
    /// Accepted without effect.
    #[arg(long = "Wall")]
    all_warnings: bool,
    /// Hide all warnings.
    #[arg(short = 'w')]
    quiet: bool,
    /// Accepted without effect.
    #[arg(short = 'O', action = clap::ArgAction::Count)]
    optimisation: u8,
    /// Accepted without effect.
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    verbose: u8,
    /// Accepted without effect.
    #[arg(short = 'g', action = clap::ArgAction::Count)]
    debug: u8,
    /// Accepted without effect.
    #[arg(short = 'S')]
    assemble: bool,
    /// Accepted without effect.
    #[arg(short = 'c')]
    no_link: bool,
    /// Print the preprocessed program, and stop.
    #[arg(short = 'E')]
    preprocess_only: bool,
    /// Accepted without effect.
    #[arg(long = "emit-externs")]
    emit_externs: bool,
    /// Accepted without effect.
    #[arg(long = "toJSON", value_name = "FILE")]
    to_json: Option<PathBuf>,
    /// Accepted without effect.
    #[arg(long = "pp", value_name = "FILE")]
    pretty: Option<PathBuf>,
    /// Accepted without effect.
    #[arg(long = "top4", value_name = "PASSES")]
    passes: Option<String>,
    /// Accepted without effect.
    #[arg(long = "dump", value_name = "DIR")]
    dump: Option<PathBuf>,
    /// Accepted without effect.
    #[arg(short = 'T', value_name = "LOG")]
    log: Vec<String>,
    /// Accepted without effect.
    #[arg(long = "excludeFrontendPasses", alias = "excludeMidendPasses", value_name = "PASSES")]
    excluded_passes: Vec<String>,
    /// Accepted without effect.
    #[arg(long = "maxErrorCount", value_name = "COUNT")]
    errors_max: Option<u64>,
    /// Accepted without effect.
    #[arg(long, value_name = "METRICS")]
    metrics: Option<String>,
    /// Accepted without effect.
    #[arg(
        long = "testJson",
        aliases = ["nocpp", "parser-inline-opt", "doNotEmitIncludes", "debug", "test-only", "preferSwitch", "keepTuples", "turn-off-logn", "validate"]
    )]
    no_effect: bool,
    /// Accepted without effect.
    #[arg(long = "loopsUnroll", value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    unroll: Option<String>,
    /// Print the version.
    #[arg(long)]
    version: bool,
}

/// Compiles as one of p4c's programs.
pub fn run(tool: Tool, args: &[OsString]) -> Result<(), Failure> {
    let options = match Options::try_parse_from(words(args)) {
        Ok(options) => options,
        Err(error) if error.use_stderr() => return Err(Failure::Input(error.to_string())),
        Err(help) => return crate::output::write(format_args!("{help}")),
    };
    if options.version {
        let version = env!("CARGO_PKG_VERSION");
        return crate::output::write(format_args!("p4c 1.2.5 (p4jet {version})\n"));
    }
    if options.target_help {
        return crate::output::write(format_args!(
            "Supported targets in \"target, arch\" tuple:\nbmv2-psa\nbmv2-v1model\n"
        ));
    }
    let arch = architecture(tool, &options)?;
    let language = |text: &str| text.ends_with("16");
    if let Some(other) = options.language.iter().chain(&options.version_of_p4).find(|text| !language(text)) {
        return Err(Failure::Input(format!("p4jet reads P4_16, not `{other}`")));
    }
    let Some(program) = options.program.clone() else { return Ok(()) };
    let mut define = options.define.clone();
    define.retain(|given| {
        let name = given.split('=').next().unwrap_or_default();
        !options.undefine.iter().any(|undefined| undefined == name)
    });
    let warnings = warnings(&options).map_err(|error| Failure::Input(error.to_string()))?;
    let source = SourceArgs {
        include: options.include.clone(),
        define: define.clone(),
        arch,
        warnings,
        diagnostics: Default::default(),
    };
    let args = ProgramArgs { program: program.clone(), source };
    if options.preprocess_only {
        let (text, warnings) = compile::preprocess(&args)?;
        eprint!("{warnings}");
        return crate::output::write(format_args!("{text}"));
    }
    let typed = compile::front_end(&args)?;
    let compiled = match tool {
        // p4test also accepts programs that cannot run.
        Tool::Test => return write_p4info(&options, || typed.p4info(&args.source.arch)),
        Tool::Driver | Tool::BackEnd(_) => typed.lower(&args.source.arch)?,
    };
    write_p4info(&options, || compiled.p4info())?;
    let json = match (tool, &options.output) {
        (Tool::Driver, folder) => {
            let folder = folder.clone().unwrap_or_else(|| PathBuf::from("."));
            let created = std::fs::create_dir_all(&folder);
            created.map_err(|e| Failure::Environment(format!("cannot create {}: {e}", folder.display())))?;
            let base = folder.join(program.file_stem().unwrap_or_default());
            // The front end has shown the warnings.
            let (text, _) = compile::preprocess(&args)?;
            write(&base.with_added_extension("p4i"), text.as_bytes())?;
            base.with_added_extension("json")
        }
        (_, Some(file)) => file.clone(),
        (_, None) => return Ok(()),
    };
    let texts: BTreeMap<PathBuf, String> = (compiled.typed.sources.files.iter())
        .filter(|file| !file.builtin)
        .map(|file| (sources::normalised(Path::new(&file.name)), file.text.clone()))
        .collect();
    let source = Source {
        path: sources::normalised(&program),
        texts: Arc::new(texts),
        include: options.include.clone(),
        define,
    };
    write(&json, programs::wrap(&source).as_bytes())
}

/// The words of a command line: `-Xp4c=` and `-Xpreprocessor=` pass words on, and a long option with one dash gets a second one.
fn words(args: &[OsString]) -> Vec<OsString> {
    let mut words = vec![OsString::from("p4c")];
    for arg in args {
        let Some(text) = arg.to_str() else {
            words.push(arg.clone());
            continue;
        };
        let handed_on = ["-Xp4c=", "-Xpreprocessor=", "-Xassembler=", "-Xlinker="];
        if let Some(more) = handed_on.iter().find_map(|prefix| text.strip_prefix(prefix)) {
            words.extend(more.split_whitespace().map(OsString::from));
        } else if text != "-###" {
            words.push(arg.clone());
        }
    }
    words
}

/// The architecture that the command line requests.
fn architecture(tool: Tool, options: &Options) -> Result<String, Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (target, arch) = match tool {
        Tool::Driver => (
            options.target.clone().or_else(|| variable("P4C_DEFAULT_TARGET")),
            options.arch.clone().or_else(|| variable("P4C_DEFAULT_ARCH")),
        ),
        Tool::BackEnd(arch) => return Ok(options.arch.clone().unwrap_or_else(|| arch.to_string())),
        Tool::Test => return Ok(options.arch.clone().unwrap_or_else(|| "auto".to_string())),
    };
    let target = target.unwrap_or_else(|| "bmv2".to_string());
    let arch = match target.as_str() {
        "bmv2" => arch,
        "bmv2-v1model-p4org" | "bmv2-ss-p4org" | "bmv2-v1model" => Some("v1model".to_string()),
        "bmv2-psa-p4org" | "bmv2-psa" => Some("psa".to_string()),
        other => {
            let arch = arch.unwrap_or_else(|| "v1model".to_string());
            return Err(Failure::Input(format!("Unknown backend: {other}-{arch}")));
        }
    };
    match arch.unwrap_or_else(|| "v1model".to_string()) {
        arch if arch == "v1model" || arch == "psa" => Ok(arch),
        other => Err(Failure::Input(format!("Unknown backend: {target}-{other}"))),
    }
}

/// The options for warnings. Names of p4c's warnings that p4jet lacks have no effect.
fn warnings(options: &Options) -> Result<crate::warnings::WarningArgs, clap::Error> {
    #[derive(Parser)]
    struct Warnings {
        #[command(flatten)]
        args: crate::warnings::WarningArgs,
    }
    let mut words = vec!["p4c".to_string()];
    if options.quiet {
        words.push("--Wdisable".to_string());
    }
    for (option, lists) in [
        ("--Wdisable", &options.hidden),
        ("--Werror", &options.errors),
        ("--Winfo", &options.infos),
        ("--Wwarn", &options.warnings),
    ] {
        for list in lists {
            if list.is_empty() {
                words.push(option.to_string());
                continue;
            }
            for name in list.split(',') {
                let word = format!("{option}={name}");
                let known = Warnings::try_parse_from(["p4c", &word])
                    .is_ok_and(|warnings| warnings.args.levels().is_ok());
                if known {
                    words.push(word);
                }
            }
        }
    }
    Ok(Warnings::try_parse_from(words)?.args)
}

/// Writes the requested P4Info and entries.
fn write_p4info(
    options: &Options,
    generate: impl FnOnce() -> Result<p4jet_p4info::Generated, Failure>,
) -> Result<(), Failure> {
    let named = |files: &[PathBuf], one: &Option<PathBuf>| -> Result<Vec<(PathBuf, Format)>, Failure> {
        let mut all = Vec::new();
        for file in files {
            all.push((file.clone(), format_of(file)?));
        }
        if let Some(file) = one {
            let format = match options.p4runtime_format.as_deref() {
                Some("text") => Format::Text,
                Some("json") => Format::Json,
                _ => Format::Binary,
            };
            all.push((file.clone(), format));
        }
        Ok(all)
    };
    let p4info_files = named(&options.p4runtime_files, &options.p4runtime_file)?;
    let entries_files = named(&options.entries_files, &options.entries_file)?;
    if p4info_files.is_empty() && entries_files.is_empty() {
        return Ok(());
    }
    let generated = generate()?;
    for (files, message) in
        [(p4info_files, &generated.p4info as &dyn Reflect), (entries_files, &generated.entries)]
    {
        for (file, format) in files {
            write(&file, &format.write(message))?;
        }
    }
    Ok(())
}

fn format_of(file: &Path) -> Result<Format, Failure> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("txtpb") => Ok(Format::Text),
        Some("txt") => {
            eprintln!("warning: {}: the ending .txt is deprecated, use .txtpb", file.display());
            Ok(Format::Text)
        }
        Some("json") => Ok(Format::Json),
        Some("bin") => Ok(Format::Binary),
        _ => Err(Failure::Input(format!(
            "{}: the file name must end in .txtpb, .json or .bin, which selects the format",
            file.display()
        ))),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    p4jet_files::write(path, bytes)
        .map_err(|e| Failure::Input(format!("Couldn't open {}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_handed_on() {
        let args = ["-Xp4c=--p4runtime-entries-files a.txtpb", "-###", "x.p4"].map(OsString::from);
        assert_eq!(words(&args), ["p4c", "--p4runtime-entries-files", "a.txtpb", "x.p4"]);
    }

    #[test]
    fn targets() {
        let options = |words: &[&str]| Options::try_parse_from([&["p4c", "x.p4"], words].concat()).unwrap();
        let arch = |tool, words: &[&str]| architecture(tool, &options(words)).map_err(|e| e.text());
        assert_eq!(arch(Tool::Driver, &["--target", "bmv2", "--arch", "v1model"]).as_deref(), Ok("v1model"));
        assert_eq!(arch(Tool::Driver, &["-b", "bmv2-psa-p4org"]).as_deref(), Ok("psa"));
        assert_eq!(arch(Tool::BackEnd("v1model"), &["--p4v", "16"]).as_deref(), Ok("v1model"));
        let error = arch(Tool::Driver, &["--target", "ebpf"]).unwrap_err();
        assert_eq!(error, "Unknown backend: ebpf-v1model");
        let error = arch(Tool::Driver, &["--target", "bmv2", "--arch", "tna"]).unwrap_err();
        assert_eq!(error, "Unknown backend: bmv2-tna");
    }
}
