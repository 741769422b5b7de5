//! `p4jet gen`: captures, and entries that go with them.

use crate::failure::Failure;
use crate::output::say;
use clap::ValueEnum;
use p4jet_tools::traffic::{self, Content, Protocol, Transport};
use std::path::PathBuf;

/// Options of `gen`.
#[derive(clap::Args)]
pub struct Args {
    /// What the packets are.
    #[arg(short, long, value_enum, default_value = "ipv4")]
    protocol: ProtocolArg,
    /// What they carry; of vxlan and gre, what the packets inside carry.
    #[arg(short, long, value_enum, default_value = "udp")]
    transport: TransportArg,
    /// Flows: packets of each capture, and entries; up to 1000000.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    entries: u64,
    /// Sizes of the frames, with the 4 bytes of the frame check sequence, which are not in the capture.
    #[arg(
        long,
        value_name = "BYTES,…",
        value_delimiter = ',',
        default_value = "64",
        conflicts_with = "perf"
    )]
    sizes: Vec<u32>,
    /// The sizes 64, 128, 256, 512, 1024, 1280 and 1518.
    #[arg(long)]
    perf: bool,
    /// What is random instead of sequential.
    #[arg(long, value_enum, value_name = "WHAT,…", value_delimiter = ',')]
    random: Vec<RandomArg>,
    /// Decides what is random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The VNI of vxlan.
    #[arg(long, value_name = "N", default_value_t = 100)]
    vni: u32,
    /// What the packets carry, again and again; zeros if not given.
    #[arg(long, value_name = "TEXT", default_value = "")]
    payload: String,
    /// Entries send to the ports 1 to N.
    #[arg(long, value_name = "N", default_value_t = 4)]
    ports: u32,
    /// The shipped programs to write entries for; all that can carry the packets if not given.
    #[arg(long, value_name = "PROGRAM,…", value_delimiter = ',')]
    entries_for: Option<Vec<String>>,
    /// Where the files go.
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
    /// What their names begin with.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProtocolArg {
    Ipv4,
    Ipv6,
    L2,
    Vxlan,
    Gre,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TransportArg {
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RandomArg {
    Ip,
    Mac,
    Port,
    All,
}

/// Makes the files and lists them.
pub fn run(args: &Args) -> Result<(), Failure> {
    let random = |what| args.random.contains(&what) || args.random.contains(&RandomArg::All);
    let options = traffic::Options {
        protocol: match args.protocol {
            ProtocolArg::Ipv4 => Protocol::Ipv4,
            ProtocolArg::Ipv6 => Protocol::Ipv6,
            ProtocolArg::L2 => Protocol::L2,
            ProtocolArg::Vxlan => Protocol::Vxlan,
            ProtocolArg::Gre => Protocol::Gre,
        },
        transport: match args.transport {
            TransportArg::Tcp => Transport::Tcp,
            TransportArg::Udp => Transport::Udp,
        },
        entries: args.entries,
        sizes: if args.perf { traffic::PERF_SIZES.to_vec() } else { args.sizes.clone() },
        random_ip: random(RandomArg::Ip),
        random_mac: random(RandomArg::Mac),
        random_port: random(RandomArg::Port),
        seed: args.seed,
        vni: args.vni,
        payload: args.payload.clone().into_bytes(),
        ports: args.ports,
        programs: args.entries_for.clone(),
        folder: args.out.clone(),
        name: args.name.clone(),
    };
    for made in traffic::generate(&options)? {
        let path = made.path.display();
        match made.content {
            Content::Capture { size, asked, packets } => {
                let raised =
                    asked.map_or(String::new(), |asked| format!(" (the headers do not fit in {asked})"));
                say!("{path}: {packets} packets of {size} bytes with FCS{raised}")?;
            }
            Content::Entries { program } => say!("{path}: entries for {program}")?,
            Content::Trace => say!("{path}: the flows")?,
        }
    }
    Ok(())
}
