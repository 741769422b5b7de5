//! Delay and stability of a switch with a controller under load (Eqs. 4.1 and 4.7–4.13).
//!
//! Packets arrive as a Poisson process at the data plane. A share of them, P_nf, belongs to new flows: these go from the data
//! plane to the controller, back, and through the data plane again. Both are single servers with unlimited FIFO queues, and all
//! arrivals at both are taken as Poisson, which those that return are not; [`crate::simulate`] does without that.
//!
//! Times are in µs. Rates are in packets per µs, which are Mpps.

use crate::error::{FROM_ZERO, Invalid, LARGEST, POSITIVE, SHARE, in_range};
use crate::estimate::{Estimate, Path, estimate};
use crate::profile::{Number, Profile};
use serde_json::{Value as Json, json};
use std::fmt::{self, Write};

/// How service times are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Exponentially: M/M/1 (Eq. 4.9). Standard deviations are not used.
    Simple,
    /// By mean and standard deviation: M/G/1 (Eq. 4.12).
    Refined,
}

impl Model {
    /// All models.
    pub const ALL: [Model; 2] = [Model::Simple, Model::Refined];

    /// The name for users.
    pub fn name(self) -> &'static str {
        match self {
            Model::Simple => "simple",
            Model::Refined => "refined",
        }
    }
}

/// A server's time for one packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    mean_us: f64,
    deviation_us: f64,
}

impl Service {
    /// Checks the range of mean and standard deviation.
    pub fn new(mean_us: f64, deviation_us: f64) -> Result<Service, Invalid> {
        Ok(Service {
            mean_us: in_range("mean service time in µs", mean_us, POSITIVE)?,
            deviation_us: in_range("standard deviation of the service time in µs", deviation_us, FROM_ZERO)?,
        })
    }

    /// Its mean in µs (1/µ).
    pub fn mean_us(self) -> f64 {
        self.mean_us
    }

    /// Its standard deviation in µs (σ).
    pub fn deviation_us(self) -> f64 {
        self.deviation_us
    }

    /// Mean time in queue and service for Poisson arrivals, by Eq. 4.9 or by Pollaczek and Khinchin's formula (Eq. 4.10).
    /// The utilisation is below 1.
    fn sojourn_us(self, rate_mpps: f64, model: Model) -> f64 {
        let mean = self.mean_us;
        let deviation = match model {
            Model::Simple => mean,
            Model::Refined => self.deviation_us,
        };
        mean + rate_mpps * (mean * mean + deviation * deviation) / (2.0 * (1.0 - rate_mpps * mean))
    }
}

/// A data plane with a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct System {
    data_plane: Service,
    controller: Service,
    new_flow_share: f64,
}

/// Delay and utilisations of a [`System`] at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sojourn {
    /// Mean time from arrival to departure, over all packets, in µs (E_sys).
    pub us: f64,
    /// Mean time of one passage of the data plane in µs (E_d).
    pub data_plane_us: f64,
    /// Mean time at the controller in µs (E_c).
    pub controller_us: f64,
    /// Utilisation of the data plane (ρ_d).
    pub data_plane_load: f64,
    /// Utilisation of the controller (ρ_c).
    pub controller_load: f64,
}

/// A part of a [`System`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// The data plane.
    DataPlane,
    /// The controller.
    Controller,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Node::DataPlane => "data plane",
            Node::Controller => "controller",
        })
    }
}

/// Why there is no delay.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// An input is outside its range.
    Invalid(Invalid),
    /// Packets arrive at least as fast as a node serves them, so that its queue grows without end.
    Unstable {
        /// The node; the data plane if both are overloaded.
        node: Node,
        /// Its utilisation.
        load: f64,
        /// The external rate.
        rate_mpps: f64,
        /// The external rate below which the system is stable.
        rate_max_mpps: f64,
    },
}

impl From<Invalid> for Error {
    fn from(error: Invalid) -> Error {
        Error::Invalid(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid(error) => error.fmt(f),
            Error::Unstable { node, load, rate_mpps, rate_max_mpps } => {
                write!(
                    f,
                    "unstable: found a utilisation of the {node} of {load:.3} at {rate_mpps:.6} Mpps, "
                )?;
                write!(f, "expected less than 1, which is less than {rate_max_mpps:.6} Mpps")
            }
        }
    }
}

impl std::error::Error for Error {}

impl System {
    /// Checks the share of packets that go to the controller.
    pub fn new(data_plane: Service, controller: Service, new_flow_share: f64) -> Result<System, Invalid> {
        let new_flow_share = in_range("share of packets of new flows", new_flow_share, SHARE)?;
        Ok(System { data_plane, controller, new_flow_share })
    }

    /// The data plane's service time.
    pub fn data_plane(self) -> Service {
        self.data_plane
    }

    /// The controller's service time.
    pub fn controller(self) -> Service {
        self.controller
    }

    /// The share of packets that go to the controller (P_nf).
    pub fn new_flow_share(self) -> f64 {
        self.new_flow_share
    }

    /// Utilisations of data plane and controller at an external rate (ρ_d and ρ_c, by Eq. 4.8).
    pub fn loads(self, rate_mpps: f64) -> [f64; 2] {
        let returning = self.new_flow_share * rate_mpps;
        [(rate_mpps + returning) * self.data_plane.mean_us, returning * self.controller.mean_us]
    }

    /// The external rate below which the system is stable.
    pub fn rate_max_mpps(self) -> f64 {
        let [data_plane, controller] = self.loads(1.0);
        1.0 / data_plane.max(controller)
    }

    /// The external rate that leads to this utilisation of the controller, µ_c·ρ_c/P_nf, or if no packet goes there, of the
    /// data plane (§3.13).
    pub fn rate_at_load(self, load: f64) -> Result<f64, Invalid> {
        let load = in_range("utilisation", load, FROM_ZERO)?;
        let [data_plane, controller] = self.loads(1.0);
        Ok(load / if controller > 0.0 { controller } else { data_plane })
    }

    /// The utilisation of the controller at which the data plane is saturated, µ_d·P_nf/(µ_c·(1+P_nf)) (Eq. 4.13). From 1 on,
    /// the system is stable whenever the controller is.
    pub fn controller_load_limit(self) -> f64 {
        let [data_plane, controller] = self.loads(1.0);
        controller / data_plane
    }

    /// Like [`System::loads`], but an error if the system is unstable.
    pub(crate) fn stable_loads(self, rate_mpps: f64) -> Result<[f64; 2], Error> {
        let rate_mpps = in_range("rate in Mpps", rate_mpps, FROM_ZERO)?;
        let loads = self.loads(rate_mpps);
        for (node, load) in [Node::DataPlane, Node::Controller].into_iter().zip(loads) {
            if load >= 1.0 {
                return Err(Error::Unstable { node, load, rate_mpps, rate_max_mpps: self.rate_max_mpps() });
            }
        }
        Ok(loads)
    }

    /// Mean delay at an external rate: E_d + P_nf·(E_d + E_c) (Eqs. 4.1, 4.9 and 4.12).
    pub fn sojourn(self, rate_mpps: f64, model: Model) -> Result<Sojourn, Error> {
        let [data_plane_load, controller_load] = self.stable_loads(rate_mpps)?;
        let returning = self.new_flow_share * rate_mpps;
        let data_plane_us = self.data_plane.sojourn_us(rate_mpps + returning, model);
        let controller_us = self.controller.sojourn_us(returning, model);
        Ok(Sojourn {
            us: data_plane_us + self.new_flow_share * (data_plane_us + controller_us),
            data_plane_us,
            controller_us,
            data_plane_load,
            controller_load,
        })
    }

    /// The highest external rate with a mean delay of at most `bound_us`. `None` if even an idle system takes longer.
    pub fn rate_for(self, bound_us: f64, model: Model) -> Result<Option<f64>, Invalid> {
        let bound = in_range("bound on the delay in µs", bound_us, POSITIVE)?;
        let holds = |rate: f64| self.sojourn(rate, model).is_ok_and(|sojourn| sojourn.us <= bound);
        if !holds(0.0) {
            return Ok(None);
        }
        // The delay grows with the rate. Each step halves the interval, until it is as small as numbers can tell.
        let (mut low, mut high) = (0.0, self.rate_max_mpps());
        loop {
            let middle = low + (high - low) / 2.0;
            match middle > low && middle < high {
                true if holds(middle) => low = middle,
                true => high = middle,
                false => return Ok(Some(low)),
            }
        }
    }
}

impl Sojourn {
    /// Utilisation of the whole: 1 − (1−ρ_d)·(1−ρ_c) (§3.14).
    pub fn system_load(&self) -> f64 {
        1.0 - (1.0 - self.data_plane_load) * (1.0 - self.controller_load)
    }

    /// As JSON.
    pub fn to_json(&self) -> Json {
        json!({
            "us": self.us,
            "data_plane_us": self.data_plane_us,
            "controller_us": self.controller_us,
            "data_plane_load": self.data_plane_load,
            "controller_load": self.controller_load,
            "system_load": self.system_load(),
        })
    }
}

/// The delays of a system at several rates, by both models.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The system.
    pub system: System,
    /// A bound on the delay in µs, to find the rates that keep it.
    pub bound_us: Option<f64>,
    /// External rates in Mpps, utilisations of data plane and controller, and the delays in the order of [`Model::ALL`].
    pub rows: Vec<(f64, [f64; 2], [Option<Sojourn>; 2])>,
}

/// Computes the delays at some rates. Those at which the system is unstable have none.
pub fn sweep(system: System, rates_mpps: &[f64], bound_us: Option<f64>) -> Result<Sweep, Invalid> {
    if let Some(bound) = bound_us {
        in_range("bound on the delay in µs", bound, POSITIVE)?;
    }
    let row = |rate: &f64| {
        let rate = in_range("rate in Mpps", *rate, FROM_ZERO)?;
        let delays = Model::ALL.map(|model| system.sojourn(rate, model).ok());
        Ok((rate, system.loads(rate), delays))
    };
    let rows: Result<Vec<_>, Invalid> = rates_mpps.iter().map(row).collect();
    Ok(Sweep { system, bound_us, rows: rows? })
}

impl Sweep {
    /// The highest rate that keeps the bound, by a model, if there are bound and rate.
    fn rate_for(&self, model: Model) -> Option<f64> {
        self.system.rate_for(self.bound_us?, model).ok()?
    }

    /// A table with a row per rate, then the limits of the rate.
    pub fn to_text(&self) -> String {
        let mut out = format!(
            "{:>12} {:>7} {:>7} {:>7} {:>14} {:>14}\n",
            "rate Mpps", "load d", "load c", "load", "simple µs", "refined µs"
        );
        for (rate, [data_plane, controller], delays) in &self.rows {
            let system = delays[0].map_or("-".to_string(), |found| format!("{:.3}", found.system_load()));
            let [simple, refined] = delays.map(|found| match found {
                Some(found) => format!("{:.3}", found.us),
                None => "unstable".to_string(),
            });
            let loads = format!("{data_plane:>7.3} {controller:>7.3} {system:>7}");
            let _ = writeln!(out, "{rate:>12.6} {loads} {simple:>14} {refined:>14}");
        }
        let _ = writeln!(out, "stable below {:.6} Mpps", self.system.rate_max_mpps());
        if let Some(bound) = self.bound_us {
            for model in Model::ALL {
                let rate = self
                    .rate_for(model)
                    .map_or("no rate".to_string(), |rate| format!("up to {rate:.6} Mpps"));
                let _ = writeln!(out, "at most {bound} µs: {rate} ({} model)", model.name());
            }
        }
        out
    }

    /// Returns the values of `to_text` as JSON.
    pub fn to_json(&self) -> Json {
        let row =
            |(rate, [data_plane, controller], [simple, refined]): &(f64, [f64; 2], [Option<Sojourn>; 2])| {
                json!({
                    "rate_mpps": rate,
                    "data_plane_load": data_plane,
                    "controller_load": controller,
                    "simple": simple.as_ref().map(Sojourn::to_json),
                    "refined": refined.as_ref().map(Sojourn::to_json),
                })
            };
        json!({
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "rate_max_mpps": self.system.rate_max_mpps(),
            "controller_load_limit": Some(self.system.controller_load_limit()).filter(|limit| *limit > 0.0),
            "bound_us": self.bound_us,
            "simple_rate_mpps": self.rate_for(Model::Simple),
            "refined_rate_mpps": self.rate_for(Model::Refined),
        })
    }
}

/// What a device must achieve.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The program's path, with the size of its frames.
    pub path: Path,
    /// External rate of packets in Mpps.
    pub rate_mpps: f64,
    /// Share of packets of new flows.
    pub new_flow_share: f64,
    /// The controller.
    pub controller: Service,
    /// Largest accepted mean delay in µs.
    pub bound_us: f64,
    /// The model of the queues.
    pub model: Model,
}

/// How a device does under a [`Demand`].
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The name of its profile.
    pub profile: String,
    /// The mean service time in µs (1/µ_d of Eq. 4.7), and what it consists of, if the device can run the program.
    pub estimate: Option<Estimate>,
    /// The mean delay, if the queues are stable.
    pub sojourn: Option<Sojourn>,
    /// The highest external rate in Mpps with an acceptable delay.
    pub rate_max_mpps: Option<f64>,
    /// Price in US dollars.
    pub price_usd: Option<Number>,
    /// Power in W.
    pub power_w: Option<Number>,
    /// Why it does not suffice; empty if it does.
    pub reasons: Vec<Reason>,
}

/// Why a device does not suffice.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The profile has no standard deviation, and the refined model needs it.
    NoDeviation,
    /// There is no estimate, for example because the device lacks an extern, or it is no valid service time.
    NoEstimate(Invalid),
    /// A queue grows without end.
    Unstable(Error),
    /// The delay is longer than accepted, in µs.
    Slow(f64),
    /// The traffic is more than an interface or an extern carries, in Gbit/s.
    Rate {
        /// `interface`, or the name of the extern.
        what: String,
        /// The rate of the traffic.
        gbps: f64,
        /// The limit.
        limit_gbps: f64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoDeviation => {
                f.write_str(
                    "the profile has no deviation_us, which the refined model needs: add it to a copy of the profile \
                     (--profile FILE), or use the simple model (--model simple)",
                )
            }
            Reason::NoEstimate(error) => error.fmt(f),
            Reason::Unstable(error) => error.fmt(f),
            Reason::Slow(us) => write!(f, "{us:.3} µs are too long"),
            Reason::Rate { what, gbps, limit_gbps } => {
                write!(f, "{what}: found {gbps:.3} Gbit/s, expected at most {limit_gbps}")
            }
        }
    }
}

/// The result of [`select`].
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// Those that suffice, the fastest one first; then the others by name.
    pub candidates: Vec<Candidate>,
}

/// Which devices meet a demand (§3.14).
pub fn select(profiles: &[Profile], demand: &Demand) -> Result<Selection, Invalid> {
    in_range("rate in Mpps", demand.rate_mpps, FROM_ZERO)?;
    in_range("bound on the delay in µs", demand.bound_us, POSITIVE)?;
    in_range("share of packets of new flows", demand.new_flow_share, SHARE)?;
    let candidates: Result<Vec<Candidate>, Invalid> =
        profiles.iter().map(|profile| candidate(profile, demand)).collect();
    let mut candidates = candidates?;
    candidates.sort_by(|a, b| {
        let delay = |candidate: &Candidate| match &candidate.sojourn {
            Some(sojourn) if candidate.reasons.is_empty() => sojourn.us,
            _ => LARGEST * LARGEST,
        };
        delay(a).total_cmp(&delay(b)).then_with(|| a.profile.cmp(&b.profile))
    });
    Ok(Selection { candidates })
}

fn candidate(profile: &Profile, demand: &Demand) -> Result<Candidate, Invalid> {
    let mut found = Candidate {
        profile: profile.name.clone(),
        estimate: None,
        sojourn: None,
        rate_max_mpps: None,
        price_usd: profile.economy.price_usd.clone(),
        power_w: profile.economy.power_w.clone(),
        reasons: overloads(profile, demand),
    };
    // Queues are taken into account here.
    let us = match estimate(profile, &Path { load: None, ..demand.path.clone() }) {
        Ok(estimate) => found.estimate.insert(estimate).us,
        Err(error) => {
            found.reasons.push(Reason::NoEstimate(error));
            return Ok(found);
        }
    };
    let deviation = match (&profile.deviation_us, demand.model) {
        (Some(deviation), _) => deviation.value,
        // Not used.
        (None, Model::Simple) => 0.0,
        (None, Model::Refined) => {
            found.reasons.push(Reason::NoDeviation);
            return Ok(found);
        }
    };
    let data_plane = match Service::new(us, deviation) {
        Ok(service) => service,
        Err(error) => {
            found.reasons.push(Reason::NoEstimate(error));
            return Ok(found);
        }
    };
    let system = System::new(data_plane, demand.controller, demand.new_flow_share)?;
    found.rate_max_mpps = system.rate_for(demand.bound_us, demand.model)?;
    match system.sojourn(demand.rate_mpps, demand.model) {
        Ok(sojourn) => {
            found.sojourn = Some(sojourn);
            if sojourn.us > demand.bound_us {
                found.reasons.push(Reason::Slow(sojourn.us));
            }
        }
        Err(Error::Invalid(error)) => return Err(error),
        Err(error) => found.reasons.push(Reason::Unstable(error)),
    }
    Ok(found)
}

/// Which limits on rates the traffic exceeds. Without a frame size there are none.
fn overloads(profile: &Profile, demand: &Demand) -> Vec<Reason> {
    const BITS_PER_BYTE: f64 = 8.0;
    let Some(bytes) = demand.path.frame_bytes else { return Vec::new() };
    // 1 bit/µs is 1 Mbit/s.
    let gbps = demand.rate_mpps * f64::from(bytes) * BITS_PER_BYTE / 1000.0;
    let interface = profile.limits.rate_gbps.iter().map(|limit| ("interface", limit.value));
    let called = profile.externs.iter().filter(|(name, _)| demand.path.externs.contains(name));
    let externs = called.map(|(name, found)| (name.as_str(), found.rate_gbps.value));
    let exceeded = interface.chain(externs).filter(|(_, limit_gbps)| gbps > *limit_gbps);
    exceeded.map(|(what, limit_gbps)| Reason::Rate { what: what.to_string(), gbps, limit_gbps }).collect()
}

impl Selection {
    /// A table: rank, device, delay, loads, highest rate, price and power; below each its reasons and warnings.
    pub fn to_text(&self) -> String {
        let mut out = format!(
            "{:<4} {:<16} {:>12} {:>12} {:>7} {:>7} {:>12} {:>10} {:>8}\n",
            "rank", "profile", "service µs", "delay µs", "load d", "load c", "max Mpps", "price $", "power W"
        );
        for (at, candidate) in self.candidates.iter().enumerate() {
            let text = |number: Option<f64>, digits: usize| {
                number.map_or("-".to_string(), |number| format!("{number:.digits$}"))
            };
            let money = |number: &Option<Number>| text(number.as_ref().map(|number| number.value), 0);
            let rank = if candidate.reasons.is_empty() { (at + 1).to_string() } else { "no".to_string() };
            let sojourn = candidate.sojourn;
            let _ = writeln!(
                out,
                "{rank:<4} {:<16} {:>12} {:>12} {:>7} {:>7} {:>12} {:>10} {:>8}",
                candidate.profile,
                text(candidate.estimate.as_ref().map(|estimate| estimate.us), 3),
                text(sojourn.map(|sojourn| sojourn.us), 3),
                text(sojourn.map(|sojourn| sojourn.data_plane_load), 3),
                text(sojourn.map(|sojourn| sojourn.controller_load), 3),
                text(candidate.rate_max_mpps, 6),
                money(&candidate.price_usd),
                money(&candidate.power_w),
            );
            for reason in &candidate.reasons {
                let _ = writeln!(out, "     {reason}");
            }
            for warning in candidate.estimate.iter().flat_map(|estimate| &estimate.warnings) {
                let _ = writeln!(out, "     warning: {warning}");
            }
        }
        out
    }

    /// Returns the values of `to_text` as JSON.
    pub fn to_json(&self) -> Json {
        let candidate = |candidate: &Candidate| {
            json!({
                "profile": candidate.profile,
                "suffices": candidate.reasons.is_empty(),
                "reasons": candidate.reasons.iter().map(Reason::to_string).collect::<Vec<_>>(),
                "estimate": candidate.estimate.as_ref().map(Estimate::to_json),
                "sojourn": candidate.sojourn.as_ref().map(Sojourn::to_json),
                "rate_max_mpps": candidate.rate_max_mpps,
                "price_usd": candidate.price_usd.as_ref().map(|number| number.value),
                "power_w": candidate.power_w.as_ref().map(|number| number.value),
            })
        };
        json!({ "candidates": self.candidates.iter().map(candidate).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::Counts;
    use crate::thesis::{CONTROLLER_VARIATION, DEVIATIONS_US, NFS};

    fn controller(mean_us: f64) -> Service {
        Service::new(mean_us, CONTROLLER_VARIATION * mean_us).unwrap()
    }

    /// With the measured service time of T4.1; devices are t4p4s, Agilio, NetFPGA.
    fn system(nf: usize, device: usize, controller_us: f64, new_flow_share: f64) -> System {
        let data_plane = Service::new(NFS[nf].measured_us[device], DEVIATIONS_US[device]).unwrap();
        System::new(data_plane, controller(controller_us), new_flow_share).unwrap()
    }

    const L3FWD: usize = 0;
    const DECAP: usize = 2;

    /// The first table of §8.1.
    #[test]
    fn stability_limits() {
        let rows = [
            (240.0, 0.04, "0.201 1.126 0.607 2.495 1.775"),
            (240.0, 0.2, "0.871 4.878 2.632 10.811 7.692"),
            (31.0, 0.04, "0.026 0.145 0.078 0.322 0.229"),
            (31.0, 0.2, "0.113 0.630 0.340 1.396 0.994"),
            (31.0, 0.5, "0.225 1.260 0.680 2.793 1.987"),
            (31.0, 1.0, "0.338 1.890 1.020 4.189 2.981"),
        ];
        for (controller_us, share, printed) in rows {
            let limit = |nf, device| {
                let system = system(nf, device, controller_us, share);
                let limit = system.controller_load_limit();
                // The data plane saturates exactly there.
                let rate = system.rate_at_load(limit).unwrap();
                assert!((system.loads(rate)[0] - 1.0).abs() < 1e-12);
                format!("{limit:.3}")
            };
            let [cpu, same] = [limit(L3FWD, 0), limit(DECAP, 0)];
            assert_eq!(cpu, same);
            let found = [cpu, limit(L3FWD, 1), limit(DECAP, 1), limit(L3FWD, 2), limit(DECAP, 2)];
            assert_eq!(found.join(" "), printed, "{controller_us} {share}");
        }
    }

    /// The second table of §8.1.
    #[test]
    fn sojourn_times() {
        let rows = [
            (2, ["803.867 | 605.857", "245.681 | 186.216", "70.403 | 54.562"]),
            (1, ["808.620 | 610.574", "252.964 | 193.232", "84.298 | 66.006"]),
            (0, ["850.765 | 651.265", "336.547 | 263.435", "unstable"]),
        ];
        for (device, printed) in rows {
            for ((controller_us, share), printed) in
                [(1e4, 0.04), (240.0, 0.5), (31.0, 1.0)].iter().zip(printed)
            {
                let system = system(L3FWD, device, *controller_us, *share);
                let rate = system.rate_at_load(0.5).unwrap();
                let [simple, refined] = Model::ALL.map(|model| system.sojourn(rate, model));
                let found = match (&simple, &refined) {
                    (Ok(simple), Ok(refined)) => format!("{:.3} | {:.3}", simple.us, refined.us),
                    (Err(Error::Unstable { node: Node::DataPlane, .. }), Err(_)) => "unstable".to_string(),
                    other => panic!("{other:?}"),
                };
                assert_eq!(found, printed, "{device} {controller_us}");
            }
        }
    }

    /// §4.7 says which cases became unstable, at utilisations of the controller up to 0.95.
    #[test]
    fn instability_as_in_the_thesis() {
        let is_stable = |nf, device, controller_us, share, load: f64| {
            let system = system(nf, device, controller_us, share);
            system.sojourn(system.rate_at_load(load).unwrap(), Model::Refined).is_ok()
        };
        assert!(is_stable(DECAP, 1, 240.0, 0.04, 0.6) && !is_stable(DECAP, 1, 240.0, 0.04, 0.65));
        assert!(is_stable(L3FWD, 0, 240.0, 0.04, 0.2) && !is_stable(L3FWD, 0, 240.0, 0.04, 0.25));
        assert!(is_stable(L3FWD, 0, 240.0, 0.2, 0.85) && !is_stable(L3FWD, 0, 240.0, 0.2, 0.9));
        for (nf, device) in [(L3FWD, 0), (L3FWD, 1), (DECAP, 1), (L3FWD, 2), (DECAP, 2)] {
            assert!([0.04, 0.2, 0.5, 1.0].iter().all(|share| is_stable(nf, device, 1e4, *share, 0.95)));
        }
        // P_nf = 0: Agilio at a load of 0.05 takes 8.6 and 16.0 µs.
        for (nf, printed) in [(L3FWD, "8.6"), (DECAP, "16.0")] {
            let system = system(nf, 1, 31.0, 0.0);
            let rate = system.rate_at_load(0.05).unwrap();
            assert_eq!(format!("{:.1}", system.sojourn(rate, Model::Simple).unwrap().us), printed);
        }
    }

    #[test]
    fn loads_and_rates() {
        let system = system(L3FWD, 1, 240.0, 0.5);
        let found = system.sojourn(1.0 / 240.0, Model::Refined).unwrap();
        assert!((found.controller_load - 0.5).abs() < 1e-12);
        assert!((found.data_plane_load - 1.5 * 8.2 / 240.0).abs() < 1e-12);
        assert!((found.system_load() - (1.0 - 0.5 * (1.0 - 0.05125))).abs() < 1e-12);
        assert!((system.rate_max_mpps() - 2.0 / 240.0).abs() < 1e-12);
        assert_eq!(found.to_json()["us"], found.us);
        // The inverse of the delay.
        for model in Model::ALL {
            let us = system.sojourn(0.003, model).unwrap().us;
            let rate = system.rate_for(us, model).unwrap().unwrap();
            assert!((rate - 0.003).abs() < 1e-12, "{rate}");
            assert!(system.sojourn(rate, model).unwrap().us <= us);
        }
        assert_eq!(system.rate_for(100.0, Model::Refined).unwrap(), None);
    }

    #[test]
    fn tables_of_delays() {
        let system = system(L3FWD, 1, 240.0, 0.5);
        let rates = [0.5, 1.0].map(|load| system.rate_at_load(load).unwrap());
        let found = sweep(system, &rates, Some(252.964)).unwrap();
        let expected = "   rate Mpps  load d  load c    load      simple µs     refined µs\n\
                        \x20   0.004167   0.051   0.500   0.526        252.964        193.232\n\
                        \x20   0.008333   0.102   1.000       -       unstable       unstable\n\
                        stable below 0.008333 Mpps\n\
                        at most 252.964 µs: up to 0.004167 Mpps (simple model)\n\
                        at most 252.964 µs: up to 0.005540 Mpps (refined model)\n";
        assert_eq!(found.to_text(), expected);
        assert!(found.to_json()["rows"][1]["simple"].is_null());
        let idle = sweep(system, &[0.0], Some(1.0)).unwrap();
        assert!(idle.to_text().ends_with("at most 1 µs: no rate (refined model)\n"), "{}", idle.to_text());
        assert!(sweep(system, &[-1.0], None).is_err());
    }

    #[test]
    fn errors_are_typed() {
        let system = system(L3FWD, 0, 31.0, 1.0);
        let error = system.sojourn(0.5 / 31.0, Model::Simple).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unstable: found a utilisation of the data plane of 1.481 at 0.016129 Mpps, \
             expected less than 1, which is less than 0.010893 Mpps"
        );
        let system = System::new(controller(8.0), controller(31.0), 1.0).unwrap();
        let error = system.sojourn(1.0 / 31.0, Model::Simple).unwrap_err();
        assert!(matches!(error, Error::Unstable { node: Node::Controller, load: 1.0, .. }), "{error:?}");
        assert!(matches!(system.sojourn(-1.0, Model::Simple), Err(Error::Invalid(_))));
        assert!(matches!(system.sojourn(f64::NAN, Model::Simple), Err(Error::Invalid(_))));
        assert!(Service::new(0.0, 1.0).is_err() && Service::new(1.0, -1.0).is_err());
        let error = System::new(controller(8.0), controller(31.0), 1.5).unwrap_err().to_string();
        assert_eq!(error, "share of packets of new flows: found 1.5, expected a number from 0 to 1");
    }

    #[test]
    fn selects_devices() {
        let demand = Demand {
            path: Path { frame_bytes: Some(1500), ..Path::new(Counts::parse("10,0,3,4,0,1").unwrap()) },
            rate_mpps: 0.5 / 240.0 / 0.04,
            new_flow_share: 0.04,
            controller: controller(240.0),
            bound_us: 40.0,
            model: Model::Refined,
        };
        let names = ["t4p4s", "agilio-cx", "netfpga-sume", "asic"];
        let profiles = names.map(|name| Profile::shipped_as(name).unwrap());
        let found = select(&profiles, &demand).unwrap();
        let ranked: Vec<(&str, usize)> = found
            .candidates
            .iter()
            .map(|candidate| (candidate.profile.as_str(), candidate.reasons.len()))
            .collect();
        assert_eq!(ranked, [("netfpga-sume", 0), ("agilio-cx", 1), ("asic", 1), ("t4p4s", 1)]);
        let reasons: Vec<String> =
            found.candidates[1..].iter().map(|candidate| candidate.reasons[0].to_string()).collect();
        assert!(reasons[0].ends_with("µs are too long"), "{reasons:?}");
        assert!(
            reasons[1].starts_with("the profile has no deviation_us, which the refined model needs: add it"),
            "{reasons:?}"
        );
        assert!(
            reasons[2].starts_with("unstable: found a utilisation of the data plane of 2.4"),
            "{reasons:?}"
        );
        // The simple model needs no standard deviation, and a higher bound admits the Agilio.
        let demand = Demand { model: Model::Simple, bound_us: 150.0, ..demand };
        let found = select(&profiles, &demand).unwrap();
        let ranked: Vec<&str> = found.candidates.iter().map(|candidate| candidate.profile.as_str()).collect();
        assert_eq!(ranked, ["asic", "netfpga-sume", "agilio-cx", "t4p4s"]);
        let lines: Vec<String> = found.to_text().lines().map(str::to_string).collect();
        assert!(lines[1].starts_with("1    asic "), "{lines:?}");
        assert!(lines[3].starts_with("3    agilio-cx "), "{lines:?}");
        assert!(lines[5].starts_with("no   t4p4s "), "{lines:?}");
        assert_eq!(found.to_json()["candidates"][3]["suffices"], false);
        // A device without an extern cannot run a program that calls it.
        let hashing = Path { externs: vec!["siphash24".to_string()], ..demand.path.clone() };
        let found = select(&profiles[1..2], &Demand { path: hashing, ..demand.clone() }).unwrap();
        assert!(matches!(&found.candidates[0].reasons[..], [Reason::NoEstimate(_)]), "{found:?}");
        // 2 Mpps of 1500 B are 24 Gbit/s.
        let demand = Demand { rate_mpps: 2.0, new_flow_share: 0.0, ..demand };
        let found = select(&profiles[1..2], &demand).unwrap();
        assert_eq!(
            found.candidates[0].reasons[0].to_string(),
            "interface: found 24.000 Gbit/s, expected at most 10"
        );
    }
}
