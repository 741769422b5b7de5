//! `p4jet profile`: measures this machine.

use crate::compile;
use crate::failure::Failure;
use crate::work::{self, Calibration, Measured};
use p4jet_control::Control;
use p4jet_dataplane::EngineKind;
use p4jet_text::Commands as _;
use p4jet_tools::calibration;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Options of `profile`.
#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    raw: PathBuf,
    #[arg(long, default_value_t = 1_048_576)]
    entries: u64,
    #[arg(long)]
    only: Option<String>,
}

/// Measures.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut calibration = Calibration::new();
    let mut all = Vec::new();
    for (name, make) in calibration::points(args.entries) {
        if args.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let start = Instant::now();
        let point = make();
        let compiled = compile::compile_text(&format!("{name}.p4"), &point.program)?;
        let switch =
            compiled.switch(compiled.for_engine(EngineKind::Jit), p4jet_jit::Options::default(), 1)?;
        let compile_ms = start.elapsed().as_secs_f64() * 1e3;
        Control::new(Arc::clone(&switch))
            .load(&name, &point.commands)
            .map_err(|e| Failure::Input(format!("{name}: {e}")))?;
        let seen = work::seen(&switch, &point.frames, 0)?;
        let work = work::work(&switch, &seen, &point.frames, 0)?;
        let mut measured = Measured::new(&switch, &seen, &point.frames, 0)?;
        measured.warm_up(&mut calibration)?;
        measured.run(&mut calibration, 0.08)?;
        eprintln!(
            "{name}: {:.1} ticks, {} paths, {:.0} ms",
            measured.least()[1],
            work.paths.len(),
            start.elapsed().as_secs_f64() * 1e3
        );
        all.push((name, work, compile_ms, measured));
    }
    for _ in 0..3 {
        for (_, _, _, measured) in all.iter_mut().rev() {
            measured.warm_up(&mut calibration)?;
            measured.run(&mut calibration, 0.08)?;
        }
    }
    let mut out = String::new();
    for (name, work, compile_ms, measured) in &all {
        let line = json!({ "name": name, "ratio": measured.least()[0], "ticks": measured.least()[1], "features": work.features().0, "compile_ms": compile_ms });
        out += &format!("{line}\n");
    }
    std::fs::write(&args.raw, out).map_err(|e| Failure::Environment(e.to_string()))
}
