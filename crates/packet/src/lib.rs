//! Packets in memory: the layout that generated code, the packet loop and the ports share.
//!
//! * [`Packet`]: where one frame is, where it came from, where it goes. Generated code reads and writes it.
//! * [`Pool`]: one memory of many equal buffers, handed out round-robin. Buffers are not freed: a packet is fully
//!   processed (run to completion) long before the ring returns to its buffer.
//! * [`Batch`]: up to [`BATCH_MAX`] packets that a port fills and the packet loop empties.
//!
//! ```
//! use p4jet_packet::{Batch, Pool};
//! let mut pool = Pool::new(1024, 1518, 128)?;
//! let mut batch = Batch::new();
//! batch.push(&mut pool, 3, &[0xff; 60]).unwrap();
//! let packet = batch.packets()[0];
//! assert_eq!((packet.ingress_port, packet.len), (3, 60));
//! assert_eq!(pool.frame(&packet), &[0xff; 60]);
//! # Ok::<(), std::io::Error>(())
//! ```

mod batch;
mod packet;
mod pool;

pub use batch::{BATCH_MAX, Batch, PushError};
pub use packet::{PORT_DROP, Packet, REASON_DONE};
pub use pool::{CACHE_LINE, COUNT_DEFAULT, HEADROOM_LIMIT, Pool};
