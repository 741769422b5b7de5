//! `p4jet p4info`: the control plane's view of a program, for P4Runtime.

use crate::compile::{self, ProgramArgs};
use crate::failure::Failure;
use crate::output;
use clap::ValueEnum;
use p4jet_p4info::Format;
use p4jet_p4info::reflect::Reflect;
use std::path::PathBuf;

/// Options of `p4info`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Output format: protobuf text, protobuf JSON or binary.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    format: FormatArg,
    /// Write the entries that the program declares, as one WriteRequest, instead of P4Info.
    #[arg(long)]
    entries: bool,
    /// Write to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Form of a message.
#[derive(Clone, Copy, ValueEnum)]
enum FormatArg {
    /// protobuf's text form, laid out as by p4c.
    Text,
    /// protobuf's JSON.
    Json,
    /// The wire format.
    Binary,
}

/// Compiles the program as far as needed and writes the message.
pub fn run(args: &Args) -> Result<(), Failure> {
    let generated = compile::front_end(&args.program)?.p4info(&args.program.source.arch)?;
    let format = match args.format {
        FormatArg::Text => Format::Text,
        FormatArg::Json => Format::Json,
        FormatArg::Binary => Format::Binary,
    };
    let message: &dyn Reflect = if args.entries { &generated.entries } else { &generated.p4info };
    let bytes = format.write(message);
    match &args.output {
        Some(path) => p4jet_files::write(path, bytes)
            .map_err(|e| Failure::Environment(format!("cannot write {}: {e}", path.display()))),
        None => output::bytes(&bytes),
    }
}
