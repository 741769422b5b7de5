//! One core's packets.
#![allow(unsafe_code)]

use crate::switch::{EngineKind, Switch};
use p4jet_externs::Env;
use p4jet_interp::{Arrival, Machine, Outcome, REASON_OUT_OF_FUEL};
use p4jet_jit::{DROP_ASSERTION, Engine};
use p4jet_packet::{Batch, PORT_DROP, Pool};
use p4jet_tables::{View, ViewHandle};
use std::io;
use std::sync::Arc;

/// What became of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processed {
    /// Packets that left: port and bytes, in order.
    pub sent: Vec<(u32, Vec<u8>)>,
    /// Why the packet was dropped, if it was.
    pub dropped: Option<String>,
}

/// Runs packets on one core.
pub struct Worker {
    engine: Runner,
    views: Vec<ViewHandle>,
    pinned: Vec<*const View>,
    env: Env<'static>,
    /// Last: what is above points into it.
    switch: Arc<Switch>,
    time: Option<u64>,
    /// For [`Self::process_one`].
    own: Option<(Pool, Batch)>,
}

// SAFETY: `pinned` is only valid, and only read, inside `process`.
unsafe impl Send for Worker {}

enum Runner {
    Jit(Box<Engine>),
    Interp,
}

impl Worker {
    pub(crate) fn new(switch: &Arc<Switch>, engine: EngineKind, worker: usize) -> Result<Worker, String> {
        let engine = match engine {
            EngineKind::Jit => {
                let code = switch.code().map_err(|e| switch.describe(&e))?;
                Runner::Jit(Box::new(Engine::new(code, switch.program(), switch.state(), worker)))
            }
            EngineKind::Interp => {
                // Says now what cannot run.
                Machine::new(switch.program())?;
                Runner::Interp
            }
        };
        let env = switch.state().env(worker);
        // SAFETY: the environment borrows the state of `switch`, which this worker keeps alive and never moves (it is in
        // an Arc); `env` is dropped before `switch`, being declared before it.
        let env: Env<'static> = unsafe { std::mem::transmute(env) };
        let views: Vec<ViewHandle> = (0..switch.tables.len())
            .map(|t| switch.table(p4jet_ir::TableId(t as u32)).view_handle())
            .collect();
        Ok(Worker {
            engine,
            pinned: Vec::with_capacity(views.len()),
            views,
            env,
            switch: Arc::clone(switch),
            time: None,
            own: None,
        })
    }

    /// The switch it belongs to.
    pub fn switch(&self) -> &Arc<Switch> {
        &self.switch
    }

    /// Lets time stand still at `now_us`, so that runs can be repeated; `None` lets it go on.
    pub fn set_time(&mut self, now_us: Option<u64>) {
        self.time = now_us;
    }

    /// A pool of buffers as this program needs them, for frames of at least `frame_max` bytes.
    pub fn pool(&self, count: usize, frame_max: usize) -> io::Result<Pool> {
        Pool::new(
            count,
            frame_max.max(p4jet_jit::FRAME_READABLE_BYTES),
            self.switch.program().emitted_bytes_max() as usize,
        )
    }

    /// Runs every packet of the batch through the pipeline; sets egress ports, changes the frames. The packets are of
    /// `pool`, which [`Self::pool`] made.
    pub fn process(&mut self, pool: &mut Pool, batch: &mut Batch) {
        let headroom = self.switch.program().emitted_bytes_max() as usize;
        assert!(pool.headroom() >= headroom, "the pool is not of this worker");
        let now = self.time.unwrap_or_else(|| self.switch.now_us());
        self.env.set_now(now);
        match &mut self.engine {
            Runner::Jit(engine) => {
                let guard = p4jet_tables::pin();
                self.pinned.clear();
                self.pinned.extend(self.views.iter().map(|v| v.load(&guard)));
                // SAFETY: the pool has the headroom and slack; the views stay until the guard is dropped; the environment
                // is of the same switch.
                unsafe { engine.run(batch.packets_mut(), &self.pinned, &mut self.env, now) };
            }
            Runner::Interp => {
                let machine = Machine::new(self.switch.program()).expect("it was possible in `new`");
                for packet in batch.packets_mut() {
                    let frame = pool.frame(packet).to_vec();
                    let arrival = Arrival { port: packet.ingress_port, frame: &frame, now_us: now };
                    match machine.run(self.switch.tables.as_slice(), &mut self.env, &arrival, None) {
                        Outcome::Sent { port, frame: out } => {
                            packet.egress_port = port;
                            // Growth goes into the headroom, as in generated code.
                            let growth = out.len().saturating_sub(frame.len());
                            assert!(growth <= headroom, "emitted_bytes_max bounds what a program adds");
                            packet.data = packet.data.wrapping_sub(growth);
                            packet.len = out.len() as u32;
                            pool.frame_mut(packet).copy_from_slice(&out);
                        }
                        Outcome::Dropped { reason, .. } => {
                            packet.egress_port = PORT_DROP;
                            packet.drop_reason = reason;
                        }
                    }
                }
            }
        }
    }

    /// What a [`p4jet_packet::Packet::drop_reason`] means.
    pub fn drop_reason(&self, reason: u32) -> String {
        match reason {
            DROP_ASSERTION => "an assert or assume failed".to_string(),
            REASON_OUT_OF_FUEL => "the program ran too long on this packet".to_string(),
            _ => self
                .switch
                .program()
                .drop_reasons
                .get(reason as usize)
                .cloned()
                .unwrap_or_else(|| format!("reason {reason}")),
        }
    }

    /// Lines that `log_msg` and failed assertions wrote since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        self.env.take_log()
    }

    /// One packet; for tests and tools. Frames of up to 65,535 bytes; longer ones are dropped.
    pub fn process_one(&mut self, ingress_port: u32, frame: &[u8]) -> Processed {
        let (mut pool, mut batch) = match self.own.take() {
            Some(own) => own,
            None => match self.pool(64, 65_535) {
                Ok(pool) => (pool, Batch::new()),
                Err(e) => {
                    return Processed { sent: vec![], dropped: Some(format!("no memory for packets: {e}")) };
                }
            },
        };
        batch.clear();
        let result = match batch.push(&mut pool, ingress_port, frame) {
            Err(e) => {
                Processed { sent: vec![], dropped: Some(format!("the packet cannot be taken in: {e:?}")) }
            }
            Ok(()) => {
                self.process(&mut pool, &mut batch);
                let packet = batch.packets()[0];
                if packet.egress_port == PORT_DROP {
                    Processed { sent: vec![], dropped: Some(self.drop_reason(packet.drop_reason)) }
                } else {
                    Processed {
                        sent: vec![(packet.egress_port, pool.frame(&packet).to_vec())],
                        dropped: None,
                    }
                }
            }
        };
        self.own = Some((pool, batch));
        result
    }
}
