//! `p4jet trace`: traces one packet, or those of a capture, step by step.

use crate::compile::{self, EngineArg, ProgramArgs, QueueArgs};
use crate::failure::Failure;
use crate::output;
use crate::output::say;
use p4jet_dataplane::EngineKind;
use p4jet_ports::CaptureReader;
use p4jet_text::packet;
use std::path::{Path, PathBuf};

/// Options of `trace`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Runtime commands that set up the tables.
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// The interpreter prints the steps; jit also runs the machine code and reports differences.
    #[arg(long, value_enum, default_value = "jit")]
    engine: EngineArg,
    /// Ingress port of the packet.
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u32,
    /// Frame: hexadecimal digits (blanks and colons are ignored), or layers such as `ip dst=10.0.0.1 / tcp`. One word that is
    /// neither names a capture, as `--pcap` does.
    #[arg(required_unless_present = "pcap", conflicts_with = "pcap", value_name = "HEX|LAYERS|FILE")]
    frame: Vec<String>,
    /// Trace the packets of this capture in order.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Number of packets of the capture to trace; 10 by default.
    #[arg(long, value_name = "N")]
    first: Option<usize>,
    /// Print one JSON document per packet instead of text.
    #[arg(long)]
    json: bool,
}

/// Default number of packets of a capture to trace.
const FIRST_DEFAULT: usize = 10;

/// Maximum number of lines of text; JSON contains all steps of the trace.
const LINES_MAX: usize = 4000;

/// Traces one packet, or those of a capture.
pub fn run(args: &Args) -> Result<(), Failure> {
    let first = args.first.unwrap_or(FIRST_DEFAULT);
    let named = match &args.frame[..] {
        [word] if !packet::is_frame(word) && Path::new(word).exists() => Some(PathBuf::from(word)),
        _ => args.pcap.clone(),
    };
    if args.first.is_some() && named.is_none() {
        return Err(Failure::Usage("--first needs a capture, such as --pcap FILE".to_string()));
    }
    let mut capture = match &named {
        Some(_) if first == 0 => {
            return Err(Failure::Usage("--first 0: expected at least 1".to_string()));
        }
        Some(path) => Some(CaptureReader::open(path).map_err(|e| Failure::port(&e))?),
        None => None,
    };
    let single = match &capture {
        Some(_) => None,
        None => Some(packet::frame(&args.frame.join(" ")).map_err(Failure::Usage)?),
    };
    let compiled = compile::compile_counting_warnings(&args.program)?;
    let commands = args.commands.as_deref();
    let switch_on = |engine| {
        compile::switch_with(
            &compiled,
            engine,
            p4jet_jit::Options::default(),
            1,
            QueueArgs::default(),
            commands,
        )
    };
    let (switch, _) = switch_on(EngineKind::Interp)?;
    compile::check_port(&switch, args.port)?;
    let fast = match args.engine {
        EngineArg::Interp => None,
        EngineArg::Jit => Some(switch_on(EngineKind::Jit)?.0),
    };
    let mut worker = match &fast {
        Some(fast) => {
            let mut worker = fast.worker(EngineKind::Jit, 0)?;
            worker.set_time(Some(0));
            Some(worker)
        }
        None => None,
    };
    let mut trace = |frame: &[u8]| {
        let (trace, expected) = switch.trace(args.port, frame).map_err(Failure::Input)?;
        if args.json {
            say!("{}", trace.to_json(switch.program()))?;
        } else {
            output::write(format_args!("{}", trace.render_shortened(switch.program(), LINES_MAX)))?;
        }
        let Some(worker) = &mut worker else { return Ok(()) };
        let got = worker.process_and_wait(args.port, frame);
        if got != expected {
            return Err(Failure::Input(format!(
                "internal error: machine code does something else with this packet (please report): {got:02x?}"
            )));
        }
        Ok(())
    };
    let Some(capture) = &mut capture else { return trace(&single.unwrap_or_default()) };
    let mut count = 0;
    while let Some(frame) = capture.next_frame().map_err(|e| Failure::port(&e))? {
        if count == first {
            if !args.json {
                say!("\nThe capture has more packets; --first {count} ends here.")?;
            }
            return Ok(());
        }
        count += 1;
        if !args.json {
            say!("{}packet {count} of the capture:", if count == 1 { "" } else { "\n" })?;
        }
        trace(frame)?;
    }
    if count == 0 {
        return Err(Failure::Input("the capture has no packets".to_string()));
    }
    Ok(())
}
