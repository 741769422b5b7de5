//! Least-squares lines through delays over counts, for the costs of constructs (§3.8).

use crate::construct::Construct;
use crate::error::{Invalid, LARGEST};
use crate::profile::{Correction, Number, Provenance, Rule};
use crate::simulate::Interval;
use serde_json::{Value as Json, json};
use statrs::distribution::{ContinuousCDF, FisherSnedecor, StudentsT};

/// A line, perhaps with a break.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The delay at 0.
    pub intercept: f64,
    /// The delay of each further construct, up to the break.
    pub slope: f64,
    /// Where the line changes.
    pub broken: Option<Break>,
    /// Root mean square error of the points.
    pub rmse: f64,
}

/// A change of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Break {
    /// It is between this count and the next one.
    pub above: f64,
    /// The slope beyond it.
    pub slope: f64,
    /// What is added once beyond it.
    pub jump: f64,
}

/// The fewest rounds that give confidence intervals: by Student's t, two or three give very wide ones.
const ROUNDS_MIN: usize = 4;

/// Half the widths of the 95 % confidence intervals of a line's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uncertainty {
    /// Of the slope up to the break.
    pub slope: f64,
    /// Of the slope beyond the break.
    pub slope_beyond: f64,
    /// Of the difference of the two slopes.
    pub bend: f64,
    /// Of the jump.
    pub jump: f64,
}

impl Line {
    /// The delay at a count.
    pub fn at(&self, count: f64) -> f64 {
        let line = |slope: f64, from: f64| slope * (count - from);
        match self.broken.filter(|broken| count > broken.above) {
            Some(broken) => {
                self.intercept + self.slope * broken.above + line(broken.slope, broken.above) + broken.jump
            }
            None => self.intercept + line(self.slope, 0.0),
        }
    }

    /// The cost and the rules of a construct, if these points are delays in µs over its count in x(NF).
    pub fn rules(&self, construct: Construct) -> (Number, Vec<Rule>) {
        let number = |value: f64| Number { value, provenance: Provenance::Fitted, note: None };
        let mut rules = Vec::new();
        if let Some(Break { above, slope, jump }) = self.broken {
            let above = above.max(0.0) as u32;
            let mut add = |correction| rules.push(Rule { construct, above, correction });
            if slope != self.slope {
                add(Correction::Each(number(slope)));
            }
            if jump != 0.0 {
                add(Correction::Once(number(jump)));
            }
        }
        (number(self.slope), rules)
    }

    /// The line of the same shape, with a break at the same place, through other points.
    fn refit(&self, points: &[(f64, f64)]) -> Line {
        match self.broken {
            None => Shape::STRAIGHT.fit(points, 0.0),
            Some(Break { above, slope, jump }) => {
                Shape { bends: slope != self.slope, jumps: jump != 0.0 }.fit(points, above)
            }
        }
    }

    /// The numbers of which [`Uncertainty`] has the intervals.
    fn numbers(&self) -> [f64; 4] {
        let broken = self.broken.unwrap_or(Break { above: 0.0, slope: self.slope, jump: 0.0 });
        [self.slope, broken.slope, broken.slope - self.slope, broken.jump]
    }

    /// How certain the numbers of this line through points are, if its shape and the place of its break are right.
    ///
    /// With at least four rounds, each of them a measurement of all counts, the intervals come from the lines through single rounds.
    /// They then include whatever disturbs a whole measurement. Otherwise they come from the distances of the points from the
    /// line. `None` if there are too few points for that.
    pub fn uncertainty(&self, points: &[(f64, f64)], rounds: &[Vec<(f64, f64)>]) -> Option<Uncertainty> {
        let [slope, slope_beyond, bend, jump] = match rounds.len() {
            ROUNDS_MIN.. => {
                let found: Vec<[f64; 4]> = rounds.iter().map(|round| self.refit(round).numbers()).collect();
                [0, 1, 2, 3].map(|number| {
                    Interval::of(&found.iter().map(|found| found[number]).collect::<Vec<_>>()).half_width
                })
            }
            _ => {
                let parameters = self.broken.map_or(2.0, |Break { slope, jump, .. }| {
                    3.0 + f64::from(u8::from(slope != self.slope)) + f64::from(u8::from(jump != 0.0))
                });
                let free = points.len() as f64 - parameters;
                let t = StudentsT::new(0.0, 1.0, free).ok()?.inverse_cdf(0.975);
                let variance = self.rmse.powi(2) * points.len() as f64 / free;
                // The numbers are linear in the delays: this is what each delay contributes.
                let mut squares = [0.0; 4];
                for at in 0..points.len() {
                    let unit = points
                        .iter()
                        .enumerate()
                        .map(|(i, (count, _))| (*count, f64::from(u8::from(i == at))));
                    let part = self.refit(&unit.collect::<Vec<_>>()).numbers();
                    squares.iter_mut().zip(part).for_each(|(sum, part)| *sum += part * part);
                }
                squares.map(|sum| t * (variance * sum).sqrt())
            }
        };
        Some(Uncertainty { slope, slope_beyond, bend, jump })
    }

    /// One line of text.
    pub fn to_text(&self) -> String {
        let Line { intercept, slope, broken, rmse } = self;
        let broken = broken.map(|Break { above, slope, jump }| {
            format!("; above {above}: {slope:+.4} each, {jump:+.4} once")
        });
        format!("{intercept:.4} {slope:+.4} each{} (RMSE {rmse:.4})", broken.unwrap_or_default())
    }

    /// Returns the values of `to_text` as JSON.
    pub fn to_json(&self) -> Json {
        let broken = self
            .broken
            .map(|Break { above, slope, jump }| json!({ "above": above, "slope": slope, "jump": jump }));
        json!({ "intercept": self.intercept, "slope": self.slope, "break": broken, "rmse": self.rmse })
    }
}

/// The least-squares line through points.
pub fn line(points: &[(f64, f64)]) -> Result<Line, Invalid> {
    check(points)?;
    Ok(Shape::STRAIGHT.fit(points, 0.0))
}

/// Probability that a break is found in a straight line, for one place and shape of the break. Some twenty are tried.
const SIGNIFICANCE: f64 = 1e-4;

/// The least-squares line, or line with one break if that is significantly better by the F-test.
///
/// At a break, the slope changes, or the line jumps, or, if that is significantly better again, both. It has at least two counts
/// on either side. For ten points, a break must reduce the RMSE to 21 %.
pub fn broken_line(points: &[(f64, f64)]) -> Result<Line, Invalid> {
    let counts = check(points)?;
    let mut best = (line(points)?, Shape::STRAIGHT);
    // The break is after `above`.
    let places = counts.iter().skip(1).take(counts.len().saturating_sub(3));
    for shapes in [&[Shape::BENT, Shape::JUMPING][..], &[Shape::BOTH]] {
        let broken =
            places.clone().flat_map(|above| shapes.iter().map(|shape| (shape.fit(points, *above), *shape)));
        if let Some(broken) = broken.min_by(|(a, _), (b, _)| a.rmse.total_cmp(&b.rmse))
            && is_better(broken, best, points)
        {
            best = broken;
        }
    }
    Ok(best.0)
}

/// Whether a line with more parameters is significantly better than one with fewer.
fn is_better(
    (line, shape): (Line, Shape),
    (simple, simple_shape): (Line, Shape),
    points: &[(f64, f64)],
) -> bool {
    let added = shape.parameters() - simple_shape.parameters();
    let free = points.len() as f64 - shape.parameters();
    // Errors of computing are no reason for a break.
    let largest = points.iter().map(|(_, delay)| delay.abs()).fold(0.0, f64::max);
    let noise = 1e-9 * largest;
    if free < 1.0 || simple.rmse <= noise {
        return false;
    }
    let f = ((simple.rmse / line.rmse.max(noise)).powi(2) - 1.0) / added * free;
    FisherSnedecor::new(added, free).is_ok_and(|law| f > 0.0 && law.sf(f) < SIGNIFICANCE)
}

/// Checks points and returns their counts in order, each once.
fn check(points: &[(f64, f64)]) -> Result<Vec<f64>, Invalid> {
    let is_wrong = |number: f64| number.is_nan() || number.abs() > LARGEST;
    if let Some((count, delay)) = points.iter().find(|(count, delay)| is_wrong(*count) || is_wrong(*delay)) {
        return Err(Invalid::new("point", format!("({count}, {delay})"), "numbers from -1e12 to 1e12"));
    }
    let mut counts: Vec<f64> = points.iter().map(|(count, _)| *count).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    match counts.len() {
        found @ 0..2 => Err(Invalid::new("points", format!("{found} different counts"), "at least two")),
        _ => Ok(counts),
    }
}

/// What may differ beyond a break.
#[derive(Clone, Copy, Debug)]
struct Shape {
    bends: bool,
    jumps: bool,
}

impl Shape {
    const STRAIGHT: Shape = Shape { bends: false, jumps: false };
    const BENT: Shape = Shape { bends: true, jumps: false };
    const JUMPING: Shape = Shape { bends: false, jumps: true };
    const BOTH: Shape = Shape { bends: true, jumps: true };

    /// Intercept, slope, the place of a break and what happens there.
    fn parameters(self) -> f64 {
        let at_break = f64::from(u8::from(self.bends)) + f64::from(u8::from(self.jumps));
        2.0 + at_break + f64::from(u8::from(at_break > 0.0))
    }

    /// The best line with a break at `above`.
    fn fit(self, points: &[(f64, f64)], above: f64) -> Line {
        let is_beyond = |count: f64| f64::from(u8::from(count > above));
        let columns: [(bool, &dyn Fn(f64) -> f64); 4] = [
            (true, &|_| 1.0),
            (true, &|count| count),
            (self.jumps, &is_beyond),
            (self.bends, &|count| is_beyond(count) * (count - above)),
        ];
        let used: Vec<usize> = (0..columns.len()).filter(|column| columns[*column].0).collect();
        let values = |column: &usize| points.iter().map(|(count, _)| columns[*column].1(*count)).collect();
        let delays: Vec<f64> = points.iter().map(|(_, delay)| *delay).collect();
        let mut found = [0.0; 4];
        for (column, value) in used.iter().zip(least_squares(used.iter().map(values).collect(), delays)) {
            found[*column] = value;
        }
        let [intercept, slope, jump, bend] = found;
        let broken = (self.bends || self.jumps).then_some(Break { above, slope: slope + bend, jump });
        let mut line = Line { intercept, slope, broken, rmse: 0.0 };
        let squares: f64 = points.iter().map(|(count, delay)| (line.at(*count) - delay).powi(2)).sum();
        line.rmse = (squares / points.len() as f64).sqrt();
        line
    }
}

/// The factors of the columns whose sum is nearest to the target, by Gram and Schmidt's orthogonalisation.
fn least_squares(mut columns: Vec<Vec<f64>>, mut target: Vec<f64>) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let subtract = |from: &mut [f64], factor: f64, column: &[f64]| {
        from.iter_mut().zip(column).for_each(|(from, value)| *from -= factor * value);
    };
    let count = columns.len();
    // How much of each column is in the later ones, and in the target (the last one).
    let mut parts = vec![vec![0.0; count + 1]; count];
    for at in 0..count {
        let (done, later) = columns.split_at_mut(at + 1);
        let column = &done[at];
        let size = dot(column, column);
        for (place, other) in later.iter_mut().chain([&mut target]).enumerate() {
            let part = dot(column, other) / size;
            subtract(other, part, column);
            parts[at][if place == count - at - 1 { count } else { at + 1 + place }] = part;
        }
    }
    let mut factors = vec![0.0; count];
    for at in (0..count).rev() {
        let later: f64 = (at + 1..count).map(|other| parts[at][other] * factors[other]).sum();
        factors[at] = parts[at][count] - later;
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::Counts;
    use crate::estimate::{Path, estimate};
    use crate::profile::Profile;
    use rand_distr::{Distribution, Normal};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found}, expected {expected}");
    }

    #[test]
    fn a_line_by_hand() {
        let found = line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 2.0), (1.0, 2.0)]).unwrap();
        near(found.slope, 0.5, 1e-12);
        near(found.intercept, 1.5, 1e-12);
        near(found.rmse, (1.5f64 / 4.0).sqrt(), 1e-12);
        let exact = line(&[(1.0, 5.0), (3.0, 9.0)]).unwrap();
        assert_eq!(exact.to_text(), "3.0000 +2.0000 each (RMSE 0.0000)");
        let error = line(&[(1.0, 5.0), (1.0, 9.0)]).unwrap_err().to_string();
        assert_eq!(error, "points: found 1 different counts, expected at least two");
        let error = line(&[(1.0, f64::NAN), (2.0, 9.0)]).unwrap_err().to_string();
        assert_eq!(error, "point: found (1, NaN), expected numbers from -1e12 to 1e12");
    }

    /// Counts 1 to 10 as in §3.3; the noise of the mean delay of 100,000 packets is far smaller than this one.
    #[test]
    fn planted_breaks_are_found() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let noise = Normal::new(0.0, 0.05).unwrap();
        let planted = |slope: f64, broken: Option<Break>| Line { intercept: 7.45, slope, broken, rmse: 0.0 };
        let cases = [
            planted(1.59, Some(Break { above: 6.0, slope: 14.4, jump: 0.0 })),
            planted(1.43, Some(Break { above: 7.0, slope: 1.43, jump: 17.68 })),
            planted(1.0, Some(Break { above: 4.0, slope: 3.0, jump: -5.0 })),
            planted(0.11, None),
            planted(0.0, None),
        ];
        for expected in cases {
            for _ in 0..20 {
                let points: Vec<(f64, f64)> = (1..=10)
                    .map(|count| (count.into(), expected.at(count.into()) + noise.sample(&mut random)))
                    .collect();
                let found = broken_line(&points).unwrap();
                near(found.intercept, expected.intercept, 0.3);
                near(found.slope, expected.slope, 0.1);
                assert!(found.rmse < 0.1);
                match (found.broken, expected.broken) {
                    (Some(found), Some(expected)) => {
                        assert_eq!(found.above, expected.above);
                        near(found.slope, expected.slope, 0.1);
                        near(found.jump, expected.jump, 0.4);
                    }
                    (found, expected) => assert_eq!(found, expected),
                }
            }
        }
    }

    /// Of the least-squares line through (0, 1), (1, 3), (2, 2), (1, 2), by hand; and from two rounds.
    #[test]
    fn uncertainty_by_hand() {
        let points = [(0.0, 1.0), (1.0, 3.0), (2.0, 2.0), (1.0, 2.0)];
        let found = line(&points).unwrap();
        // The variance is 1.5 / 2; the squared distances of the counts from their mean sum to 2.
        let expected = 4.302_653 * (0.75f64 / 2.0).sqrt();
        let uncertainty = found.uncertainty(&points, &[]).unwrap();
        near(uncertainty.slope, expected, 1e-5);
        near(uncertainty.jump, 0.0, 1e-12);
        assert_eq!(found.uncertainty(&points[..2], &[]), None);
        // Slopes 1, 2, 1, 2: t for three degrees of freedom is 3.182.
        let rounds = [1.0, 2.0, 1.0, 2.0].map(|slope| vec![(0.0, 5.0), (1.0, 5.0 + slope)]);
        let expected = 3.182_446 * (1.0f64 / 3.0).sqrt() / 2.0;
        near(found.uncertainty(&points, &rounds).unwrap().slope, expected, 1e-5);
        // Two rounds are too few.
        assert_eq!(found.uncertainty(&points, &rounds[..2]), found.uncertainty(&points, &[]));
        // Intervals of a broken line contain what was planted, in about 95 % of cases.
        let planted = Break { above: 6.0, slope: 14.4, jump: 3.0 };
        let planted = Line { intercept: 7.45, slope: 1.59, broken: Some(planted), rmse: 0.0 };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let noise = Normal::new(0.0, 0.05).unwrap();
        let mut outside = [0; 4];
        for _ in 0..500 {
            let points: Vec<(f64, f64)> =
                (0..=10).map(|n| (n.into(), planted.at(n.into()) + noise.sample(&mut random))).collect();
            let found = planted.refit(&points);
            let Uncertainty { slope, slope_beyond, bend, jump } = found.uncertainty(&points, &[]).unwrap();
            let pairs =
                found.numbers().into_iter().zip(planted.numbers()).zip([slope, slope_beyond, bend, jump]);
            for (at, ((found, planted), half_width)) in pairs.enumerate() {
                outside[at] += usize::from((found - planted).abs() > half_width);
            }
        }
        assert!(outside.iter().all(|outside| (10..=40).contains(outside)), "{outside:?} of 500");
    }

    /// Noise alone seldom looks like a break.
    #[test]
    fn straight_lines_stay_straight() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let noise = Normal::new(0.0, 1.0).unwrap();
        for counts in [10, 14] {
            let is_broken = |_: &i32| {
                let points: Vec<(f64, f64)> =
                    (1..=counts).map(|count| (count.into(), noise.sample(&mut random))).collect();
                broken_line(&points).unwrap().broken.is_some()
            };
            let broken = (0..1000).filter(is_broken).count();
            assert!(broken <= 5, "{broken} of 1000 with {counts} counts");
        }
    }

    /// Points from a device that follows its profile give the profile back.
    #[test]
    fn a_modelled_device_yields_its_profile() {
        let profile = Profile::shipped_as("agilio-cx").unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        // Of the mean of 1000 packets.
        let noise = Normal::new(0.0, 0.21 / 1000f64.sqrt()).unwrap();
        for construct in Construct::ALL {
            let mut delay = |count: i32| {
                let mut counts = [0; 6];
                counts[construct as usize] = count;
                let us = estimate(&profile, &Path::new(Counts::new(counts).unwrap())).unwrap().us;
                us + noise.sample(&mut random)
            };
            let points: Vec<(f64, f64)> = (0..=10).map(|count| (count.into(), delay(count))).collect();
            let found = broken_line(&points).unwrap();
            assert!(found.rmse < 0.4);
            let (cost, rules) = found.rules(construct);
            near(cost.value, profile.cost(construct).value, 0.01);
            let expected: Vec<&Rule> =
                profile.rules.iter().filter(|rule| rule.construct == construct).collect();
            assert_eq!(rules.len(), expected.len(), "{}", found.to_text());
            for (found, expected) in rules.iter().zip(expected) {
                assert_eq!(found.above, expected.above);
                match (&found.correction, &expected.correction) {
                    (Correction::Each(found), Correction::Each(expected))
                    | (Correction::Once(found), Correction::Once(expected)) => {
                        near(found.value, expected.value, 0.05);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
