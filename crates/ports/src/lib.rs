//! Ports: frames in and out. A port knows bytes and lengths, never what a header means to the program.
//!
//! * [`Port`]: any port as the packet loop sees it, one call per batch.
//! * [`PortSpec`], [`open`]: from `N@SPEC` of the command line to an open port, one handle for each worker.
//! * [`LinkSpec`]: the link that a port emulates.
//! * The kinds: [`AfPacketPort`], [`XdpPort`], [`TapPort`], [`PcapPort`], [`MemoryPort`], and [`LoopPort`] for benchmarks.
//! * [`wait`]: waits until a port may have frames.
//! * [`CaptureReader`], [`CaptureWriter`]: capture files without a port.
//!
//! No input from a file, an interface or a user causes a panic: errors are [`PortError`] values, and frames that cannot be
//! carried are dropped and counted in [`PortStats`].

mod afpacket;
mod capture;
mod controller;
mod error;
mod interface;
mod link;
mod link_spec;
mod memory;
mod offload;
mod pcap;
mod port;
mod ring;
mod shared;
mod spec;
mod tap;
mod wait;
mod xdp;

pub use afpacket::AfPacketPort;
pub use capture::{CAPTURED_FRAME_MAX, CaptureReader, CaptureWriter, read_capture};
pub use controller::{CONTROLLER_RING_BYTES, FromSwitch, ToSwitch, controller_port};
pub use error::{ErrorKind, PortError};
pub use link_spec::{LinkSpec, Loss, Rate};
pub use memory::{LoopPort, MemoryHandle, MemoryPort};
pub use p4jet_files::FileId;
pub use pcap::PcapPort;
pub use port::{LinkStatus, Port, PortStats, Received, Sent};
pub use shared::share;
pub use spec::{PortKind, PortOptions, PortSpec, PortUse, check_capture, check_specs, open};
pub use tap::TapPort;
pub use wait::wait;
pub use xdp::XdpPort;
