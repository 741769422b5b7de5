//! The fit of a model to measurements: the costs, none of them negative, with the least sum of squared logarithms of predicted over
//! measured. A sum of squared relative errors would make predictions too low on average, because only they are bounded below.

use super::Features;
use std::collections::{BTreeMap, BTreeSet};

/// A measured program.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What it is.
    pub name: String,
    /// The features of a mean packet.
    pub features: Features,
    /// The measured time of a packet.
    pub ns: f64,
    /// True for a mixture of many features, with which the errors of the model are estimated.
    pub is_mixture: bool,
}

/// Rounds of least squares, each weighted by the predictions of the last one: then the errors approach logarithms.
const ROUNDS: usize = 6;
/// Errors of mixtures count this much more than those of programs with one thing, as programs are mixtures, too.
const MIXTURE_WEIGHT: f64 = 2.0;
/// Keeps costs that few samples determine small; relative to the scale of each feature.
const RIDGE: f64 = 1e-4;
/// Sweeps over all costs.
const SWEEPS: usize = 3000;
/// Parts into which the mixtures are divided to estimate the errors.
const FOLDS: usize = 8;

/// The costs of the features, and the relative error for each mixture: of a model that was fitted without the mixture.
pub fn fit(samples: &[Sample]) -> (BTreeMap<String, f64>, Vec<f64>) {
    let mixtures: Vec<usize> = (0..samples.len()).filter(|i| samples[*i].is_mixture).collect();
    let mut errors = Vec::new();
    for fold in 0..FOLDS.min(mixtures.len()) {
        let left_out: BTreeSet<usize> = mixtures.iter().copied().skip(fold).step_by(FOLDS).collect();
        let others = samples.iter().enumerate().filter(|(i, _)| !left_out.contains(i)).map(|(_, s)| s);
        let costs = costs(&others.collect::<Vec<_>>());
        errors.extend(left_out.iter().map(|i| sum(&costs, &samples[*i].features) / samples[*i].ns - 1.0));
    }
    (costs(&samples.iter().collect::<Vec<_>>()), errors)
}

/// The cost of features.
pub fn sum(costs: &BTreeMap<String, f64>, features: &Features) -> f64 {
    features.0.iter().map(|(name, amount)| costs.get(name).copied().unwrap_or(0.0) * amount).sum()
}

/// Fits the costs to samples.
fn costs(samples: &[&Sample]) -> BTreeMap<String, f64> {
    let weight = |sample: &Sample| if sample.is_mixture { MIXTURE_WEIGHT } else { 1.0 };
    let mut weights: Vec<f64> = samples.iter().map(|sample| weight(sample) / sample.ns).collect();
    let mut costs = least_squares(samples, &weights);
    for _ in 0..ROUNDS {
        for (w, sample) in weights.iter_mut().zip(samples) {
            // ln(p / m) is about (p - m) / sqrt(p m).
            let predicted = sum(&costs, &sample.features).max(0.1 * sample.ns);
            *w = weight(sample) / (predicted * sample.ns).sqrt();
        }
        costs = least_squares(samples, &weights);
    }
    costs
}

/// Solves the weighted least squares by coordinate descent on the normal equations.
fn least_squares(samples: &[&Sample], weights: &[f64]) -> BTreeMap<String, f64> {
    let names: Vec<&String> = samples
        .iter()
        .flat_map(|sample| sample.features.0.keys())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let number: BTreeMap<&String, usize> = names.iter().enumerate().map(|(i, name)| (*name, i)).collect();
    let rows: Vec<(Vec<(usize, f64)>, f64)> = samples
        .iter()
        .zip(weights)
        .map(|(sample, w)| {
            let row = sample.features.0.iter().map(|(name, x)| (number[name], x * w)).collect();
            (row, sample.ns * w)
        })
        .collect();
    let n = names.len();
    let mut squares = vec![0.0; n];
    rows.iter().flat_map(|(row, _)| row).for_each(|(i, x)| squares[*i] += x * x);
    let scale: Vec<f64> =
        squares.iter().map(|s| (s / samples.len() as f64).sqrt().max(f64::MIN_POSITIVE)).collect();
    let mut products = vec![0.0; n * n];
    let mut right = vec![0.0; n];
    for (row, wanted) in &rows {
        for (i, x) in row {
            right[*i] += wanted * x / scale[*i];
            for (j, z) in row {
                products[i * n + j] += x / scale[*i] * z / scale[*j];
            }
        }
    }
    let ridge = RIDGE * samples.len() as f64;
    (0..n).for_each(|i| products[i * n + i] += ridge);
    let mut cost = vec![0.0; n];
    for _ in 0..SWEEPS {
        let mut moved: f64 = 0.0;
        for i in 0..n {
            let others: f64 = (0..n).map(|j| products[i * n + j] * cost[j]).sum();
            let better = (cost[i] + (right[i] - others) / products[i * n + i]).max(0.0);
            moved = moved.max((better - cost[i]).abs());
            cost[i] = better;
        }
        if moved < 1e-9 {
            break;
        }
    }
    names
        .into_iter()
        .zip(cost.iter().zip(&scale))
        .map(|(name, (cost, scale))| (name.clone(), cost / scale))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(amounts: [f64; 3], ns: f64, is_mixture: bool) -> Sample {
        let mut features = Features::default();
        ["a", "b", "c"].iter().zip(amounts).for_each(|(name, amount)| features.add(name, amount));
        Sample { name: String::new(), features, ns, is_mixture }
    }

    #[test]
    fn costs_are_found_and_never_negative() {
        let mut samples = Vec::new();
        for a in 1..6 {
            for b in 0..5 {
                // c costs nothing, and would get a negative cost from the noise.
                let noise = if (a + b) % 2 == 0 { 1.01 } else { 0.99 };
                let (a, b) = (f64::from(a), f64::from(b));
                samples.push(sample([a, b, a * b], (3.0 * a + 0.5 * b) * noise - 0.01 * a * b, a > 3.0));
            }
        }
        let (costs, errors) = fit(&samples);
        assert!((costs["a"] - 3.0).abs() < 0.1, "{costs:?}");
        assert!((costs["b"] - 0.5).abs() < 0.1, "{costs:?}");
        assert!(costs["c"] >= 0.0, "{costs:?}");
        assert_eq!(errors.len(), 10);
        assert!(errors.iter().all(|error| error.abs() < 0.05), "{errors:?}");
    }
}
