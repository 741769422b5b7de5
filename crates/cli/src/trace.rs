//! `p4jet trace`: one packet, step by step.

use crate::compile::{self, EngineArg, ProgramArgs};
use crate::failure::Failure;
use crate::output;
use crate::output::say;
use p4jet_dataplane::EngineKind;
use std::path::PathBuf;

/// Options of `trace`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Runtime commands that set up the tables.
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// The interpreter tells; with jit its machine code runs too, and a difference is reported.
    #[arg(long, value_enum, default_value = "jit")]
    engine: EngineArg,
    /// The port the packet comes in by.
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u32,
    /// The frame: hexadecimal digits; blanks and colons do not count.
    #[arg(required = true, value_name = "HEX")]
    frame: Vec<String>,
    /// One JSON document instead of text.
    #[arg(long)]
    json: bool,
}

/// Most lines of text; JSON has them all.
const LINES_MAX: usize = 4000;

/// Traces one packet.
pub fn run(args: &Args) -> Result<(), Failure> {
    let frame = parse_hex(&args.frame.concat())?;
    let compiled = compile::compile(&args.program)?;
    let commands = args.commands.as_deref();
    let switch_on =
        |engine| compile::switch_with(&compiled, engine, p4jet_jit::Options::default(), 1, None, commands);
    let (switch, _) = switch_on(EngineKind::Interp)?;
    compile::check_port(&switch, args.port)?;
    let (trace, expected) = switch.trace(args.port, &frame).map_err(Failure::Input)?;
    if args.json {
        say!("{}", trace.to_json(switch.program()))?;
    } else {
        output::write(format_args!("{}", trace.render_shortened(switch.program(), LINES_MAX)))?;
    }
    if args.engine == EngineArg::Jit {
        let (fast, _) = switch_on(EngineKind::Jit)?;
        let mut worker = fast.worker(EngineKind::Jit, 0).map_err(Failure::Input)?;
        worker.set_time(Some(0));
        let got = worker.process_and_wait(args.port, &frame);
        if got != expected {
            return Err(Failure::Input(format!(
                "internal error: machine code does something else with this packet (please report): {got:02x?}"
            )));
        }
    }
    Ok(())
}

fn parse_hex(text: &str) -> Result<Vec<u8>, Failure> {
    let mut digits = Vec::new();
    for (i, c) in text.chars().enumerate() {
        match c.to_digit(16) {
            Some(d) => digits.push(d as u8),
            None if c.is_whitespace() || c == ':' => {}
            None => {
                return Err(Failure::Usage(format!(
                    "character {} of the frame is `{c}`; expected hexadecimal digits, such as 080045",
                    i + 1
                )));
            }
        }
    }
    if digits.len() % 2 == 1 {
        return Err(Failure::Usage(format!(
            "the frame has {} hexadecimal digits; expected two for each byte",
            digits.len()
        )));
    }
    Ok(digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect())
}
