//! `p4jet trace`: one packet, step by step.

use crate::compile::{self, ProgramArgs};
use crate::failure::Failure;
use std::path::PathBuf;

/// Options of `trace`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Runtime commands that set up the tables.
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
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

/// Traces one packet.
pub fn run(args: &Args) -> Result<(), Failure> {
    let frame = parse_hex(&args.frame.concat())?;
    let compiled = compile::compile(&args.program)?;
    let switch = compile::switch(compiled.lowered)?;
    if let Some(path) = &args.commands {
        compile::load_commands(&switch, path)?;
    }
    let (trace, _) = switch.trace(args.port, &frame).map_err(Failure::Input)?;
    if args.json {
        println!("{}", trace.to_json(switch.program()));
    } else {
        print!("{}", trace.render(switch.program()));
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
