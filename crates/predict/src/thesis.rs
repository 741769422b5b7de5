//! Numbers of the thesis (H. Harkous, TU München, 2022) that are not in profiles.

use crate::construct::Counts;

/// The measured devices, by the names of their profiles.
pub const DEVICES: [&str; 3] = ["t4p4s", "agilio-cx", "netfpga-sume"];

/// A function of T4.1, with one number per device of [`DEVICES`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nf {
    /// Its name.
    pub name: &'static str,
    /// x(NF) (§3.10).
    pub counts: [i32; 6],
    /// The measured mean delay in µs.
    pub measured_us: [f64; 3],
    /// The printed estimate in µs.
    pub estimated_us: [f64; 3],
    /// The estimate before rounding, by the editor of the summary.
    pub unrounded_us: [f64; 3],
    /// The error of the latter in percent.
    pub error_percent: [f64; 3],
}

impl Nf {
    /// x(NF).
    pub fn counts(&self) -> Counts {
        Counts::new(self.counts).expect("the counts of the thesis are valid")
    }
}

/// T4.1. VxLAN decapsulation is that of the validation with 11 parsed headers; T5.5's has 7.
pub const NFS: [Nf; 3] = [
    Nf {
        name: "L3Fwd",
        counts: [1, 2, 0, 0, 0, 0],
        measured_us: [45.9, 8.2, 3.7],
        estimated_us: [45.9, 8.6, 3.7],
        unrounded_us: [45.90, 8.56, 3.71],
        error_percent: [0.0, 4.39, 0.27],
    },
    Nf {
        name: "L3Fwd + Firewall",
        counts: [2, 2, 0, 0, 0, 1],
        measured_us: [45.9, 8.9, 4.0],
        estimated_us: [46.0, 9.0, 4.0],
        unrounded_us: [45.98, 9.04, 4.01],
        error_percent: [0.17, 1.57, 0.25],
    },
    Nf {
        name: "VxLAN_Decap",
        counts: [10, 0, 3, 4, 0, 1],
        measured_us: [45.9, 15.2, 5.2],
        estimated_us: [44.8, 15.5, 5.3],
        unrounded_us: [44.82, 15.48, 5.29],
        error_percent: [-2.35, 1.84, 1.73],
    },
];

/// Standard deviations of the service times in µs, per device of [`DEVICES`] (§3.12), as in their profiles.
pub const DEVIATIONS_US: [f64; 3] = [4.55, 0.21, 0.39];
/// Mean service times in µs of the studied controllers: slow, average, fast.
pub const CONTROLLERS_US: [f64; 3] = [10_000.0, 240.0, 31.0];
/// Standard deviation of a controller's service time as a part of its mean.
pub const CONTROLLER_VARIATION: f64 = 0.1;
/// Studied shares of packets of new flows, which the controller must see.
pub const NEW_FLOW_SHARES: [f64; 5] = [0.0, 0.04, 0.2, 0.5, 1.0];
