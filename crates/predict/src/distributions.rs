//! Fits distributions to samples by maximum likelihood and ranks them by Akaike's information criterion (§3.12).

use crate::error::{Invalid, LARGEST};
use serde_json::{Value as Json, json};
use statrs::distribution::{
    Continuous, ContinuousCDF, Erlang, Exp, Gamma, LogNormal, Normal, Uniform, Weibull,
};
use statrs::function::gamma::digamma;
use std::fmt::Write;

/// A distribution with its parameters. Rates are per unit of the samples, scales and bounds in that unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Exponential.
    Exponential {
        /// 1 / mean.
        rate: f64,
    },
    /// Erlang: the sum of `shape` exponential distributions.
    Erlang {
        /// How many.
        shape: u64,
        /// The rate of each.
        rate: f64,
    },
    /// Gamma.
    Gamma {
        /// (mean / standard deviation)².
        shape: f64,
        /// shape / mean.
        rate: f64,
    },
    /// Lognormal.
    Lognormal {
        /// Mean of the logarithm.
        location: f64,
        /// Standard deviation of the logarithm.
        scale: f64,
    },
    /// Normal, which also has negative values.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        deviation: f64,
    },
    /// Weibull.
    Weibull {
        /// Above 1, long times become rarer than in an exponential distribution.
        shape: f64,
        /// The value that 63 % of the samples do not exceed.
        scale: f64,
    },
    /// Uniform.
    Uniform {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
}

impl Distribution {
    /// The name for users.
    pub fn name(&self) -> &'static str {
        match self {
            Distribution::Exponential { .. } => "exponential",
            Distribution::Erlang { .. } => "erlang",
            Distribution::Gamma { .. } => "gamma",
            Distribution::Lognormal { .. } => "lognormal",
            Distribution::Normal { .. } => "normal",
            Distribution::Weibull { .. } => "weibull",
            Distribution::Uniform { .. } => "uniform",
        }
    }

    /// Names and values of its parameters.
    pub fn parameters(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Distribution::Exponential { rate } => vec![("rate", rate)],
            Distribution::Erlang { shape, rate } => vec![("shape", shape as f64), ("rate", rate)],
            Distribution::Gamma { shape, rate } => vec![("shape", shape), ("rate", rate)],
            Distribution::Lognormal { location, scale } => vec![("location", location), ("scale", scale)],
            Distribution::Normal { mean, deviation } => vec![("mean", mean), ("deviation", deviation)],
            Distribution::Weibull { shape, scale } => vec![("shape", shape), ("scale", scale)],
            Distribution::Uniform { min, max } => vec![("min", min), ("max", max)],
        }
    }

    /// The probability of values up to `x`. `None` if the parameters are invalid.
    pub fn cdf(&self, x: f64) -> Option<f64> {
        Some(self.law()?.cdf(x))
    }

    fn law(&self) -> Option<Box<dyn Law>> {
        fn boxed<L: Law + 'static, E>(law: Result<L, E>) -> Option<Box<dyn Law>> {
            Some(Box::new(law.ok()?))
        }
        match *self {
            Distribution::Exponential { rate } => boxed(Exp::new(rate)),
            Distribution::Erlang { shape, rate } => boxed(Erlang::new(shape, rate)),
            Distribution::Gamma { shape, rate } => boxed(Gamma::new(shape, rate)),
            Distribution::Lognormal { location, scale } => boxed(LogNormal::new(location, scale)),
            Distribution::Normal { mean, deviation } => boxed(Normal::new(mean, deviation)),
            Distribution::Weibull { shape, scale } => boxed(Weibull::new(shape, scale)),
            Distribution::Uniform { min, max } => boxed(Uniform::new(min, max)),
        }
    }

    /// The distribution of values that are `factor` times as large.
    fn scaled(self, factor: f64) -> Distribution {
        match self {
            Distribution::Exponential { rate } => Distribution::Exponential { rate: rate / factor },
            Distribution::Erlang { shape, rate } => Distribution::Erlang { shape, rate: rate / factor },
            Distribution::Gamma { shape, rate } => Distribution::Gamma { shape, rate: rate / factor },
            Distribution::Lognormal { location, scale } => {
                Distribution::Lognormal { location: location + factor.ln(), scale }
            }
            Distribution::Normal { mean, deviation } => {
                Distribution::Normal { mean: mean * factor, deviation: deviation * factor }
            }
            Distribution::Weibull { shape, scale } => Distribution::Weibull { shape, scale: scale * factor },
            Distribution::Uniform { min, max } => {
                Distribution::Uniform { min: min * factor, max: max * factor }
            }
        }
    }
}

trait Law: Continuous<f64, f64> + ContinuousCDF<f64, f64> {}
impl<L: Continuous<f64, f64> + ContinuousCDF<f64, f64>> Law for L {}

/// A distribution that was fitted to samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The distribution.
    pub distribution: Distribution,
    /// Logarithm of the likelihood of the samples.
    pub ln_likelihood: f64,
    /// Akaike's information criterion: twice the number of parameters, less twice the logarithm of the likelihood. Smaller is
    /// better; a difference of 10 is decisive.
    pub aic: f64,
    /// Root mean square difference between its distribution function and that of the samples, from 0 to 1.
    pub cdf_rmse: f64,
}

/// All fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// The best one first.
    pub fits: Vec<Fit>,
    /// Names of distributions that cannot have produced the samples, with the reason.
    pub excluded: Vec<(&'static str, &'static str)>,
}

/// Fits all distributions of [`Distribution`].
///
/// Samples are finite, of size at most 1e12, and not all equal. A hundred thousand take about 0.2 s.
pub fn rank(samples: &[f64]) -> Result<Ranking, Invalid> {
    if let Some((at, found)) =
        samples.iter().enumerate().find(|(_, found)| found.is_nan() || found.abs() > LARGEST)
    {
        return Err(Invalid::new(format!("sample {at}"), found, "a number from -1e12 to 1e12"));
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [min, max] = match &sorted[..] {
        [min, .., max] if min < max => [*min, *max],
        _ => {
            return Err(Invalid::new(
                "samples",
                format!("{} of one value", samples.len()),
                "at least two values",
            ));
        }
    };
    // In units of the largest value, powers neither overflow nor vanish.
    let unit = min.abs().max(max.abs());
    sorted.iter_mut().for_each(|sample| *sample /= unit);
    let mut ranking = Ranking { fits: Vec::new(), excluded: Vec::new() };
    let moments = Moments::of(&sorted);
    let mut fits = vec![
        Distribution::Normal { mean: moments.mean, deviation: moments.deviation },
        Distribution::Uniform { min: min / unit, max: max / unit },
    ];
    if min >= 0.0 {
        fits.push(Distribution::Exponential { rate: 1.0 / moments.mean });
    } else {
        ranking.excluded.push(("exponential", "there are negative samples"));
    }
    if min > 0.0 {
        fits.extend(positive(&sorted, &moments));
    } else {
        let names = ["erlang", "gamma", "lognormal", "weibull"];
        ranking.excluded.extend(names.map(|name| (name, "there are samples of 0 or less")));
    }
    for distribution in fits {
        match evaluate(distribution, &sorted, unit) {
            Some(fit) => ranking.fits.push(fit),
            None => ranking.excluded.push((distribution.name(), "its likelihood is too small for a number")),
        }
    }
    ranking.fits.sort_by(|a, b| a.aic.total_cmp(&b.aic));
    Ok(ranking)
}

/// Means over samples.
struct Moments {
    mean: f64,
    deviation: f64,
    /// Of the logarithms.
    ln_mean: f64,
    ln_deviation: f64,
}

impl Moments {
    fn of(samples: &[f64]) -> Moments {
        let mean_and_deviation = |value: fn(f64) -> f64| {
            let count = samples.len() as f64;
            let mean = samples.iter().map(|sample| value(*sample)).sum::<f64>() / count;
            let variance = samples.iter().map(|sample| (value(*sample) - mean).powi(2)).sum::<f64>() / count;
            (mean, variance.sqrt())
        };
        let (mean, deviation) = mean_and_deviation(|sample| sample);
        let (ln_mean, ln_deviation) = mean_and_deviation(f64::ln);
        Moments { mean, deviation, ln_mean, ln_deviation }
    }
}

/// The most likely distributions of those with positive values only.
fn positive(samples: &[f64], moments: &Moments) -> Vec<Distribution> {
    let mean = moments.mean;
    // The likelihood is greatest where ln k − ψ(k) equals ln(mean) − mean(ln).
    let spread = mean.ln() - moments.ln_mean;
    let shape = root(1e-3, 1e9, |shape| spread - (shape.ln() - digamma(shape)));
    // It has one maximum over k, so the best integer is next to it.
    let erlang = [shape.floor().max(1.0), shape.ceil().max(1.0)]
        .map(|shape| Distribution::Erlang { shape: shape as u64, rate: shape / mean });
    let likelihood =
        |distribution: &Distribution| ln_likelihood(*distribution, samples).unwrap_or(f64::NEG_INFINITY);
    let [low, high] = erlang.map(|erlang| likelihood(&erlang));
    let weibull_shape = root(1e-3, 1e6, |shape| {
        let powers = samples.iter().map(|sample| ((sample.ln() * shape).exp(), sample.ln()));
        let (sum, ln_sum) =
            powers.fold((0.0, 0.0), |(sum, ln_sum), (power, ln)| (sum + power, ln_sum + power * ln));
        ln_sum / sum - 1.0 / shape - moments.ln_mean
    });
    let power_mean =
        samples.iter().map(|sample| sample.powf(weibull_shape)).sum::<f64>() / samples.len() as f64;
    vec![
        if low >= high { erlang[0] } else { erlang[1] },
        Distribution::Gamma { shape, rate: shape / mean },
        Distribution::Lognormal { location: moments.ln_mean, scale: moments.ln_deviation },
        Distribution::Weibull { shape: weibull_shape, scale: power_mean.powf(1.0 / weibull_shape) },
    ]
}

/// The root of an increasing function on a logarithmic scale, by bisection.
fn root(mut low: f64, mut high: f64, function: impl Fn(f64) -> f64) -> f64 {
    // Each step halves the interval; 60 exhaust the digits.
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if function(middle) < 0.0 { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

fn ln_likelihood(distribution: Distribution, samples: &[f64]) -> Option<f64> {
    let law = distribution.law()?;
    Some(samples.iter().map(|sample| law.ln_pdf(*sample)).sum::<f64>()).filter(|sum| sum.is_finite())
}

/// Evaluates a fit to sorted samples that were divided by `unit`.
fn evaluate(distribution: Distribution, sorted: &[f64], unit: f64) -> Option<Fit> {
    let count = sorted.len() as f64;
    let ln_likelihood = ln_likelihood(distribution, sorted)? - count * unit.ln();
    let aic = 2.0 * distribution.parameters().len() as f64 - 2.0 * ln_likelihood;
    let law = distribution.law()?;
    let difference = |(at, sample): (usize, &f64)| law.cdf(*sample) - (at as f64 + 0.5) / count;
    let squares: f64 = sorted.iter().enumerate().map(|pair| difference(pair).powi(2)).sum();
    Some(Fit {
        distribution: distribution.scaled(unit),
        ln_likelihood,
        aic,
        cdf_rmse: (squares / count).sqrt(),
    })
}

impl Ranking {
    /// A table, the best fit first.
    pub fn to_text(&self) -> String {
        let mut out = format!("{:<12} {:>14} {:>9}  parameters\n", "distribution", "AIC", "RMSE");
        for fit in &self.fits {
            let parameters = fit.distribution.parameters();
            let parameters: Vec<String> =
                parameters.into_iter().map(|(name, value)| format!("{name} {value:.6}")).collect();
            let (name, parameters) = (fit.distribution.name(), parameters.join(", "));
            let _ = writeln!(out, "{name:<12} {:>14.1} {:>9.5}  {parameters}", fit.aic, fit.cdf_rmse);
        }
        for (name, reason) in &self.excluded {
            let _ = writeln!(out, "{name:<12} not possible: {reason}");
        }
        out
    }

    /// Returns the values of `to_text` as JSON.
    pub fn to_json(&self) -> Json {
        let fit = |fit: &Fit| {
            let parameters = fit.distribution.parameters().into_iter();
            let parameters: serde_json::Map<String, Json> =
                parameters.map(|(name, value)| (name.to_string(), json!(value))).collect();
            json!({
                "distribution": fit.distribution.name(),
                "parameters": parameters,
                "ln_likelihood": fit.ln_likelihood,
                "aic": fit.aic,
                "cdf_rmse": fit.cdf_rmse,
            })
        };
        let excluded =
            self.excluded.iter().map(|(name, reason)| json!({ "distribution": name, "reason": reason }));
        json!({
            "fits": self.fits.iter().map(fit).collect::<Vec<_>>(),
            "excluded": excluded.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    fn draw(law: impl rand_distr::Distribution<f64>) -> Vec<f64> {
        law.sample_iter(Xoshiro256PlusPlus::seed_from_u64(7)).take(20_000).collect()
    }

    /// Checks that a distribution of this name fits best and has these parameters within a part.
    fn check(samples: &[f64], name: &str, expected: &[f64], tolerance: f64) {
        let ranking = rank(samples).unwrap();
        let fit = ranking.fits.iter().find(|fit| fit.distribution.name() == name).expect(name);
        // Gamma and Weibull contain the exponential distribution, and gamma contains Erlang's.
        assert!(fit.aic - ranking.fits[0].aic < 3.0, "{}", ranking.to_text());
        let parameters = fit.distribution.parameters();
        assert_eq!(parameters.len(), expected.len());
        for ((_, found), expected) in parameters.iter().zip(expected) {
            assert!((found / expected - 1.0).abs() < tolerance, "{}, expected {expected}", ranking.to_text());
        }
        assert!(fit.cdf_rmse < 0.01, "{}", ranking.to_text());
    }

    #[test]
    fn planted_parameters_are_found() {
        use rand_distr as planted;
        check(&draw(planted::Exp::new(0.125).unwrap()), "exponential", &[0.125], 0.02);
        // The service times of t4p4s: mean 45.9 µs, standard deviation 4.55 µs.
        let (shape, mean) = (102.0, 45.9);
        check(
            &draw(planted::Gamma::new(shape, mean / shape).unwrap()),
            "erlang",
            &[shape, shape / mean],
            0.03,
        );
        check(&draw(planted::Gamma::new(2.5, 100.0).unwrap()), "gamma", &[2.5, 0.01], 0.03);
        check(&draw(planted::LogNormal::new(3.0, 0.5).unwrap()), "lognormal", &[3.0, 0.5], 0.02);
        check(&draw(planted::Normal::new(-5.0, 2.0).unwrap()), "normal", &[-5.0, 2.0], 0.02);
        check(&draw(planted::Weibull::new(300.0, 3.0).unwrap()), "weibull", &[3.0, 300.0], 0.02);
        check(&draw(planted::Uniform::new(3.0, 4.0).unwrap()), "uniform", &[3.0, 4.0], 0.01);
    }

    /// A controller's round trips of §3.12, mean 8 ms and standard deviation 1.1 ms, are not exponential.
    #[test]
    fn wrong_distributions_rank_last() {
        let samples = draw(rand_distr::Gamma::new(53.0, 8.0 / 53.0).unwrap());
        let ranking = rank(&samples).unwrap();
        assert_eq!(ranking.fits.last().unwrap().distribution.name(), "exponential", "{}", ranking.to_text());
        assert_eq!(ranking.fits.len(), 7);
        let gap = ranking.fits[6].aic - ranking.fits[0].aic;
        assert!(gap > 10_000.0, "{gap}");
    }

    /// For two parameters and three samples, by hand.
    #[test]
    fn likelihood_and_criterion() {
        let ranking = rank(&[1.0, 2.0, 6.0]).unwrap();
        let fit = |name: &str| *ranking.fits.iter().find(|fit| fit.distribution.name() == name).unwrap();
        let exponential = fit("exponential");
        assert_eq!(exponential.distribution, Distribution::Exponential { rate: 1.0 / 3.0 });
        assert!((exponential.ln_likelihood - (-3.0 * 3f64.ln() - 3.0)).abs() < 1e-12);
        assert!((exponential.aic - (2.0 - 2.0 * exponential.ln_likelihood)).abs() < 1e-12);
        let uniform = fit("uniform");
        assert!((uniform.ln_likelihood + 3.0 * 5f64.ln()).abs() < 1e-12);
        assert!((uniform.aic - (4.0 - 2.0 * uniform.ln_likelihood)).abs() < 1e-12);
    }

    #[test]
    fn samples_restrict_what_is_possible() {
        let excluded = |samples: &[f64]| -> Vec<&str> {
            rank(samples).unwrap().excluded.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(excluded(&[1.0, 2.0, 3.0]), [""; 0]);
        assert_eq!(excluded(&[0.0, 2.0, 3.0]), ["erlang", "gamma", "lognormal", "weibull"]);
        assert_eq!(excluded(&[-1.0, 2.0]), ["exponential", "erlang", "gamma", "lognormal", "weibull"]);
        let text = rank(&[0.0, 2.0]).unwrap().to_text();
        assert!(text.contains("gamma        not possible: there are samples of 0 or less\n"), "{text}");
        let error = |samples: &[f64]| rank(samples).unwrap_err().to_string();
        assert_eq!(error(&[]), "samples: found 0 of one value, expected at least two values");
        assert_eq!(error(&[5.0; 3]), "samples: found 3 of one value, expected at least two values");
        assert_eq!(error(&[1.0, f64::NAN]), "sample 1: found NaN, expected a number from -1e12 to 1e12");
        assert_eq!(error(&[f64::INFINITY]), "sample 0: found inf, expected a number from -1e12 to 1e12");
    }

    /// Very large, very small and nearly equal samples.
    #[test]
    fn extreme_samples_have_finite_fits() {
        for samples in
            [[1e11, 2e11, 3e11], [1e-9, 2e-9, 3e-9], [1e6, 1e6 + 1.0, 1e6 + 2.0], [1e-9, 1.0, 1e12]]
        {
            let ranking = rank(&samples).unwrap();
            assert!(ranking.fits.len() >= 5, "{}", ranking.to_text());
            for fit in &ranking.fits {
                assert!(fit.aic.is_finite() && fit.cdf_rmse <= 1.0, "{}", ranking.to_text());
                assert!(fit.distribution.parameters().iter().all(|(_, value)| value.is_finite()));
            }
        }
    }
}
