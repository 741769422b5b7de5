//! `simple_switch_CLI`: bmv2's control tool, as far as scripts see it, for a running p4jet.

use crate::ctl;
use crate::failure::{Failure, wrong_number};
use crate::output::say;
use crate::simple_switch::{THRIFT_PORT, thrift_address};
use clap::Parser;
use p4jet_text::client::Client;
use p4jet_text::prompt;
use std::ffi::OsString;
use std::path::PathBuf;

/// Sends commands from standard input to a running switch.
#[derive(Parser)]
#[allow(dead_code, reason = "`pre` is accepted without effect")]
#[command(name = "simple_switch_CLI", infer_long_args = true)]
struct Options {
    /// Port of the control server: the --thrift-port of simple_switch.
    #[arg(long, value_name = "PORT", default_value_t = THRIFT_PORT)]
    thrift_port: u16,
    /// Address of the switch.
    #[arg(long, value_name = "ADDR", default_value = "localhost")]
    thrift_ip: String,
    /// Accepted: the running switch knows its program.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Accepted: there is one packet replication engine.
    #[arg(long, value_parser = ["None", "SimplePre", "SimplePreLAG"], default_value = "SimplePreLAG")]
    pre: String,
    /// Exit with status 1 if a command was refused.
    #[arg(long)]
    strict: bool,
}

/// Runs it. The arguments follow the name.
pub fn run(args: &[OsString]) -> Result<(), Failure> {
    let named = [OsString::from("simple_switch_CLI")];
    let options = match Options::try_parse_from(named.iter().chain(args)) {
        Ok(options) => options,
        Err(error) => {
            if let Some(text) = wrong_number(&error) {
                return Err(Failure::Usage(text));
            }
            let usage = error.use_stderr();
            let _ = error.print();
            return if usage { Err(Failure::Usage(String::new())) } else { Ok(()) };
        }
    };
    let connected = Client::tcp(&*thrift_address(&options.thrift_ip, options.thrift_port));
    let Ok(mut client) = connected else {
        say!("Could not connect to thrift client on port {}", options.thrift_port)?;
        say!("Make sure the switch is running and that you have the right port")?;
        return Err(Failure::Reported);
    };
    client.read_programs_by(ctl::read_program);
    if options.json.is_none() {
        say!("Obtaining JSON from switch...")?;
    }
    // The switch may refuse this user.
    client.command("", false).map_err(ctl::gone)?;
    if options.json.is_none() {
        say!("Done")?;
    }
    match prompt::interact(&mut client) {
        Ok(failed) if failed > 0 && options.strict => Err(Failure::Reported),
        Ok(_) => Ok(()),
        Err(error) => Err(ctl::gone(error)),
    }
}
