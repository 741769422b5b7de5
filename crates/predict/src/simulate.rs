//! Simulates a data plane with a controller, packet by packet (§3.13).
//!
//! Unlike in [`crate::queueing`], packets that return from the controller are not taken as Poisson arrivals. A run of 1.3 million
//! packets takes about 0.05 s.

use crate::error::{Invalid, POSITIVE, in_range};
use crate::queueing::{Error, Model, Service, System};
use crate::thesis::{CONTROLLER_VARIATION, CONTROLLERS_US, DEVIATIONS_US, NEW_FLOW_SHARES, NFS};
use rand_distr::{Distribution, Exp1, Gamma, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::{Value as Json, json};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The distribution of service times, at both servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Exponential; standard deviations are not used.
    Exponential,
    /// Erlang, whose shape is (mean / standard deviation)², rounded.
    Erlang,
    /// Lognormal.
    Lognormal,
    /// Always the mean; standard deviations are not used.
    Deterministic,
}

impl Law {
    /// All laws.
    pub const ALL: [Law; 4] = [Law::Exponential, Law::Erlang, Law::Lognormal, Law::Deterministic];

    /// The name for users.
    pub fn name(self) -> &'static str {
        match self {
            Law::Exponential => "exponential",
            Law::Erlang => "erlang",
            Law::Lognormal => "lognormal",
            Law::Deterministic => "deterministic",
        }
    }
}

/// How long and how often to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Counted packets of a run.
    pub packets: u64,
    /// Packets before them that are not counted, so that the queues have filled.
    pub warm_up: u64,
    /// Number of runs.
    pub runs: u64,
    /// Seed of the first run; the others have the numbers after it. Equal seeds give equal results.
    pub seed: u64,
    /// Number of threads. It does not change results.
    pub threads: usize,
}

impl Default for Options {
    /// Those of §3.13, with 5 % of the packets as warm-up.
    fn default() -> Options {
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Options { packets: 1_300_000, warm_up: 65_000, runs: 5, seed: 1, threads }
    }
}

/// Maximum number of packets of a run.
const PACKETS_MAX: f64 = 1e9;
/// Maximum number of runs.
const RUNS_MAX: f64 = 1e4;
/// Maximum number of threads.
const THREADS_MAX: f64 = 1024.0;
/// Standard deviations below this part of the mean are taken as 0.
const VARIATION_MIN: f64 = 1e-6;
/// Level of the confidence intervals.
const CONFIDENCE: f64 = 0.95;

impl Options {
    fn check(&self) -> Result<(), Invalid> {
        in_range("packets", self.packets as f64, 1.0..=PACKETS_MAX)?;
        in_range("packets of the warm-up", self.warm_up as f64, 0.0..=PACKETS_MAX)?;
        in_range("runs", self.runs as f64, 2.0..=RUNS_MAX)?;
        in_range("threads", self.threads as f64, 1.0..=THREADS_MAX)?;
        Ok(())
    }
}

/// A mean over runs with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval, from the means of the runs by Student's t.
    pub half_width: f64,
}

impl Interval {
    /// Of the means of at least two runs.
    pub(crate) fn of(means: &[f64]) -> Interval {
        let count = means.len() as f64;
        let mean = means.iter().sum::<f64>() / count;
        let variance = means.iter().map(|found| (found - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let t = StudentsT::new(0.0, 1.0, count - 1.0)
            .expect("there are two runs")
            .inverse_cdf(0.5 + CONFIDENCE / 2.0);
        Interval { mean, half_width: t * (variance / count).sqrt() }
    }
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// Mean time from arrival to departure over all packets, in µs.
    pub us: Interval,
    /// The mean of each run in µs, by seed.
    pub runs_us: Vec<f64>,
    /// Mean time in µs of packets that did not go to the controller; NaN if all did.
    pub direct_us: f64,
    /// Mean time in µs of packets that went to the controller; NaN if none did.
    pub returned_us: f64,
    /// Utilisation of the data plane.
    pub data_plane_load: f64,
    /// Utilisation of the controller.
    pub controller_load: f64,
}

/// Simulates a system at an external rate.
pub fn simulate(system: System, rate_mpps: f64, law: Law, options: &Options) -> Result<Simulated, Error> {
    options.check()?;
    let job = Job::new(system, rate_mpps, law)?;
    let seeds: Vec<u64> = (0..options.runs).map(|run| options.seed.wrapping_add(run)).collect();
    let runs = parallel(seeds.len(), options.threads, |at| job.run(seeds[at], options));
    Ok(Simulated::of(&runs))
}

/// Calls a function for each number below `count` on several threads, and returns the results in order.
fn parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let claim = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < count);
        std::iter::from_fn(claim).map(|at| (at, work(at))).collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        // This thread does the work of those that the system does not start.
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, worker).ok();
        let workers: Vec<_> = (1..threads.min(count)).filter_map(start).collect();
        let mut done = worker();
        for worker in workers {
            done.extend(worker.join().expect("a worker panicked"));
        }
        done
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Draws service times in µs.
#[derive(Clone, Copy, Debug)]
enum Sampler {
    Exponential(f64),
    Gamma(Gamma<f64>),
    Lognormal(LogNormal<f64>),
    Constant(f64),
}

impl Sampler {
    fn new(service: Service, law: Law) -> Result<Sampler, Invalid> {
        let (mean, deviation) = (service.mean_us(), service.deviation_us());
        let what = "standard deviation of the service time in µs";
        let variation = deviation / mean;
        match law {
            Law::Exponential => Ok(Sampler::Exponential(mean)),
            Law::Deterministic => Ok(Sampler::Constant(mean)),
            Law::Erlang | Law::Lognormal if variation < VARIATION_MIN => Ok(Sampler::Constant(mean)),
            Law::Erlang => {
                let shape = (1.0 / (variation * variation)).round();
                let gamma = Gamma::new(shape, mean / shape).ok().filter(|_| variation <= 1.0);
                let expected = || format!("at most the mean of {mean}, for an Erlang distribution");
                gamma.map(Sampler::Gamma).ok_or_else(|| Invalid::new(what, deviation, expected()))
            }
            Law::Lognormal => {
                let variance = (variation * variation).ln_1p();
                let lognormal = LogNormal::new(mean.ln() - variance / 2.0, variance.sqrt());
                lognormal.map(Sampler::Lognormal).map_err(|_| Invalid::new(what, deviation, "less"))
            }
        }
    }

    fn sample(&self, random: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            Sampler::Exponential(mean) => mean * exponential(random),
            Sampler::Gamma(gamma) => gamma.sample(random),
            Sampler::Lognormal(lognormal) => lognormal.sample(random),
            Sampler::Constant(us) => *us,
        }
    }
}

/// Draws from the exponential distribution with mean 1.
fn exponential(random: &mut Xoshiro256PlusPlus) -> f64 {
    Exp1.sample(random)
}

/// Draws from the uniform distribution on [0, 1).
fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    // The upper 53 bits, as many as a number holds exactly.
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A system at a rate.
struct Job {
    data_plane: Sampler,
    controller: Sampler,
    new_flow_share: f64,
    /// Mean time between external arrivals.
    gap_us: f64,
}

/// Packets of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    count: u64,
    us: f64,
}

impl Total {
    fn add(&mut self, us: f64) {
        self.count += 1;
        self.us += us;
    }
}

/// What one run found.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Counted packets that did not go to the controller: the times from arrival to departure.
    direct: Total,
    /// The same for those that did.
    returned: Total,
    /// Service times of data plane and controller, over the whole run.
    busy_us: [f64; 2],
    /// When the data plane and the controller became free.
    end_us: f64,
}

impl Run {
    fn mean_us(&self) -> f64 {
        (self.direct.us + self.returned.us) / (self.direct.count + self.returned.count) as f64
    }
}

impl Job {
    fn new(system: System, rate_mpps: f64, law: Law) -> Result<Job, Error> {
        in_range("rate in Mpps", rate_mpps, POSITIVE)?;
        system.stable_loads(rate_mpps)?;
        Ok(Job {
            data_plane: Sampler::new(system.data_plane(), law)?,
            controller: Sampler::new(system.controller(), law)?,
            new_flow_share: system.new_flow_share(),
            gap_us: 1.0 / rate_mpps,
        })
    }

    /// Takes the arrivals at the data plane in the order of time: those from outside and those that return.
    ///
    /// A FIFO server serves packets in the order of their arrival, so that the time of a departure is known as soon as the
    /// packet arrives: service starts at the arrival or at the departure before it, whichever is later. Returns are therefore
    /// known before they happen, in their order, and the next event is the earlier of two.
    fn run(&self, seed: u64, options: &Options) -> Run {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut run = Run::default();
        // Of the packets that are at the controller: when they return, when they arrived, whether they are counted.
        let mut returns: VecDeque<(f64, f64, bool)> = VecDeque::new();
        let [mut data_plane_free, mut controller_free] = [0.0f64; 2];
        let mut next_arrival = self.gap_us * exponential(&mut random);
        let counted = options.warm_up..options.warm_up + options.packets;
        for packet in 0.. {
            while let Some(&(time, arrival, is_counted)) =
                returns.front().filter(|(time, ..)| *time < next_arrival)
            {
                returns.pop_front();
                let service = self.data_plane.sample(&mut random);
                data_plane_free = data_plane_free.max(time) + service;
                run.busy_us[0] += service;
                if is_counted {
                    run.returned.add(data_plane_free - arrival);
                }
            }
            // Packets after the counted ones matter as long as these may meet them.
            if run.direct.count + run.returned.count == options.packets {
                break;
            }
            let arrival = next_arrival;
            next_arrival += self.gap_us * exponential(&mut random);
            let service = self.data_plane.sample(&mut random);
            data_plane_free = data_plane_free.max(arrival) + service;
            run.busy_us[0] += service;
            let is_counted = counted.contains(&packet);
            if uniform(&mut random) < self.new_flow_share {
                let service = self.controller.sample(&mut random);
                controller_free = controller_free.max(data_plane_free) + service;
                run.busy_us[1] += service;
                returns.push_back((controller_free, arrival, is_counted));
            } else if is_counted {
                run.direct.add(data_plane_free - arrival);
            }
        }
        run.end_us = data_plane_free.max(controller_free);
        run
    }
}

impl Simulated {
    fn of(runs: &[Run]) -> Simulated {
        let runs_us: Vec<f64> = runs.iter().map(Run::mean_us).collect();
        let mean = |total: fn(&Run) -> Total| {
            let totals = || runs.iter().map(total);
            totals().map(|total| total.us).sum::<f64>()
                / totals().map(|total| total.count).sum::<u64>() as f64
        };
        let time: f64 = runs.iter().map(|run| run.end_us).sum();
        let load = |server: usize| runs.iter().map(|run| run.busy_us[server]).sum::<f64>() / time;
        Simulated {
            us: Interval::of(&runs_us),
            runs_us,
            direct_us: mean(|run| run.direct),
            returned_us: mean(|run| run.returned),
            data_plane_load: load(0),
            controller_load: load(1),
        }
    }

    /// A table.
    pub fn to_text(&self) -> String {
        let Interval { mean, half_width } = self.us;
        let runs = self.runs_us.len();
        let mut out =
            format!("delay                  {mean:>12.3} µs ± {half_width:.3} (95 %, {runs} runs)\n");
        for (name, us) in
            [("without the controller", self.direct_us), ("with the controller", self.returned_us)]
        {
            if us.is_finite() {
                out += &format!("{name:<22} {us:>12.3} µs\n");
            }
        }
        out += &format!("load of the data plane {:>12.3}\n", self.data_plane_load);
        out + &format!("load of the controller {:>12.3}\n", self.controller_load)
    }

    /// Returns the simulation as JSON. The mean of no packets is null.
    pub fn to_json(&self) -> Json {
        json!({
            "us": self.us.mean,
            "half_width_us": self.us.half_width,
            "confidence": CONFIDENCE,
            "runs_us": self.runs_us,
            "direct_us": self.direct_us,
            "returned_us": self.returned_us,
            "data_plane_load": self.data_plane_load,
            "controller_load": self.controller_load,
        })
    }
}

/// A case in which a model of [`crate::queueing`] is compared with simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// Data plane, controller, and share of packets of new flows.
    pub system: System,
    /// Utilisation of the controller.
    pub controller_load: f64,
    /// Utilisation of the data plane.
    pub data_plane_load: f64,
    /// External rate.
    pub rate_mpps: f64,
}

/// A [`Case`] with both delays.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The case.
    pub case: Case,
    /// The delay of the model in µs.
    pub model_us: f64,
    /// The simulated delay in µs.
    pub simulated_us: Interval,
}

impl Compared {
    /// The error of the model in percent.
    pub fn error_percent(&self) -> f64 {
        (self.model_us / self.simulated_us.mean - 1.0) * 100.0
    }
}

/// The 151 cases of §8.2 item 9: the five different measured service times of L3Fwd and VxLAN decapsulation, three
/// controllers, four shares of new flows, three utilisations of the controller; without those in which the utilisation of the
/// data plane is 0.9 or more.
pub fn grid() -> Vec<Case> {
    const LOADS: [f64; 3] = [0.2, 0.5, 0.8];
    const DATA_PLANE_LOAD_MAX: f64 = 0.9;
    let [l3fwd, _, decap] = &NFS;
    let mut services: Vec<(f64, f64)> = Vec::new();
    for nf in [l3fwd, decap] {
        for service in nf.measured_us.into_iter().zip(DEVIATIONS_US) {
            if !services.contains(&service) {
                services.push(service);
            }
        }
    }
    let mut cases = Vec::new();
    for (mean, deviation) in services {
        for controller in CONTROLLERS_US {
            // Without new flows, there is no utilisation of the controller.
            for share in NEW_FLOW_SHARES.into_iter().filter(|share| *share > 0.0) {
                for controller_load in LOADS {
                    let valid = "the numbers of the thesis are valid";
                    let data_plane = Service::new(mean, deviation).expect(valid);
                    let controller =
                        Service::new(controller, CONTROLLER_VARIATION * controller).expect(valid);
                    let system = System::new(data_plane, controller, share).expect(valid);
                    let rate_mpps = system.rate_at_load(controller_load).expect(valid);
                    let [data_plane_load, _] = system.loads(rate_mpps);
                    if data_plane_load < DATA_PLANE_LOAD_MAX {
                        cases.push(Case { system, controller_load, data_plane_load, rate_mpps });
                    }
                }
            }
        }
    }
    cases
}

/// Compares a model with simulation: [`Model::Simple`] with exponential service times, [`Model::Refined`] with Erlang's.
///
/// Every case has its own seeds. With the default options, the whole [`grid`] takes about 22 s of processor time with exponential
/// and 32 s with Erlang service times, half as much on two free cores.
pub fn compare(cases: &[Case], model: Model, options: &Options) -> Result<Vec<Compared>, Error> {
    options.check()?;
    let law = match model {
        Model::Simple => Law::Exponential,
        Model::Refined => Law::Erlang,
    };
    let jobs: Result<Vec<Job>, Error> =
        cases.iter().map(|case| Job::new(case.system, case.rate_mpps, law)).collect();
    let jobs = jobs?;
    let per_case = options.runs as usize;
    let runs = parallel(jobs.len() * per_case, options.threads, |at| {
        jobs[at / per_case].run(options.seed.wrapping_add(at as u64), options)
    });
    let compared = cases.iter().zip(runs.chunks(per_case)).map(|(case, runs)| {
        let model_us = case.system.sojourn(case.rate_mpps, model)?.us;
        Ok(Compared { case: *case, model_us, simulated_us: Simulated::of(runs).us })
    });
    compared.collect()
}

/// The errors of a model over many cases.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorMap {
    /// The cases, the largest error first.
    pub cases: Vec<Compared>,
    /// Mean of the errors' absolute values in percent.
    pub mean_percent: f64,
}

impl ErrorMap {
    /// Sorts cases, of which there is at least one.
    pub fn new(mut cases: Vec<Compared>) -> ErrorMap {
        let size = |compared: &Compared| compared.error_percent().abs();
        cases.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let mean_percent = cases.iter().map(size).sum::<f64>() / cases.len() as f64;
        ErrorMap { cases, mean_percent }
    }

    /// A table of all cases, then the mean.
    pub fn to_text(&self) -> String {
        let mut out = format!(
            "{:>10} {:>13} {:>9} {:>7} {:>7} {:>12} {:>12} {:>10} {:>8}\n",
            "service µs",
            "controller µs",
            "new flows",
            "load d",
            "load c",
            "model µs",
            "simulated µs",
            "± (95 %)",
            "error %"
        );
        for compared in &self.cases {
            let Compared { case, model_us, simulated_us } = compared;
            out += &format!(
                "{:>10.1} {:>13} {:>9} {:>7.3} {:>7.3} {model_us:>12.3} {:>12.3} {:>10.3} {:>+8.2}\n",
                case.system.data_plane().mean_us(),
                case.system.controller().mean_us(),
                case.system.new_flow_share(),
                case.data_plane_load,
                case.controller_load,
                simulated_us.mean,
                simulated_us.half_width,
                compared.error_percent(),
            );
        }
        out + &format!("mean absolute error of {} cases: {:.2} %\n", self.cases.len(), self.mean_percent)
    }

    /// Returns the values of `to_text` as JSON.
    pub fn to_json(&self) -> Json {
        let case = |compared: &Compared| {
            let Compared { case, model_us, simulated_us } = compared;
            json!({
                "service_us": case.system.data_plane().mean_us(),
                "controller_us": case.system.controller().mean_us(),
                "new_flow_share": case.system.new_flow_share(),
                "data_plane_load": case.data_plane_load,
                "controller_load": case.controller_load,
                "rate_mpps": case.rate_mpps,
                "model_us": model_us,
                "simulated_us": simulated_us.mean,
                "half_width_us": simulated_us.half_width,
                "error_percent": compared.error_percent(),
            })
        };
        json!({ "mean_percent": self.mean_percent, "cases": self.cases.iter().map(case).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::Node;

    fn system(data_plane: [f64; 2], controller: [f64; 2], new_flow_share: f64) -> System {
        let service = |[mean, deviation]: [f64; 2]| Service::new(mean, deviation).unwrap();
        System::new(service(data_plane), service(controller), new_flow_share).unwrap()
    }

    const SHORT: Options = Options { packets: 200_000, warm_up: 10_000, runs: 5, seed: 1, threads: 2 };

    /// Pollaczek and Khinchin's formula is exact without feedback, so it checks the samplers.
    #[test]
    fn a_single_queue_is_as_in_theory() {
        let rate = 0.07;
        for (law, deviation) in
            [(Law::Exponential, 10.0), (Law::Erlang, 5.0), (Law::Lognormal, 15.0), (Law::Deterministic, 0.0)]
        {
            let expected =
                system([10.0, deviation], [1.0, 0.0], 0.0).sojourn(rate, Model::Refined).unwrap().us;
            // Laws that do not use the standard deviation get a wrong one.
            let given = if matches!(law, Law::Exponential | Law::Deterministic) { 3.0 } else { deviation };
            let found = simulate(system([10.0, given], [1.0, 0.0], 0.0), rate, law, &SHORT).unwrap();
            let error = (found.us.mean / expected - 1.0).abs();
            assert!(error < 0.02, "{law:?}: {found:?}, expected {expected}");
            // The interval is neither empty nor useless; of 95 % intervals, few miss by much.
            assert!(
                found.us.half_width > 0.001 * expected && found.us.half_width < 0.06 * expected,
                "{found:?}"
            );
            assert!((found.us.mean - expected).abs() < 2.0 * found.us.half_width, "{found:?}");
            assert!((found.data_plane_load - 0.7).abs() < 0.01, "{found:?}");
            assert_eq!(found.controller_load, 0.0);
            assert!(found.returned_us.is_nan() && found.direct_us > 0.0);
        }
    }

    #[test]
    fn packets_that_return_take_both_queues() {
        let system = system([8.2, 0.21], [31.0, 3.1], 0.5);
        let rate = system.rate_at_load(0.5).unwrap();
        let found = simulate(system, rate, Law::Erlang, &SHORT).unwrap();
        let parts = (found.direct_us + found.returned_us) / 2.0;
        assert!((parts / found.us.mean - 1.0).abs() < 0.01, "{found:?}");
        assert!(found.returned_us > found.direct_us + 31.0 + 8.2, "{found:?}");
        for (found, expected) in [found.data_plane_load, found.controller_load].iter().zip(system.loads(rate))
        {
            assert!((found / expected - 1.0).abs() < 0.01, "{found} {expected}");
        }
        assert!(found.to_text().contains("without the controller"), "{}", found.to_text());
        assert_eq!(found.to_json()["runs_us"].as_array().unwrap().len(), 5);
        // Everything returns.
        let found = simulate(self::system([8.2, 0.21], [31.0, 3.1], 1.0), 0.01, Law::Erlang, &SHORT).unwrap();
        assert!(found.direct_us.is_nan(), "{found:?}");
        assert!(found.to_json()["direct_us"].is_null());
    }

    #[test]
    fn equal_seeds_give_equal_results_on_any_number_of_threads() {
        let system = system([8.2, 0.21], [31.0, 3.1], 0.5);
        let run = |seed, threads| {
            let options = Options { packets: 1000, warm_up: 10, runs: 7, seed, threads };
            simulate(system, 0.02, Law::Lognormal, &options).unwrap()
        };
        assert_eq!(run(1, 1), run(1, 3));
        assert_ne!(run(1, 1), run(2, 1));
        // The second run of one seed is the first of the next.
        assert_eq!(run(1, 2).runs_us[1..], run(2, 2).runs_us[..6]);
    }

    /// Also if the queues are long.
    #[test]
    fn all_counted_packets_depart() {
        let job = Job::new(system([29.0, 0.0], [30.0, 0.0], 0.5), 0.02, Law::Exponential).unwrap();
        for seed in 0..1000 {
            let run = job.run(seed, &Options { packets: 3, warm_up: 20, ..SHORT });
            assert_eq!(run.direct.count + run.returned.count, 3);
        }
    }

    /// Student's t for four degrees of freedom is 2.776.
    #[test]
    fn confidence_intervals() {
        let found = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(found.mean, 3.0);
        assert!((found.half_width - 2.776 * (2.5f64 / 5.0).sqrt()).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn errors_are_typed() {
        let system = system([8.0, 9.0], [31.0, 3.1], 1.0);
        let error = simulate(system, 0.05, Law::Exponential, &SHORT).unwrap_err();
        assert!(matches!(error, Error::Unstable { node: Node::Controller, .. }), "{error}");
        assert!(matches!(simulate(system, 0.0, Law::Exponential, &SHORT), Err(Error::Invalid(_))));
        let error = |law, options| simulate(system, 0.01, law, &options).unwrap_err().to_string();
        assert_eq!(
            error(Law::Erlang, SHORT),
            "standard deviation of the service time in µs: found 9, expected at most the mean of 8, for an Erlang \
             distribution"
        );
        let one_run = Options { runs: 1, ..SHORT };
        assert_eq!(error(Law::Exponential, one_run), "runs: found 1, expected a number from 2 to 10000");
        let none = Options { packets: 0, ..SHORT };
        assert_eq!(error(Law::Exponential, none), "packets: found 0, expected a number from 1 to 1e9");
    }

    /// Processor time of this process so far, which other processes hardly affect.
    fn processor_seconds() -> f64 {
        const TICKS_PER_SECOND: f64 = 100.0;
        let status = std::fs::read_to_string("/proc/self/stat").unwrap();
        // After the name in parentheses, fields 14 and 15 are the times in user and system mode.
        let fields: Vec<&str> = status.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_SECOND
    }

    /// Checks what §8.2 item 9 says about the grid.
    fn check_grid(options: &Options, tolerance_percent: f64) {
        let cases = grid();
        assert_eq!(cases.len(), 151);
        let map = |model| {
            let start = processor_seconds();
            let map = ErrorMap::new(compare(&cases, model, options).unwrap());
            let seconds = processor_seconds() - start;
            println!("{}{seconds:.1} s of processor time", map.to_text());
            // A minute on two cores.
            assert!(seconds < 120.0, "{seconds}");
            assert_eq!(map.to_json()["cases"].as_array().unwrap().len(), 151);
            map
        };
        assert!(map(Model::Simple).mean_percent < 1.5);
        let refined = map(Model::Refined);
        assert!(refined.mean_percent < 1.5);
        let exceptions: Vec<&Compared> =
            refined.cases.iter().filter(|compared| compared.error_percent().abs() > 12.0).collect();
        let expected = [(15.2, 31.0, 1.0, 0.8, 20.6), (45.9, 31.0, 0.5, 0.2, -15.4)];
        assert_eq!(exceptions.len(), expected.len(), "{exceptions:?}");
        for (compared, (mean, controller, share, load, percent)) in exceptions.into_iter().zip(expected) {
            let system = compared.case.system;
            assert_eq!((system.data_plane().mean_us(), system.controller().mean_us()), (mean, controller));
            assert_eq!((system.new_flow_share(), compared.case.controller_load), (share, load));
            assert!((compared.error_percent() - percent).abs() < tolerance_percent, "{compared:?}");
        }
    }

    #[test]
    fn errors_of_the_models_with_few_packets() {
        check_grid(&Options { packets: 130_000, warm_up: 13_000, ..SHORT }, 4.0);
    }

    /// With the number of packets of the thesis, on two threads.
    #[test]
    #[ignore = "a minute"]
    fn errors_of_the_models() {
        check_grid(&Options { threads: 2, ..Options::default() }, 1.0);
    }
}
