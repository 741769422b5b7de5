//! The P4Runtime server of a switch, and its CPU port.

use crate::compile;
use crate::failure::Failure;
use crate::log::{Level, Voice};
use p4jet_control::SharedControl;
use p4jet_dataplane::{NewPort, Running};
use p4jet_p4runtime::server::{Options, Server, Tls, Who};
use p4jet_p4runtime::session::Rules;
use p4jet_ports::{FromSwitch, PortSpec, ToSwitch, controller_port};
use p4jet_text::{Peer, Users};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The default address of a P4Runtime server.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:9559";

/// The maximum number of open streams of a role.
const STREAMS_OF_ROLE_MAX: usize = 64;

/// The options of the server.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct P4RuntimeArgs {
    /// Also serve P4Runtime, at ADDR:PORT or at a port of the loopback address (by default 127.0.0.1:9559). The switch then
    /// runs until it is stopped.
    #[arg(id = "p4runtime", long = "p4runtime", value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = DEFAULT_ADDRESS,
          value_parser = p4jet_text::server::parse_address)]
    pub address: Option<SocketAddr>,
    /// The device id in P4Runtime.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "p4runtime")]
    pub device_id: u64,
    /// Number of the CPU port: its packets are PacketIn and PacketOut messages of P4Runtime.
    #[arg(long, value_name = "N", requires = "p4runtime", value_parser = clap::value_parser!(u32).range(1..))]
    pub cpu_port: Option<u32>,
    /// Serve P4Runtime over TLS, with the certificates in this file (PEM).
    #[arg(id = "p4runtime_cert", long = "p4runtime-cert", value_name = "FILE", requires_all = ["p4runtime", "p4runtime_key"])]
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    #[arg(id = "p4runtime_key", long = "p4runtime-key", value_name = "FILE", requires = "p4runtime_cert")]
    pub key: Option<PathBuf>,
    /// Admit only clients with a certificate of the authorities in this file (PEM).
    #[arg(id = "p4runtime_ca", long = "p4runtime-ca", value_name = "FILE", requires = "p4runtime_key")]
    pub ca: Option<PathBuf>,
    /// True if the server behaves like bmv2's: it accepts any device id, and forgets election ids with the last stream.
    #[arg(skip)]
    pub as_bmv2: bool,
}

/// The server's two ends of a CPU port.
pub type Cpu = (FromSwitch, ToSwitch);

/// Opens the CPU port, if there is one.
pub fn cpu_port(
    args: &P4RuntimeArgs,
    running: &Running,
    others: &[PortSpec],
) -> Result<(Option<NewPort>, Option<Cpu>), Failure> {
    let Some(number) = args.cpu_port else { return Ok((None, None)) };
    if others.iter().any(|port| port.number == number) {
        return Err(Failure::Usage(format!("--cpu-port {number}: -i gives this number to another port")));
    }
    compile::check_port(&running.switch(), number)?;
    let opened = controller_port(running.handles(), running.frame_max());
    let (handles, from, to) = opened.map_err(|e| Failure::port(&e))?;
    Ok((Some(NewPort { number, spec: "controller".to_string(), handles }), Some((from, to))))
}

/// Starts the server if requested. It runs until the result is dropped.
pub fn serve(
    args: &P4RuntimeArgs,
    users: &Users,
    control: &SharedControl,
    cpu: Option<Cpu>,
    has_program: bool,
    voice: &Voice,
) -> Result<Option<Server>, Failure> {
    let Some(address) = args.address else { return Ok(None) };
    let tls = args.certificate.clone().zip(args.key.clone());
    let tls = tls.map(|(certificate, key)| Tls { certificate, key, client_authorities: args.ca.clone() });
    let is_tls = tls.is_some();
    let is_open = !address.ip().to_canonical().is_loopback();
    // A certificate identifies the client, and the users of other machines cannot be found.
    let users = if args.ca.is_some() || is_open { Users::All } else { users.clone() };
    let log = voice.clone();
    let options = Options {
        address,
        rules: Rules {
            device: (!args.as_bmv2).then_some(args.device_id),
            streams_max: STREAMS_OF_ROLE_MAX,
            as_bmv2: args.as_bmv2,
        },
        has_program,
        tls,
        admit: Arc::new(move |peer, local| {
            users.admit(peer, local, "").map(|peer| match peer {
                Peer::User(user) => Who::User(user),
                Peer::Address(address) => Who::at(address),
            })
        }),
        cpu,
        log: Arc::new(move |line| log.report(Level::Warn, "p4runtime", None, line)),
    };
    let server = Server::start(control.clone(), options)
        .map_err(|error| Failure::Environment(format!("--p4runtime {address}: {error}")))?;
    let (address, how) = (server.address(), if is_tls { " over TLS" } else { "" });
    let open = match is_open && args.ca.is_none() {
        true => "; everyone who can reach this address controls the switch",
        false => "",
    };
    voice.report(Level::Info, "p4runtime", None, format!("P4Runtime at {address}{how}{open}"));
    Ok(Some(server))
}
