//! The memory of a batch.

use crate::followed::Followed;
use crate::watch::Sighted;
use p4jet_packet::{Batch, Pool};

/// A batch and the pool of its packets.
pub(crate) struct Buffers {
    pub pool: Pool,
    pub batch: Batch,
    /// Packets of the batch that match traces.
    pub sighted: Vec<Sighted>,
    /// The injected packet that is the batch.
    pub followed: Option<Followed>,
}

impl Buffers {
    pub fn new(pool: Pool) -> Buffers {
        Buffers { pool, batch: Batch::new(), sighted: Vec::new(), followed: None }
    }
}
