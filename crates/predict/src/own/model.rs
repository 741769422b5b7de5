//! The model of one machine.

use super::fit::{self, Sample};
use super::{Features, PathWork, Work};
use std::collections::BTreeMap;

/// What p4jet's work costs on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// When and where it was measured.
    pub measured: String,
    /// Nanoseconds of the calibration loop during the measurement.
    pub calibration_ns: f64,
    /// Nanoseconds of each feature.
    pub ns: BTreeMap<String, f64>,
    /// Number of programs to which the costs were fitted.
    pub samples: usize,
    /// Relative errors for mixtures to which the model was not fitted: the mean of the absolute values, and those that half, 90 %
    /// and 95 % of the mixtures do not exceed.
    pub errors: [f64; 4],
    /// Milliseconds of a compilation to machine code: in any case, and for each node and statement of the program.
    pub compile_ms: [f64; 2],
    /// Bytes of an entry by structure: for numbers of entries, in order.
    pub entry_bytes: BTreeMap<String, Vec<(f64, f64)>>,
    /// The rate of two workers relative to one, if two processors could be measured.
    pub two_workers: Option<f64>,
}

/// Names of the rows of a breakdown that are not parts of the program.
pub const ROWS_BESIDES: [&str; 4] =
    ["receive and send", "copies of the packet", "mispredicted branches", "long paths"];

/// The predicted time of a packet.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Nanoseconds of a mean packet.
    pub ns: f64,
    /// Nanoseconds between which nine of ten measurements lie.
    pub interval: [f64; 2],
    /// Nanoseconds by part.
    pub parts: Vec<(String, f64)>,
    /// Nanoseconds of each path, with receiving and sending.
    pub paths: Vec<f64>,
    /// Standard deviation of the time of a packet, from the paths.
    pub deviation_ns: f64,
    /// Features whose cost the model does not know.
    pub unknown: Vec<String>,
}

impl Model {
    /// Fits a model.
    pub fn fit(measured: String, calibration_ns: f64, samples: &[Sample]) -> Model {
        let (ns, errors) = fit::fit(samples);
        let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let quantile = |share: f64| {
            let at = (share * sizes.len() as f64).ceil() as usize;
            sizes.get(at.max(1) - 1).copied().unwrap_or(f64::NAN)
        };
        let mean = sizes.iter().sum::<f64>() / sizes.len().max(1) as f64;
        Model {
            measured,
            calibration_ns,
            ns,
            samples: samples.len(),
            errors: [mean, quantile(0.5), quantile(0.9), quantile(0.95)],
            compile_ms: [0.0; 2],
            entry_bytes: BTreeMap::new(),
            two_workers: None,
        }
    }

    /// The cost of features in nanoseconds.
    pub fn cost(&self, features: &Features) -> f64 {
        fit::sum(&self.ns, features)
    }

    /// The range in which nine of ten measurements lie for a prediction. Errors are relative to measured times.
    pub fn interval(&self, ns: f64) -> [f64; 2] {
        let most = self.errors[2];
        [ns / (1.0 + most), ns / (1.0 - most.min(0.9))]
    }

    /// The cost of each part of a path, by name.
    pub fn parts(&self, path: &PathWork) -> Vec<(String, f64)> {
        let mut parts: Vec<(String, f64)> = Vec::new();
        for part in &path.parts {
            let ns = self.cost(&part.features);
            match parts.iter_mut().find(|(name, _)| *name == part.name) {
                Some((_, sum)) => *sum += ns,
                None => parts.push((part.name.clone(), ns)),
            }
        }
        parts
    }

    /// Predicts the time of a packet.
    pub fn predict(&self, work: &Work) -> Prediction {
        let shares = work.shares();
        let received = self.cost(&work.received());
        let mut parts: Vec<(String, f64)> = vec![(ROWS_BESIDES[0].to_string(), received)];
        let mut paths = Vec::new();
        let mut long = 0.0;
        for (path, share) in work.paths.iter().zip(&shares) {
            let of_path = self.cost(&path.features());
            let mut of_parts = 0.0;
            for (part, ns) in self.parts(path) {
                of_parts += ns;
                match parts.iter_mut().find(|(name, _)| *name == part) {
                    Some((_, sum)) => *sum += share * ns,
                    None => parts.push((part, share * ns)),
                }
            }
            long += share * (of_path - of_parts);
            paths.push(received + of_path);
        }
        let mut copies = Features::default();
        copies.add("copy of a packet", work.copies());
        parts.push((ROWS_BESIDES[1].to_string(), self.cost(&copies)));
        parts.push((ROWS_BESIDES[2].to_string(), self.cost(&work.mispredicted())));
        parts.push((ROWS_BESIDES[3].to_string(), long));
        parts.retain(|(name, ns)| *ns > 0.0 || name == ROWS_BESIDES[0]);
        let ns: f64 = parts.iter().map(|(_, ns)| ns).sum();
        let of_packet = |passes: &Vec<usize>| passes.iter().map(|path| paths[*path]).sum::<f64>();
        let times: Vec<f64> = work.packets.iter().map(of_packet).collect();
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        let variance =
            times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len().max(1) as f64;
        let features = work.features();
        let unknown = features.0.keys().filter(|name| !self.ns.contains_key(*name)).cloned().collect();
        Prediction { ns, interval: self.interval(ns), parts, paths, deviation_ns: variance.sqrt(), unknown }
    }

    /// Bytes that a table of this structure takes with this many entries, if the model knows the structure.
    pub fn table_bytes(&self, structure: &str, entries: f64) -> Option<f64> {
        let sizes = self.entry_bytes.get(structure).filter(|sizes| !sizes.is_empty())?;
        let above = sizes.partition_point(|(size, _)| *size < entries);
        let each = match (above.checked_sub(1).map(|below| sizes[below]), sizes.get(above)) {
            (None, Some((_, bytes))) => *bytes,
            (Some((_, bytes)), None) => bytes,
            (Some((low, of_low)), Some((high, of_high))) => {
                let share = (entries / low).ln() / (high / low).ln();
                of_low * (1.0 - share) + of_high * share
            }
            (None, None) => return None,
        };
        Some(each * entries)
    }

    /// Milliseconds of a compilation of a program with this many nodes and statements.
    pub fn compile_time_ms(&self, size: usize) -> f64 {
        self.compile_ms[0] + self.compile_ms[1] * size as f64
    }

    /// Mean time in nanoseconds from arrival to departure at a utilisation of the worker, with Poisson arrivals
    /// (Pollaczek–Khinchine).
    pub fn sojourn_ns(prediction: &Prediction, load: f64) -> f64 {
        let (mean, deviation) = (prediction.ns, prediction.deviation_ns);
        let squares = mean * mean + deviation * deviation;
        mean + load / mean * squares / (2.0 * (1.0 - load))
    }

    /// The section `[p4jet]` of a profile.
    pub fn to_toml(&self) -> toml::Table {
        let mut table = toml::Table::new();
        let float = toml::Value::Float;
        let floats = |values: &[f64]| toml::Value::Array(values.iter().copied().map(float).collect());
        table.insert("measured".into(), toml::Value::String(self.measured.clone()));
        table.insert("calibration_ns".into(), float(self.calibration_ns));
        table.insert("samples".into(), toml::Value::Integer(self.samples as i64));
        table.insert("errors".into(), floats(&self.errors));
        table.insert("compile_ms".into(), floats(&self.compile_ms));
        if let Some(ratio) = self.two_workers {
            table.insert("two_workers".into(), float(ratio));
        }
        let bytes = self.entry_bytes.iter().map(|(structure, sizes)| {
            let pairs = sizes.iter().map(|(size, bytes)| floats(&[*size, *bytes])).collect();
            (structure.clone(), toml::Value::Array(pairs))
        });
        table.insert("entry_bytes".into(), toml::Value::Table(bytes.collect()));
        let ns = self.ns.iter().map(|(name, ns)| (name.clone(), float(*ns)));
        table.insert("ns".into(), toml::Value::Table(ns.collect()));
        table
    }

    /// Reads the section `[p4jet]` of a profile; the error says which key is wrong.
    pub fn from_toml(table: &toml::Table) -> Result<Model, String> {
        let number = |value: &toml::Value| match value {
            toml::Value::Float(number) => Some(*number),
            toml::Value::Integer(number) => Some(*number as f64),
            _ => None,
        };
        let found = |key: &str| table.get(key).ok_or_else(|| format!("p4jet.{key}: missing"));
        let float = |key: &str| number(found(key)?).ok_or_else(|| format!("p4jet.{key}: expected a number"));
        let numbers =
            |value: &toml::Value| value.as_array()?.iter().map(number).collect::<Option<Vec<f64>>>();
        let floats = |key: &str, count: usize| {
            let list = numbers(found(key)?).filter(|list| list.len() == count);
            list.ok_or_else(|| format!("p4jet.{key}: expected {count} numbers"))
        };
        let section =
            |key: &str| found(key)?.as_table().ok_or_else(|| format!("p4jet.{key}: expected a table"));
        let ns = section("ns")?.iter().map(|(name, value)| {
            let ns = number(value).filter(|ns| *ns >= 0.0);
            Ok((name.clone(), ns.ok_or_else(|| format!("p4jet.ns.\"{name}\": expected a number from 0"))?))
        });
        let bytes = section("entry_bytes")?.iter().map(|(structure, value)| {
            let pair = |value: &toml::Value| match numbers(value)?.as_slice() {
                [size, bytes] if *size > 0.0 && *bytes >= 0.0 => Some((*size, *bytes)),
                _ => None,
            };
            let pairs = value.as_array().and_then(|list| list.iter().map(pair).collect::<Option<Vec<_>>>());
            let wrong = || format!("p4jet.entry_bytes.\"{structure}\": expected pairs of entries and bytes");
            Ok((structure.clone(), pairs.ok_or_else(wrong)?))
        });
        let positive = |key: &str| match float(key)? {
            value if value > 0.0 => Ok(value),
            value => Err(format!("p4jet.{key}: found {value}, expected a number above 0")),
        };
        Ok(Model {
            measured: found("measured")?.as_str().ok_or("p4jet.measured: expected a text")?.to_string(),
            calibration_ns: positive("calibration_ns")?,
            ns: ns.collect::<Result<_, String>>()?,
            samples: positive("samples")? as usize,
            errors: floats("errors", 4)?.try_into().unwrap_or_default(),
            compile_ms: floats("compile_ms", 2)?.try_into().unwrap_or_default(),
            entry_bytes: bytes.collect::<Result<_, String>>()?,
            two_workers: match table.contains_key("two_workers") {
                true => Some(positive("two_workers")?),
                false => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use super::*;

    fn model() -> Model {
        Model {
            measured: "here".to_string(),
            calibration_ns: 2000.0,
            ns: [
                ("packet".to_string(), 4.0),
                ("instruction".to_string(), 0.5),
                ("misprediction at 64".to_string(), 8.0),
            ]
            .into(),
            samples: 12,
            errors: [0.05, 0.04, 0.1, 0.2],
            compile_ms: [1.0, 0.01],
            entry_bytes: [("hash of 64 bits".to_string(), vec![(16.0, 100.0), (1024.0, 40.0)])].into(),
            two_workers: Some(1.9),
        }
    }

    fn work() -> Work {
        let path = |node: u32, instructions: f64| {
            let mut features = Features::default();
            features.add("instruction", instructions);
            let part = Part { name: "ingress".to_string(), stage: 0, features };
            PathWork { decisions: vec![(0, node, 9)], parts: vec![part] }
        };
        let (paths, packets) = (vec![path(0, 10.0), path(1, 30.0)], vec![vec![0], vec![1]]);
        Work { paths, packets, frames: Features::default(), lines: 0.0, loop_frames: 64, loop_bytes: 1 }
    }

    #[test]
    fn the_parts_of_a_prediction_add_up() {
        let prediction = model().predict(&work());
        // Receiving 4, ingress 10 on average, half a misprediction.
        assert_eq!(prediction.ns, 18.0);
        assert_eq!(prediction.paths, [9.0, 19.0]);
        assert_eq!(prediction.deviation_ns, 5.0);
        assert_eq!(prediction.parts[1], ("ingress".to_string(), 10.0));
        assert!((prediction.interval[0] - 18.0 / 1.1).abs() < 1e-9);
        assert!((prediction.interval[1] - 20.0).abs() < 1e-9);
        assert_eq!(prediction.unknown, ["packet of many at 262144"]);
        // (18² + 5²) / 18 waits on average at half load.
        assert!((Model::sojourn_ns(&prediction, 0.5) - (18.0 + 349.0 / 36.0)).abs() < 1e-9);
    }

    #[test]
    fn bytes_of_tables_are_interpolated() {
        let model = model();
        assert_eq!(model.table_bytes("hash of 64 bits", 128.0), Some(70.0 * 128.0));
        assert_eq!(model.table_bytes("hash of 64 bits", 8.0), Some(800.0));
        assert_eq!(model.table_bytes("hash of 64 bits", 2048.0), Some(81_920.0));
        assert_eq!(model.table_bytes("trie", 8.0), None);
    }

    #[test]
    fn the_section_of_a_profile_is_read_back() {
        let model = model();
        assert_eq!(Model::from_toml(&model.to_toml()), Ok(model.clone()));
        let mut table = model.to_toml();
        table.insert("errors".into(), toml::Value::Array(Vec::new()));
        assert_eq!(Model::from_toml(&table), Err("p4jet.errors: expected 4 numbers".to_string()));
        table.remove("errors");
        assert_eq!(Model::from_toml(&table), Err("p4jet.errors: missing".to_string()));
    }
}
