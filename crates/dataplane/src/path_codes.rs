//! The paths of packets, and the machine code that each of them runs, found without running it: the input of models of speed.

use crate::copies::GENERATIONS_MAX;
use crate::switch::Switch;
use num_bigint::BigUint;
use p4jet_interp::{Arrival, Machine, Ran, Trace, TraceEvent, Visited};
use p4jet_ir::TableId;
use p4jet_jit::{Compiled, HotPath, Options, PathCode, Position, Seen, Step};
use std::collections::HashMap;

/// Maximum number of packets, with their copies, that one packet becomes here.
const PASSES_MAX: usize = 64;

/// Maximum number of packets whose keys are examined.
const EXAMINED_MAX: usize = 512;

/// The keys that packets look up in a table.
#[derive(Clone, Debug, Default)]
pub struct TableUse {
    /// Number of lookups that were examined.
    pub lookups: usize,
    /// Number of equally frequent keys with the same entropy as these keys.
    pub keys: f64,
    /// Mean numbers of steps of a lookup ([`p4jet_tables::Table::steps`]).
    pub steps: [f64; 3],
    /// Share of the lookups whose steps are not the most frequent ones.
    pub varies: f64,
}

/// The paths of some packets.
pub struct PathCodes {
    /// What packets look up in each table.
    pub tables: Vec<TableUse>,
    /// Each path that a packet or a copy took, once.
    pub paths: Vec<PassedPath>,
    /// For each packet: the paths that it and its copies took, in order, as numbers in `paths`.
    pub packets: Vec<Vec<usize>>,
}

/// A path of a packet or of a copy.
pub struct PassedPath {
    /// Its nodes.
    pub steps: HotPath,
    /// The code that it runs.
    pub code: PathCode,
}

impl Switch {
    /// Interprets these packets (with their ingress ports), and returns the paths that they take now and the code that each path
    /// would run, compiled for `seen`. The state does not change. With `is_measured`, the code is cut into the stages of
    /// [`Self::measured_worker`].
    pub fn path_codes<'f>(
        &self,
        seen: &Seen,
        is_measured: bool,
        packets: impl Iterator<Item = (u32, &'f [u8])>,
    ) -> Result<PathCodes, String> {
        let mut machine = Machine::new(self.program())?;
        machine.find_fast();
        let mut env = self.state().env(0);
        env.keep_dry();
        let now_us = self.now_us();
        let mut numbers: HashMap<HotPath, usize> = HashMap::new();
        let mut paths = Vec::new();
        let mut number_of = |ran: &Ran| {
            let place =
                |at: &Visited| (Position { step: Step::from_u32(at.step as u32), node: at.node }, at.action);
            let path = HotPath(ran.path.iter().map(place).collect());
            *numbers.entry(path).or_insert_with_key(|path| {
                paths.push(path.clone());
                paths.len() - 1
            })
        };
        let mut passes = Vec::new();
        let mut keys: Vec<HashMap<Vec<BigUint>, usize>> = vec![HashMap::new(); self.tables.len()];
        for (port, frame) in packets {
            let arrival = Arrival { port, frame, now_us };
            let mut trace = (passes.len() < EXAMINED_MAX).then(Trace::new);
            let ran = machine.run(self.tables.as_slice(), &mut env, &arrival, trace.as_mut());
            for event in trace.into_iter().flat_map(|trace| trace.events) {
                if let TraceEvent::Apply { table, keys: values, .. } = event {
                    *keys[table.index()].entry(values).or_default() += 1;
                }
            }
            let mut of_packet = vec![number_of(&ran)];
            let mut waiting: Vec<_> = ran.copies.into_iter().map(|copy| (copy, 1)).collect();
            while let Some((copy, generation)) = waiting.pop() {
                if of_packet.len() == PASSES_MAX {
                    break;
                }
                let ran = machine.run_copy(self.tables.as_slice(), &mut env, copy, now_us, None);
                of_packet.push(number_of(&ran));
                if generation < GENERATIONS_MAX {
                    waiting.extend(ran.copies.into_iter().map(|copy| (copy, generation + 1)));
                }
            }
            passes.push(of_packet);
        }
        let options = Options { measured: is_measured, ..self.options() };
        let codes = Compiled::path_codes(
            self.program(),
            &self.table_specs(),
            seen,
            options,
            &paths,
            &p4jet_jit::Cancel::default(),
        );
        let codes = codes.map_err(|error| error.message)?;
        let passed = |(steps, code)| PassedPath { steps, code };
        let tables = keys.iter().enumerate().map(|(id, keys)| self.table_use(TableId(id as u32), keys));
        let tables = tables.collect();
        Ok(PathCodes { tables, paths: paths.into_iter().zip(codes).map(passed).collect(), packets: passes })
    }

    fn table_use(&self, table: TableId, keys: &HashMap<Vec<BigUint>, usize>) -> TableUse {
        let lookups: usize = keys.values().sum();
        let share = |count: &usize| *count as f64 / lookups.max(1) as f64;
        let entropy: f64 = keys.values().map(|count| -share(count) * share(count).ln()).sum();
        let mut steps = [0.0; 3];
        let mut shares: HashMap<[usize; 3], f64> = HashMap::new();
        let table = self.table(table);
        for (key, count) in keys {
            let of_key = table.steps(key);
            *shares.entry(of_key).or_default() += share(count);
            steps.iter_mut().zip(of_key).for_each(|(sum, steps)| *sum += steps as f64 * share(count));
        }
        let most = shares.values().copied().fold(0.0, f64::max);
        TableUse { lookups, keys: entropy.exp(), steps, varies: shares.values().sum::<f64>() - most }
    }
}
