//! `p4jet predict --check`: predictions beside measurements, for programs to which the model was not fitted.

use crate::compile;
use crate::failure::Failure;
use crate::output::say;
use crate::profile;
use crate::work::{self, Calibration};
use p4jet_dataplane::EngineKind;
use p4jet_predict::own::Model;
use p4jet_tools::cases;
use serde_json::json;

/// The errors that the model is meant to have at most: the mean, and that of 95 % of the cases.
pub const GOALS: [f64; 2] = [0.08, 0.2];

/// A case.
struct Outcome {
    name: String,
    predicted: f64,
    interval: [f64; 2],
    measured: f64,
    largest: String,
}

impl Outcome {
    fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// Predicts and measures all cases whose name contains `only`.
pub fn run(model: &Model, only: &str, is_json: bool) -> Result<(), Failure> {
    let chosen: Vec<_> = cases::evaluation().into_iter().filter(|(name, _)| name.contains(only)).collect();
    if chosen.is_empty() {
        let names: Vec<String> = cases::evaluation().into_iter().map(|(name, _)| name).collect();
        return Err(Failure::Usage(format!(
            "--only {only}: no case has this in its name; the cases are {}",
            names.join(", ")
        )));
    }
    let mut calibration = Calibration::new();
    let mut outcomes = Vec::new();
    if !is_json {
        say!(
            "{:>9}  {:>19}  {:>9}  {:>8}  {:40}  largest part",
            "predicted",
            "range",
            "measured",
            "error",
            "case"
        )?;
    }
    for (name, build) in chosen {
        let outcome = case(model, name, &build(), &mut calibration)?;
        if !is_json {
            let Outcome { name, predicted, interval: [low, high], measured, largest } = &outcome;
            let range = format!("{low:.1} to {high:.1}");
            let error = 100.0 * outcome.error();
            say!("{predicted:9.1}  {range:>19}  {measured:9.1}  {error:+7.1}%  {name:40}  {largest}")?;
        }
        outcomes.push(outcome);
    }
    let mut sizes: Vec<f64> = outcomes.iter().map(|outcome| outcome.error().abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let most = sizes[((0.95 * sizes.len() as f64).ceil() as usize).max(1) - 1];
    let inside = outcomes.iter().filter(|o| (o.interval[0]..=o.interval[1]).contains(&o.measured)).count();
    let reached = mean <= GOALS[0] && most <= GOALS[1];
    // How much slower or faster the machine is than when the profile was made.
    let drift = calibration.ns() / model.calibration_ns;
    if is_json {
        let cases: Vec<_> = outcomes
            .iter()
            .map(|o| {
                json!({ "case": o.name, "predicted_ns": o.predicted, "interval_ns": o.interval, "measured_ns": o.measured,
                        "error": o.error(), "largest_part": o.largest })
            })
            .collect();
        return say!(
            "{}",
            json!({ "cases": cases, "mean_absolute_error": mean, "error_95": most, "inside": inside, "drift": drift,
                    "reached": reached })
        );
    }
    say!(
        "{} cases: mean absolute error {:.1} %, 95 % of them below {:.1} % (goals {:.0} and {:.0}: {}); {inside} inside the range; \
         calibration {drift:.2} of that of the profile",
        outcomes.len(),
        100.0 * mean,
        100.0 * most,
        100.0 * GOALS[0],
        100.0 * GOALS[1],
        if reached { "reached" } else { "missed" }
    )
}

fn case(
    model: &Model,
    name: String,
    case: &cases::Case,
    calibration: &mut Calibration,
) -> Result<Outcome, Failure> {
    let compiled = compile::compile_quietly(&case.file, &case.program)?;
    let switch = compiled.switch(compiled.for_engine(EngineKind::Jit), p4jet_jit::Options::default(), 1)?;
    profile::load(&switch, &name, &case.commands)?;
    let seen = work::seen(&switch, &case.frames, case.port)?;
    let prediction = model.predict(&work::work(&switch, &seen, &case.frames, case.port, None)?);
    let largest = prediction.parts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).cloned().unwrap_or_default();
    let largest = format!("{} {:.0} %", largest.0, 100.0 * largest.1 / prediction.ns);
    let ratio = work::measure(&switch, &seen, &case.frames, case.port, calibration)?;
    let measured = ratio * model.calibration_ns;
    Ok(Outcome { name, predicted: prediction.ns, interval: prediction.interval, measured, largest })
}
