//! The switch with few privileges: as an ordinary user whose only capabilities are those for interfaces, and what other
//! users can do to it then.

use super::{
    LEFT, LEFT_MAC, Namespace, Network, RIGHT, RIGHT_MAC, ROUTER_MACS, Switch, lines, ping,
    simple_router_entries, tcp,
};
use crate::common::{self, TempDir, run_command};
use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Numbers of users, which need not have names.
const USER: u32 = 54_321;
const OTHER: u32 = 54_322;

/// A place where ordinary users can run p4jet: not the build folder, which may be below a folder of root's.
struct Place {
    files: TempDir,
    p4jet: PathBuf,
    program: String,
}

impl Place {
    fn new() -> Place {
        let files = TempDir::new("rights");
        open_to(files.path(), 0o755);
        let p4jet = files.path().join("p4jet");
        // Copied by a separate process: a file that this process has open for writing could be inherited by a child of
        // another test when it is to be run.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_p4jet")).arg(&p4jet).status();
        assert!(copied.unwrap().success());
        let program = files.write("router.p4", fs::read(common::program("simple_router")).unwrap());
        Place { files, p4jet, program }
    }

    /// Returns a folder that a user owns.
    fn home(&self, user: u32) -> String {
        let home = self.files.file(&format!("home-{user}"));
        if !Path::new(&home).exists() {
            fs::create_dir(&home).unwrap();
            chown(&home, Some(user), Some(user)).unwrap();
            open_to(Path::new(&home), 0o700);
        }
        home
    }

    /// Returns the command p4jet as a user with only these capabilities, separated by commas.
    fn p4jet(&self, user: u32, capabilities: &str) -> Command {
        let plus: Vec<String> =
            capabilities.split(',').filter(|c| !c.is_empty()).map(|c| format!(",+{c}")).collect();
        let plus = plus.concat();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user.to_string(), "--regid", &user.to_string(), "--clear-groups"]);
        for set in ["inh-caps", "ambient-caps", "bounding-set"] {
            command.arg(format!("--{set}=-all{plus}"));
        }
        // Like a service, it can never get more privileges than at the start.
        command.args(["--no-new-privs", "--"]).arg(&self.p4jet).env("XDG_RUNTIME_DIR", self.home(user));
        command
    }
}

fn open_to(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Ends the test with a message if it cannot run.
macro_rules! need_setpriv {
    () => {
        crate::need_namespaces!();
        // The version of busybox lacks options.
        let works =
            Command::new("setpriv").args(["--ambient-caps=-all", "true"]).stderr(Stdio::null()).status();
        if !works.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: no setpriv (util-linux)");
            return;
        }
    };
}

#[test]
fn an_ordinary_user_with_capabilities_forwards() {
    need_setpriv!();
    let place = Place::new();
    let network = Network::new();
    open_to(network.files.path(), 0o755);
    for capabilities in ["net_raw", "net_raw,net_admin"] {
        let mut command = place.p4jet(USER, capabilities);
        command.arg("run").arg(&place.program);
        let mut switch = network.start_with(command, &simple_router_entries(), &["--no-control"]);
        network.left.enter(|| ping(RIGHT, 1472));
        network.right.enter(|| ping(LEFT, 56));
        tcp(&network.left, &network.right, RIGHT, 5);
        // Its ports recover as with all privileges.
        network.switch.ip("link set s1 down").unwrap();
        switch.wait_for_stderr("port 1: ");
        network.switch.ip("link set s1 up").unwrap();
        switch.wait_for_stderr("the link is up again");
        network.left.enter(|| ping(RIGHT, 56));
        switch.finish();
    }
}

#[test]
fn without_rights_the_error_names_the_needed_ones() {
    need_setpriv!();
    let place = Place::new();
    let network = Namespace::new("rights");
    network.ip("link add s0 type veth peer name s1").unwrap();
    for (capabilities, port, needed) in [
        ("", "s0", "AF_PACKET needs root or the capability CAP_NET_RAW (`sudo setcap"),
        ("", "xdp:s0", "AF_XDP needs root or the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF"),
        ("net_raw", "xdp:s0", "CAP_NET_ADMIN and CAP_BPF"),
        ("", "tap:t0", "as root, or give it the capability CAP_NET_ADMIN"),
    ] {
        if port.starts_with("tap") && fs::metadata("/dev/net/tun").map_or(true, |tun| tun.mode() & 0o6 != 6) {
            continue;
        }
        let mut command = place.p4jet(USER, capabilities);
        command.arg("run").arg(&place.program).args(["-i", &format!("0@{port}"), "--no-control"]);
        let output = network.enter(move || run_command(&mut command));
        output.expect_status(3).says(&[needed]);
    }
}

#[test]
fn other_users_cannot_reach_the_control_socket() {
    need_setpriv!();
    let place = Place::new();
    let network = Network::new();
    open_to(network.files.path(), 0o755);
    // In a folder that everybody may enter and write, the socket itself must refuse.
    let open = place.files.file("open");
    fs::create_dir(&open).unwrap();
    open_to(Path::new(&open), 0o1777);
    let open_socket = format!("{open}/switch.sock");
    for more in [&[][..], &["--control", &open_socket]] {
        let mut command = place.p4jet(USER, "net_raw");
        command.arg("run").arg(&place.program);
        let switch = network.start_with(command, &simple_router_entries(), more);
        let socket = switch.said_earlier("control: ");
        let socket = Path::new(socket.trim());
        let found = fs::symlink_metadata(socket).unwrap();
        assert_eq!((found.uid(), mode(socket)), (USER, 0o600), "{}", socket.display());
        if more.is_empty() {
            let folder = socket.parent().unwrap();
            assert_eq!((fs::metadata(folder).unwrap().uid(), mode(folder)), (USER, 0o700));
            assert!(socket.starts_with(place.home(USER)), "{}", socket.display());
        }
        let ask = |user: u32, how: &[&str]| {
            run_command(place.p4jet(user, "").arg("ctl").args(how).args(["table_num_entries", "ipv4_lpm"]))
        };
        let there = socket.to_str().unwrap();
        ask(USER, &["--socket", there]).expect_status(0).prints(&["3\n"]);
        let refused = ask(OTHER, &["--socket", there]).expect_status(3);
        refused.says(&["this user may not connect to", "ermission denied", "--allow-users UID"]);
        ask(OTHER, &[]).expect_status(3).says(&["this user runs no switch"]);
        if more.is_empty() {
            ask(USER, &[]).expect_status(0).prints(&["3\n"]);
        } else {
            // The file's mode is not the only guard: it is wider for a moment at the start, if the umask allows that.
            open_to(socket, 0o666);
            let refused = ask(OTHER, &["--socket", there]).expect_status(3);
            refused.says(&["user 54322 may not control this switch, only its own user and root"]);
            ask(USER, &["--socket", there]).expect_status(0).prints(&["3\n"]);
        }
        switch.finish();
        assert!(!socket.exists());
    }
}

/// The port for bmv2's tools: only the switch's own user and root may connect, unless more are allowed.
#[test]
fn other_users_are_refused_over_tcp() {
    need_setpriv!();
    let place = Place::new();
    let network = Network::new();
    open_to(network.files.path(), 0o755);
    for (allowed, others) in [(None, 3), (Some("54322"), 0), (Some("all"), 0)] {
        let mut command = place.p4jet(USER, "net_raw");
        command.arg("run").arg(&place.program);
        let mut more = vec!["--no-control", "--control-tcp", "9090"];
        more.extend(allowed.iter().flat_map(|allowed| ["--allow-users", allowed]));
        let switch = network.start_with(command, &simple_router_entries(), &more);
        switch.said_earlier("control: 127.0.0.1:9090");
        let ask = |user: u32| {
            let mut command = place.p4jet(user, "");
            command.args(["ctl", "--tcp", "9090", "table_num_entries", "ipv4_lpm"]);
            network.switch.enter(move || run_command(&mut command))
        };
        // Root and the switch's user always.
        for user in [USER, 0] {
            ask(user).expect_status(0).prints(&["3\n"]);
        }
        // bmv2's tool says so before it says that it is done.
        let mut cli = place.p4jet(OTHER, "");
        cli.args(["simple_switch_CLI", "--thrift-port", "9090"]);
        let cli = network.switch.enter(move || run_command(&mut cli)).expect_status(others);
        assert_eq!(cli.stdout.contains("Done"), others == 0, "{}", cli.stdout);
        if others != 0 {
            cli.says(&["user 54322 may not control this switch", "--allow-users"]);
        }
        let other = ask(OTHER).expect_status(others);
        if others != 0 {
            other.says(&["user 54322 may not control this switch", "--allow-users"]);
        }
        switch.finish();
    }
}

/// With `setcap`, as the error message recommends: the kernel then makes root the owner of the process's files in /proc.
#[test]
fn capabilities_of_the_file_do() {
    need_setpriv!();
    let place = Place::new();
    let given = Command::new("setcap")
        .arg("cap_net_raw,cap_net_admin+ep")
        .arg(&place.p4jet)
        .stderr(Stdio::null())
        .status();
    if !given.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no setcap (libcap2-bin), or a file system without capabilities");
        return;
    }
    let network = Network::new();
    open_to(network.files.path(), 0o755);
    let as_user = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &USER.to_string(), "--regid", &USER.to_string(), "--clear-groups", "--"]);
        command.arg(&place.p4jet).env("XDG_RUNTIME_DIR", place.home(USER));
        command
    };
    let mut command = as_user();
    command.arg("run").arg(&place.program);
    let switch = network.start_with(command, &simple_router_entries(), &[]);
    let socket = switch.said_earlier("control: ");
    assert!(socket.starts_with(&place.home(USER)), "{socket}");
    network.left.enter(|| ping(RIGHT, 56));
    run_command(as_user().args(["ctl", "table_num_entries", "ipv4_lpm"])).expect_status(0);
    switch.finish();
}

/// Creates a TAP interface in a namespace, and returns its descriptor, which children inherit.
fn tap(host: &Namespace, address: Ipv4Addr, mac: &str, router_mac: &str) -> OwnedFd {
    let fd = host.enter(|| {
        // SAFETY: a string that ends in 0; the returned descriptor belongs to this process.
        let fd = unsafe {
            let fd = libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: all zeros are a good `ifreq`; TUNSETIFF reads and writes one.
        let status = unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            request.ifr_name[0] = b't' as libc::c_char;
            request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
            libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request)
        };
        assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
        fd
    });
    let [a, b, c, _] = address.octets();
    for arguments in [
        format!("link set dev t address {mac} up"),
        format!("addr add {address}/24 dev t"),
        format!("neigh replace {a}.{b}.{c}.1 lladdr {router_mac} dev t nud permanent"),
        format!("route add default via {a}.{b}.{c}.1"),
    ] {
        host.ip(&arguments).unwrap();
    }
    fd
}

#[test]
fn inherited_descriptors_need_no_rights() {
    need_setpriv!();
    if !Path::new("/dev/net/tun").exists() {
        eprintln!("SKIPPED: no /dev/net/tun");
        return;
    }
    let place = Place::new();
    let [left, right] = [Namespace::new("left"), Namespace::new("right")];
    let taps = [tap(&left, LEFT, LEFT_MAC, ROUTER_MACS[0]), tap(&right, RIGHT, RIGHT_MAC, ROUTER_MACS[1])];
    let commands = place.files.write("entries.cmd", simple_router_entries());
    let mut command = place.p4jet(USER, "");
    command.arg("run").arg(&place.program).args(["--commands", &commands, "--no-control"]);
    for (n, tap) in taps.iter().enumerate() {
        command.args(["-i", &format!("{n}@fd:{}", tap.as_raw_fd())]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (stdout, stderr) = (lines(child.stdout.take()), lines(child.stderr.take()));
    let mut switch = Switch { child, stdin: None, stdout, stderr, said: String::new() };
    switch.wait_for_stderr("forwarding between 2 ports");
    left.enter(|| ping(RIGHT, 1472));
    tcp(&left, &right, RIGHT, 2);
    switch.finish();
}
