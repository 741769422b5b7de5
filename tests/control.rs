//! A running switch and its clients, as processes: `p4jet ctl`, and p4jet under the names of bmv2's programs.
//!
//! Blind spots: live interfaces (tests/namespaces.rs), a terminal.

use crate::common::{self, TempDir, p4jet, program, run_command, wait};
use p4jet_text::client::Client;
use p4jet_text::wire::Request;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A running switch, which ends with the test.
struct Switch {
    child: Child,
    /// Its control addresses.
    addresses: Vec<String>,
    /// Its output until it forwards.
    printed: Vec<String>,
    /// Its later output.
    later: mpsc::Receiver<String>,
}

impl Switch {
    /// Starts it and waits until it forwards.
    fn start(command: &mut Command) -> Switch {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (line, lines) = mpsc::channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|text| line.send(text)));
        let mut switch = Switch { child, addresses: Vec::new(), printed: Vec::new(), later: lines };
        loop {
            let line = switch.later.recv_timeout(Duration::from_secs(60)).expect("it starts");
            if let Some(address) = line.strip_prefix("control: ") {
                switch.addresses.push(address.to_string());
            }
            let ready = line.contains(": forwarding between ");
            switch.printed.push(line);
            if ready {
                return switch;
            }
        }
    }

    /// Waits for a later line with this start.
    fn says(&self, what: &str) -> String {
        loop {
            let line = self.later.recv_timeout(common::DEADLINE);
            let line = line.unwrap_or_else(|e| panic!("no line that begins with `{what}`: {e}"));
            if line.starts_with(what) {
                return line;
            }
        }
    }

    fn socket(&self) -> &str {
        &self.addresses[0]
    }

    fn port(&self) -> &str {
        let tcp = self.addresses.iter().find_map(|address| address.strip_prefix("127.0.0.1:"));
        tcp.expect("it listens on TCP")
    }

    /// Sends SIGHUP and waits for its end.
    fn hang_up(self) -> i32 {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
        self.status()
    }

    /// Waits for its end.
    fn status(mut self) -> i32 {
        wait(&mut self.child, "the switch").code().expect("no signal")
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// p4jet under another name.
fn named(name: &str) -> Command {
    let mut command = p4jet();
    command.arg0(name);
    command
}

fn with_input(command: &mut Command, dir: &TempDir, text: &str) -> common::Output {
    let path = dir.write("input", text);
    run_command(command.stdin(fs::File::open(path).unwrap()))
}

fn router(dir: &TempDir) -> Switch {
    let socket = dir.file("switch.sock");
    let program = program("basic_l2");
    Switch::start(p4jet_run(&program).args(["--control", &socket, "--control-tcp", "0"]))
}

const COMMANDS: &str = "\
table_add forward set_dest 00:00:5e:00:53:01 => 1
table_add forward set_dest 00:00:5e:00:53:01 => 1
table_num_entries forward
nonsense
table_dump forward
show_ports
";

#[test]
fn ctl_works_over_both_sockets() {
    let dir = TempDir::new("ctl");
    let switch = router(&dir);
    let socket = switch.socket().to_string();
    let ctl = |arguments: &[&str]| run_command(p4jet().args(["ctl", "--socket", &socket]).args(arguments));
    ctl(&["table_num_entries", "forward"]).expect_status(0).prints(&["0\n"]);
    // As `run` calls it.
    run_command(p4jet().args(["ctl", "--control", &socket, "table_num_entries", "forward"])).prints(&["0\n"]);
    ctl(&["table_add forward set_dest 00:00:5e:00:53:07 => 7"]).expect_status(0).prints(&["with handle 0\n"]);
    ctl(&["table_delete", "forward", "0"]).expect_status(0);
    ctl(&["table_delete", "forward", "0"]).expect_status(1).says(&["(INVALID_HANDLE)"]);
    ctl(&["--json", "table_num_entries", "forward"]).expect_status(0).prints(&["\"data\":0}\n"]);
    ctl(&["--json", "nonsense"]).expect_status(1).prints(&["{\"ok\":false", "\"kind\":\"wrong\""]);
    ctl(&["shell", "id"]).expect_status(1).says(&["run only at the prompt"]);
    ctl(&["--nonsense"]).expect_status(2);

    let file = dir.write("bad.cmd", "table_add forward set_dest 1 => 1\ntable_add forward set_dest 1 => 1\n");
    ctl(&["--file", &file]).expect_status(1).says(&[":2: ", "DUPLICATE_ENTRY"]);
    ctl(&["--file", &file, "--json"])
        .expect_status(1)
        .prints(&["\"line\":2", "\"code\":\"DUPLICATE_ENTRY\""]);
    ctl(&["--file", "/nowhere"]).expect_status(1);
    ctl(&["table_num_entries", "forward"]).prints(&["0\n"]);

    // After it, handles start at 0 again.
    ctl(&["table_clear", "forward"]).expect_status(0);
    let output = with_input(p4jet().args(["ctl", "--socket", &socket]), &dir, COMMANDS).expect_status(1);
    assert!(!output.stdout.contains("RuntimeCmd"), "{}", output.stdout);
    let output = output.prints(&["1\n", "Dumping entry 0x"]);
    let output = output.says(&["(DUPLICATE_ENTRY)", "*** Unknown syntax: nonsense"]);
    let tcp = ["ctl", "--tcp", switch.port(), "table_num_entries", "forward"];
    run_command(p4jet().args(tcp)).expect_status(0).prints(&["1\n"]);

    // Under bmv2's name: with its prompts, and without errors.
    run_command(p4jet().args(["ctl", "--socket", &socket, "table_clear", "forward"])).expect_status(0);
    let cli = |more: &[&str]| {
        let mut command = named("/usr/bin/simple_switch_CLI");
        command.args(["--thrift-port", switch.port()]).args(more);
        command
    };
    let other = with_input(&mut cli(&[]), &dir, COMMANDS).expect_status(0);
    let banner = "Obtaining JSON from switch...\nDone\nControl utility for runtime P4 table manipulation\nRuntimeCmd: ";
    let answers = other.stdout.strip_prefix(banner).expect(&other.stdout).replace("RuntimeCmd: ", "");
    // Like ctl without prompts, except that errors are among the answers.
    let errors: Vec<&str> = output.stderr.lines().collect();
    let answers: String =
        answers.lines().filter(|line| !errors.contains(line)).map(|line| format!("{line}\n")).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert_eq!(answers.trim_end(), output.stdout.trim_end());
    with_input(&mut cli(&["--strict"]), &dir, "nonsense\n").expect_status(1);
    with_input(&mut cli(&["--json", "x.json", "--pre", "None", "--strict"]), &dir, "help\n").expect_status(0);
    run_command(cli(&["--nonsense"]).stdin(Stdio::null())).expect_status(2);

    ctl(&["stop"]).expect_status(0);
    assert_eq!(switch.status(), 0);
    assert!(!fs::exists(&socket).unwrap());
    ctl(&["help"]).expect_status(3).says(&["no switch listens at "]);
}

#[test]
fn allowed_users_need_an_address() {
    let mut command = p4jet_run(&program("basic_l2"));
    let refused = run_command(command.args(["-i", "0@mem", "--allow-users", "all"])).expect_status(2);
    refused.says(&["--allow-users concerns TCP and P4Runtime: add --control-tcp or --p4runtime"]);
}

/// The log shows refused clients.
#[test]
fn refused_clients_are_in_the_log() {
    let dir = TempDir::new("crowd");
    let switch = router(&dir);
    let crowd: Vec<_> = (0..66).map(|_| UnixStream::connect(switch.socket()).unwrap()).collect();
    let line = switch.says("refused a client of user ");
    assert!(line.contains(": 64 clients of user ") && line.contains("which is the limit"), "{line}");
    drop(crowd);
}

/// Over TCP the switch opens no files, neither those that a client names nor those that a program includes, unless they were
/// granted.
#[test]
fn over_tcp_the_switch_opens_only_granted_files() {
    let dir = TempDir::new("granted");
    let (granted, secret) = (dir.file("granted"), dir.write("secret", "top-secret\n"));
    let precious = dir.write("precious.pcap", "precious");
    fs::create_dir(&granted).unwrap();
    std::os::unix::fs::symlink("..", format!("{granted}/up")).unwrap();
    std::os::unix::fs::symlink("../secret", format!("{granted}/out.p4")).unwrap();
    fs::hard_link(&secret, format!("{granted}/linked.p4")).unwrap();
    fs::copy(program("basic_l2"), format!("{granted}/new.p4")).unwrap();
    fs::write(format!("{granted}/nosy.p4"), format!("#include \"{secret}\"\n#include \"../secret\"\n"))
        .unwrap();
    let start = |more: &[&str]| {
        let mut command = p4jet_run(&program("basic_l2"));
        Switch::start(command.args(["--no-control", "--control-tcp", "0"]).args(more))
    };
    // Like any program, without p4jet's own client, which reads programs itself.
    let raw = |switch: &Switch, line: &str| {
        let mut client = Client::tcp(format!("127.0.0.1:{}", switch.port())).unwrap();
        let answer = client.command(line, false).unwrap();
        assert!(!format!("{answer:?}").contains("top-secret"), "{line}: {answer:?}");
        answer.error.map_or(String::new(), |error| {
            let is_denied = error.text.contains("refused over TCP")
                || error.text.contains("outside the granted directory")
                || error.text.contains("several names");
            assert_eq!(error.code.as_deref() == Some("DENIED"), is_denied, "{line}: {error:?}");
            error.text
        })
    };
    let none = start(&[]);
    let some = start(&["--grant-dir", &granted]);
    for switch in [&none, &some] {
        assert_eq!(raw(switch, "port_add mem 1"), "");
        for line in [
            format!("load {secret}"),
            format!("load_new_config_file {secret}"),
            format!("load {granted}/up/secret"),
            format!("load {granted}/out.p4"),
            format!("load {granted}/linked.p4"),
            format!("load {granted}/../secret"),
            format!("capture start 1 {precious}"),
            format!("capture start 1 {granted}/up/precious.pcap"),
            format!("port_add pcap:{secret}, 2"),
            format!("port_add pcap:,{precious} 2"),
            format!("port_add mem 2 {precious}"),
            "port_add lo 2".into(),
            "port_add packet:lo 2".into(),
            "port_add xdp:lo 2".into(),
            "port_add tap:p4jettest 2".into(),
            "port_add fd:0 2".into(),
            format!("load {granted}/nosy.p4"),
        ] {
            let why = raw(switch, &line);
            let about =
                ["refused over TCP", "outside the granted directory", "several names", "include file"];
            assert!(about.iter().any(|about| why.contains(about)), "{line}: {why}");
        }
        let ports = run_command(p4jet().args(["ctl", "--tcp", switch.port(), "show_ports"])).stdout;
        assert_eq!(ports.lines().count(), 3, "{ports}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    }
    for line in [format!("load {granted}/new.p4"), format!("capture start 1 {granted}/new.pcap")] {
        assert!(raw(&none, &line).contains("--grant-dir"), "{line}");
        assert_eq!(raw(&some, &line), "");
    }
    assert_eq!(raw(&some, &format!("port_add pcap:,{granted}/out.pcap 3")), "");
    let ctl = |line: &str| run_command(p4jet().args(["ctl", "--tcp", some.port(), line]));
    // Messages contain the names that were given.
    ctl("show_ports").prints(&[&format!("pcap:,{granted}/out.pcap")]);
    ctl("capture list").prints(&[&format!("frames in {granted}/new.pcap")]);
    assert!(fs::exists(format!("{granted}/out.pcap")).unwrap());

    // p4jet's own client sends the text of files that it may read, including included ones.
    fs::create_dir(dir.file("lib")).unwrap();
    let text = fs::read_to_string(program("basic_l2")).unwrap();
    dir.write("lib/rest.p4", text.replace(" _drop", " renamed"));
    dir.write("main.p4", "#include \"lib/rest.p4\"\n");
    let load = |name: &str| {
        run_command(p4jet().args(["ctl", "--tcp", none.port(), "load", name]).current_dir(dir.path()))
    };
    load("main.p4").expect_status(0);
    run_command(p4jet().args(["ctl", "--tcp", none.port(), "show_actions"])).prints(&["ingress.renamed "]);
    dir.write("lib/rest.p4", "control nonsense");
    load("main.p4").expect_status(1).says(&["error[syntax]", "lib/rest.p4:1:17"]);
    load("nowhere.p4").expect_status(1).says(&["cannot read", "nowhere.p4"]);
    let listed = raw(&some, &format!("load {granted}/nosy.p4"));
    assert!(listed.contains("include file"), "{listed}");

    // Refusals contain the given names too, and the reason.
    for itself in [granted.clone(), format!("{granted}/"), format!("{granted}/.")] {
        let why = raw(&some, &format!("capture start 1 {itself}"));
        assert!(why.contains("it is a directory"), "{itself}: {why}");
    }
    fs::write(format!("{granted}/text"), "no capture").unwrap();
    for more in ["", &format!("{granted}/out2.pcap"), &format!("{granted}/text")] {
        let why = raw(&some, &format!("port_add pcap:{granted}/text,{more} 4"));
        assert!(why.contains(&format!("{granted}/text")) && !why.contains("/proc/self"), "{more}: {why}");
    }
}

/// A switch without memory for another client's thread sends an error to the client.
#[test]
fn a_client_without_a_thread_gets_an_error() {
    const CLIENTS_MAX: usize = 48;
    let dir = TempDir::new("no-thread");
    let switch = router(&dir);
    // The threads of the switch allocate their memory at the start.
    let size = || address_space_bytes(switch.child.id());
    let mut before = 0;
    while before != size() {
        before = size();
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut connected = Vec::new();
    let why = (0..CLIENTS_MAX).find_map(|_| {
        // Enough for small allocations, too little for a thread. Threads that end meanwhile may leave more.
        limit(switch.child.id(), libc::RLIMIT_AS, Some(size() + (16 << 20)));
        let mut client = std::os::unix::net::UnixStream::connect(switch.socket()).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut answer = [0; 4096];
        match client.read(&mut answer) {
            Ok(n) => Some(String::from_utf8_lossy(&answer[..n]).into_owned()),
            Err(_) => {
                connected.push(client);
                None
            }
        }
    });
    let why = why.expect("a client too many");
    assert!(why.contains("no thread for another client") && why.contains("ulimit"), "{why}");
    drop(connected);
    limit(switch.child.id(), libc::RLIMIT_AS, None);
    asked(switch.socket(), "show_ports");
}

fn address_space_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let size_kib: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    size_kib << 10
}

/// A command at a terminal.
struct AtTerminal {
    child: std::process::Child,
    keyboard: fs::File,
    shows: mpsc::Receiver<String>,
    said: String,
}

impl AtTerminal {
    fn start(command: &mut Command) -> AtTerminal {
        let terminal = nix::pty::openpty(None, None).unwrap();
        command.env("TERM", "xterm");
        let slave = || Stdio::from(terminal.slave.try_clone().unwrap());
        let child = command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap();
        drop(terminal.slave);
        // The command holds the other end during its life.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut screen = fs::File::from(terminal.master.try_clone().unwrap());
        let (shown, shows) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = std::io::Read::read(&mut screen, &mut bytes) {
                if shown.send(String::from_utf8_lossy(&bytes[..n]).into_owned()).is_err() {
                    return;
                }
            }
        });
        AtTerminal { child, keyboard: fs::File::from(terminal.master), shows, said: String::new() }
    }

    fn wait_for(&mut self, what: &str) {
        while !self.said.contains(what) {
            let more = self.shows.recv_timeout(common::DEADLINE);
            self.said += &more.unwrap_or_else(|_| panic!("no `{what}` in {}", self.said));
        }
    }
}

/// The commands that open a prompt: two clients of a switch, and another switch.
fn prompts(switch: &Switch) -> [Command; 3] {
    let mut ctl = p4jet();
    ctl.args(["ctl", "--socket", switch.socket()]);
    let mut cli = p4jet();
    cli.args(["simple_switch_CLI", "--thrift-port", switch.port().rsplit(':').next().unwrap()]);
    let mut run = p4jet_run(&program("basic_l2"));
    run.args(["-i", "0@mem", "--no-control"]);
    [ctl, cli, run]
}

/// Lines that a terminal sends at once, without marking them as pasted, all run.
#[test]
fn lines_sent_at_once_all_run() {
    let dir = TempDir::new("paste-plain");
    let switch = router(&dir);
    for command in &mut prompts(&switch) {
        for end in ["\r", "\n", "\r\n"] {
            let mut at = AtTerminal::start(command);
            at.wait_for("RuntimeCmd: ");
            // More than the editor reads at a time.
            let many = format!("table_num_entries forward{end}").repeat(60);
            let last = format!("help show_pvs{end}quit{end}");
            std::io::Write::write_all(&mut at.keyboard, format!("{many}{last}").as_bytes()).unwrap();
            at.wait_for("List parser value sets defined in the P4 program");
            assert_eq!(wait(&mut at.child, "pasted").code(), Some(0), "{end:?}: {}", at.said);
            let answers = at.said.lines().filter(|line| line.trim() == "0").count();
            assert_eq!(answers, 60, "{command:?} {end:?}: {}", at.said);
        }
    }
}

/// The tab key completes commands, tables and actions, even if the switch is another process.
#[test]
fn words_are_completed_at_every_prompt() {
    let dir = TempDir::new("completion");
    let switch = router(&dir);
    for command in &mut prompts(&switch) {
        let mut at = AtTerminal::start(command);
        at.wait_for("RuntimeCmd: ");
        for (keys, completed) in [
            ("table_ad\t", "table_add"),
            (" forw\t", "table_add ingress.forward"),
            (" set_d\t", "table_add ingress.forward ingress.set_dest"),
            ("\u{15}trace pa\t", "trace packet"),
        ] {
            std::io::Write::write_all(&mut at.keyboard, keys.as_bytes()).unwrap();
            at.wait_for(completed);
        }
        std::io::Write::write_all(&mut at.keyboard, b"\x15quit\r").unwrap();
        assert_eq!(wait(&mut at.child, "completed").code(), Some(0), "{}", at.said);
    }
}

/// Lines pasted at a terminal that brackets them run one by one, each shown before its answer.
#[test]
fn pasted_lines_run_one_by_one() {
    let dir = TempDir::new("paste");
    let switch = router(&dir);
    let mut at = AtTerminal::start(p4jet().args(["ctl", "--socket", switch.socket()]));
    at.wait_for("RuntimeCmd: ");
    // The bytes of a bracketed paste, then the key Enter.
    let pasted =
        "table_add forward set_dest 00:00:5e:00:53:01 => 1\rtable_num_entries forward\rhelp show_pvs";
    write!(at.keyboard, "\x1b[200~{pasted}\x1b[201~\r").unwrap();
    at.wait_for("with handle 0");
    at.wait_for("RuntimeCmd: table_num_entries forward\r\n1\r\n");
    at.wait_for("RuntimeCmd: help show_pvs\r\nList parser value sets defined in the P4 program");
    write!(at.keyboard, "quit\r").unwrap();
    assert_eq!(wait(&mut at.child, "ctl").code(), Some(0));
    assert_eq!(asked(switch.socket(), "table_num_entries forward"), "1\n");
}

#[test]
fn a_socket_belongs_to_one_switch() {
    let dir = TempDir::new("one");
    let switch = router(&dir);
    let program = program("basic_l2");
    run_command(p4jet_run(&program).arg("--control").arg(switch.socket()))
        .expect_status(3)
        .says(&["a switch listens there already"]);
    run_command(p4jet_run(&program).args(["--control-tcp", switch.port()])).expect_status(3).says(&[
        "no control socket: cannot listen on 127.0.0.1:",
        "; choose another port with --control-tcp PORT",
    ]);
    let port = switch.port().rsplit(':').next().unwrap();
    run_command(named("simple_switch").args(["--thrift-port", port]).arg(&program))
        .expect_status(3)
        .says(&["cannot listen on 127.0.0.1:", "; choose another port with --thrift-port PORT"]);
    // A killed switch leaves its socket behind, and another takes it over.
    let socket = switch.socket().to_string();
    drop(switch);
    assert!(fs::exists(&socket).unwrap());
    let again = router(&dir);
    assert_eq!(again.socket(), socket);
}

fn p4jet_run(program: &std::path::Path) -> Command {
    let mut command = p4jet();
    command.arg("run").arg("--stay").arg(program);
    command
}

#[test]
fn blocking_and_duplicate_ports_are_refused() {
    let dir = TempDir::new("refused");
    let switch = router(&dir);
    let (socket, fifo, out) = (switch.socket().to_string(), dir.file("fifo"), dir.file("out.pcap"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let ctl = |line: &str| run_command(p4jet().args(["ctl", "--socket", &socket]).args([line]));
    for line in
        [format!("load {fifo}"), format!("port_add pcap:{fifo}, 1"), format!("port_add pcap:,{fifo} 1")]
    {
        ctl(&line).expect_status(1).says(&["is a FIFO"]);
    }
    let captured = dir.file("captured.pcap");
    ctl(&format!("port_add pcap:,{out} 2 {captured}")).expect_status(0);
    ctl("capture list").prints(&["port 2: 0 frames in"]);
    ctl(&format!("capture start 2 {fifo}")).expect_status(1).says(&["is a FIFO"]);
    ctl(&format!("port_add pcap:,{out} 3")).expect_status(1).says(&["which one of them writes"]);
    // A capture never replaces a file of a port, nor a port one of a capture.
    for line in [format!("capture start 2 {out}"), format!("port_add pcap:,{out}2 4 {out}2")] {
        ctl(&line).expect_status(1).says(&["would overwrite a file of port"]);
    }
    for line in [format!("port_add pcap:{captured}, 4"), format!("port_add pcap:,{captured} 4")] {
        ctl(&line).expect_status(1).says(&["would overwrite a file of port `4@pcap:"]);
    }
    // A port whose capture cannot start is not added.
    ctl(&format!("port_add pcap:,{out}2 4 {fifo}")).expect_status(1).says(&["is a FIFO"]);
    let ports = ctl("show_ports").stdout;
    assert_eq!(ports.matches("pcap:").count(), 1, "{ports}");
    ctl("port_add mem 511").expect_status(1).says(&["uses this number as its drop port; choose 0 to 510"]);
}

/// A refused command leaves files as they are, and no file has two writers, by whichever names.
#[test]
fn refused_ports_and_captures_leave_files_alone() {
    let dir = TempDir::new("files-alone");
    let granted = dir.file("granted");
    fs::create_dir(&granted).unwrap();
    let keep = format!("{granted}/keep");
    fs::write(&keep, "keep").unwrap();
    let port = format!("0@pcap:,{granted}/first.pcap");
    let mut command = p4jet_run(&program("basic_l2"));
    let switch = Switch::start(command.args(["-i", &port, "--control-tcp", "0", "--grant-dir", &granted]));
    let here = |line: &str| run_command(p4jet().args(["ctl", "--socket", switch.socket(), line]));
    // Without p4jet's own client, which sends absolute names: others are relative to the granted directory.
    let tcp = |line: &str| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", switch.port())).unwrap();
        writeln!(stream, "{}", serde_json::json!({ "command": line })).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        answer["error"]["text"].as_str().unwrap_or_default().to_string()
    };
    let refused = |line: &str, why: &str| {
        let text = tcp(line);
        assert!(text.contains(why), "{line}: {text}");
    };
    refused("port_add pcap:,keep 0", "there is already a port 0");
    refused("port_add pcap:,keep 4 .", "a directory");
    here(&format!("port_add pcap:{granted}/none,{keep} 4")).expect_status(1).says(&["No such file"]);
    refused("port_add pcap:,keep 4 keep", "would overwrite a file of port `4@pcap:,keep`");
    refused("port_add pcap:,keep 4 first.pcap", "would overwrite a file of port `0@");
    assert_eq!(fs::read_to_string(&keep).unwrap(), "keep");
    refused("port_add pcap:,first.pcap 4", "which one of them writes");
    here(&format!("capture start 0 {granted}/ok.pcap")).expect_status(0);
    refused("port_add pcap:,ok.pcap 4", "would overwrite a file of port `4@pcap:,ok.pcap`");
    refused("capture start 0 ok.pcap", "ok.pcap is being written already");
    refused("port_add pcap:,keep 4 ok.pcap", "ok.pcap is being written already");
    assert_eq!(fs::read_to_string(&keep).unwrap(), "keep");
    assert_eq!(tcp("port_add pcap:,new.pcap 4"), "");
    fs::hard_link(format!("{granted}/new.pcap"), dir.file("linked")).unwrap();
    for name in [format!("{granted}/new.pcap"), dir.file("linked")] {
        here(&format!("port_add pcap:,{name} 5")).expect_status(1).says(&["which one of them writes"]);
        here(&format!("capture start 0 {name}")).expect_status(1).says(&["would overwrite a file of port"]);
    }
    assert_eq!(tcp("port_remove 4"), "");
    here(&format!("capture start 0 {granted}/new.pcap")).expect_status(0);
}

/// No port, capture or dump is written to a file that the switch itself uses, whichever channel and name are used.
#[test]
fn ports_and_captures_leave_the_files_of_the_switch_alone() {
    let dir = TempDir::new("own-files");
    let granted = dir.file("granted");
    fs::create_dir(&granted).unwrap();
    let file = |name: &str| format!("{granted}/{name}");
    let text = fs::read_to_string(program("basic_l2")).unwrap();
    fs::write(file("part.p4"), "// A part.\n").unwrap();
    fs::write(file("program.p4"), format!("#include \"part.p4\"\n{text}")).unwrap();
    let add = |n: u32| format!("table_add forward set_dest 00:00:00:00:00:{n:02x} => 1\n");
    fs::write(file("commands"), add(1)).unwrap();
    let program = Path::new(&granted).join("program.p4");
    let mut command = p4jet_run(&program);
    command.args(["-i", "0@mem", "--state", &file("state"), "--commands", &file("commands")]);
    let switch = Switch::start(command.args(["--control-tcp", "0", "--grant-dir", &granted]));
    fs::write(file("state.old3"), "damaged").unwrap();
    fs::hard_link(file("state.journal"), dir.file("linked")).unwrap();
    let of_state = "a state file of this switch";
    let own = [
        ("state", of_state),
        ("state.journal", of_state),
        ("state.new", of_state),
        ("state.journal.new", of_state),
        ("state.old", of_state),
        ("state.old3", of_state),
        ("program.p4", "the program"),
        ("part.p4", "a source file of the program"),
        ("commands", "the file of --commands"),
    ];
    let content = |name: &str| fs::read(file(name)).unwrap_or_default();
    let before = own.map(|(name, _)| content(name));
    for (name, what) in own {
        for line in [
            format!("capture start 0 {}", file(name)),
            format!("port_add pcap:,{} 4", file(name)),
            format!("port_add mem 4 {}", file(name)),
        ] {
            let what = format!("{} is {what}", file(name));
            run_command(p4jet().args(["ctl", "--socket", switch.socket(), &line]))
                .expect_status(1)
                .says(&[&what, "to which no port and no capture may write"]);
            let mut stream = TcpStream::connect(format!("127.0.0.1:{}", switch.port())).unwrap();
            writeln!(stream, "{}", serde_json::json!({ "command": line })).unwrap();
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer).unwrap();
            // The journal has two links, which is reason enough over TCP.
            assert!(answer.contains(&what) || answer.contains("hard links"), "{line}: {answer}");
        }
    }
    let capture = format!("capture start 0 {}", dir.file("linked"));
    run_command(p4jet().args(["ctl", "--socket", switch.socket(), &capture]))
        .expect_status(1)
        .says(&[of_state]);
    assert_eq!(own.map(|(name, _)| content(name)), before);
    fs::remove_file(dir.file("linked")).unwrap();
    asked(switch.socket(), add(2).trim());
    let ports = asked(switch.socket(), "show_ports");
    assert!(!ports.contains("pcap:"), "{ports}");
    drop(switch);

    // The prompt, where the log is in a file, and a start.
    let log = dir.file("log");
    let mut command = p4jet_run(&program);
    command.args(["-i", "0@mem", "--no-control", "--stdin", "--state", &file("state")]);
    command.args(["--log", "text", "--log-file", &log]);
    let saved = dir.file("saved");
    let saves = [file("state"), file("state.journal.new"), file("part.p4"), saved.clone()];
    let saves = saves.map(|path| format!("serialize_state {path}\n")).concat();
    let part = fs::read(file("part.p4")).unwrap();
    let lines =
        format!("capture start 0 {log}\nport_add pcap:,{log} 4\n{saves}table_num_entries forward\nstop\n");
    let output = with_input(&mut command, &dir, &lines).expect_status(0);
    for (name, what) in
        [("state", of_state), ("state.journal.new", of_state), ("part.p4", "a source file of the program")]
    {
        let text = format!("{} is {what}", file(name));
        assert!(output.stdout.contains(&text), "{output:?}");
    }
    assert_eq!(output.stdout.matches("to which no command may write").count(), 3, "{output:?}");
    assert_eq!(fs::read(file("part.p4")).unwrap(), part);
    assert!(fs::read_to_string(file("state")).unwrap().contains("\"sum\""), "a dump has no checksums");
    assert!(fs::read_to_string(&saved).unwrap().contains("set_dest"), "{output:?}");
    assert_eq!(output.stdout.matches("is the log file").count(), 2, "{output:?}");
    assert!(output.stdout.contains(": 2\n"), "{output:?}");
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains("forwarding between 1 port"), "{logged}");
    for (more, what) in [
        (["-i".into(), format!("1@pcap:,{}", file("state.journal"))], of_state),
        (["--capture".into(), format!("0@{}", file("state"))], of_state),
        (["--capture".into(), format!("0@{log}")], "the log file"),
        (["--capture".into(), format!("0@{}", file("part.p4"))], "a source file of the program"),
    ] {
        let before = fs::read(file("state")).unwrap();
        let mut command = p4jet_run(&program);
        command.args(["-i", "0@mem", "--state", &file("state"), "--log", "text", "--log-file", &log]);
        run_command(command.args(more)).expect_status(2).says(&[what]);
        assert_eq!(fs::read(file("state")).unwrap(), before);
    }
}

#[test]
fn a_hangup_ends_the_switch_cleanly_and_ignored_commands_are_reported() {
    let dir = TempDir::new("hangup");
    let (state, program) = (dir.file("state"), program("basic_l2"));
    let commands = dir.write("commands", "table_add forward set_dest 00:00:5e:00:53:01 => 1");
    let start = || {
        let mut command = p4jet_run(&program);
        command.args(["--no-control", "--state", &state, "--commands", &commands]);
        // A switch leaves a hangup that its parent ignores ignored, as under `nohup`, which may run these tests too.
        // SAFETY: the function only makes a system call.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        Switch::start(&mut command)
    };
    let switch = start();
    assert!(!switch.printed.iter().any(|line| line.contains("is ignored")));
    assert_eq!(switch.hang_up(), 0);
    let switch = start();
    assert!(switch.printed.iter().any(|line| line.contains("is ignored")), "{:?}", switch.printed);
}

/// A state file that cannot be used ends the start with its name and the reason.
#[test]
fn unusable_state_files_are_refused_by_name() {
    let dir = TempDir::new("unusable-state");
    let other = dir.write("other", "table_add forward set_dest 00:00:5e:00:53:01 => 1\n");
    let no_folder = dir.file("none/state");
    for (file, why) in [
        (&no_folder, format!("there is no folder `{}`", dir.file("none"))),
        (&other, "it is not a p4jet state file".to_string()),
    ] {
        let mut command = p4jet_run(&program("basic_l2"));
        let output = run_command(command.args(["--no-control", "--state", file]));
        assert!((1..=3).contains(&output.status), "{file}: {}", output.status);
        output.says(&[file, &why]);
    }
    assert!(!fs::exists(&no_folder).unwrap());
    assert!(fs::read_to_string(&other).unwrap().starts_with("table_add"), "it is unchanged");
}

#[test]
fn the_default_socket_is_found_and_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new("default");
    let start = || Switch::start(p4jet_run(&program("basic_l2")).env("XDG_RUNTIME_DIR", dir.path()));
    let ctl = || run_command(p4jet().args(["ctl", "switch_info"]).env("XDG_RUNTIME_DIR", dir.path()));
    let one = start();
    assert!(one.socket().starts_with(&dir.file("p4jet/basic_l2-")), "{}", one.socket());
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir.file("p4jet")), mode(one.socket())), (0o700, 0o600));
    // Other tests run switches of the same user, whose sockets are elsewhere.
    let found = ctl();
    if found.status == 0 {
        found.prints(&["basic_l2"]);
    } else {
        found.expect_status(2).says(&["several switches are running, choose one:", one.socket()]);
    }
    let two = start();
    ctl().expect_status(2).says(&[one.socket(), two.socket()]);
}

#[test]
fn programs_are_replaced() {
    let dir = TempDir::new("exchange");
    let switch = router(&dir);
    let socket = switch.socket().to_string();
    let text = fs::read_to_string(program("basic_l2")).unwrap();
    dir.write("new.p4", text.replace(" _drop", " renamed"));
    dir.write("broken.p4", "control nonsense");
    let ctl =
        |line: &str| run_command(p4jet().args(["ctl", "--socket", &socket, line]).current_dir(dir.path()));
    ctl("load broken.p4").expect_status(1).says(&["error[syntax]", "broken.p4:1:17"]);
    ctl("load nowhere.p4").expect_status(1).says(&["cannot read", "nowhere.p4"]);
    ctl("show_actions").expect_status(0).prints(&["ingress._drop "]);
    ctl("load new.p4").expect_status(0);
    ctl("show_actions").prints(&["ingress.renamed "]);
    ctl("port_add mem 4").expect_status(0);
    ctl("port_add mem 4").expect_status(1).says(&["Invalid device manager operation (ERROR): "]);
    ctl("port_add mem 100000").expect_status(1).says(&["port numbers from 0 to 510"]);
    ctl("show_ports").prints(&["    4             mem             UP    "]);
    ctl("port_remove 4").expect_status(0);
    ctl("port_remove 4").expect_status(1);
}

#[test]
fn simple_switch_takes_its_command_line() {
    let dir = TempDir::new("simple_switch");
    fs::create_dir(dir.file("build")).unwrap();
    fs::copy(program("basic_l2"), dir.file("basic_l2.p4")).unwrap();
    dir.write("build/basic_l2.json", r#"{"program": "basic_l2.p4"}"#);
    let frame = common::hex("00005e005301 00005e005302 0800 45");
    dir.write("a_in.pcap", common::pcap(std::slice::from_ref(&frame)));
    dir.write("b_in.pcap", common::pcap(&[]));
    // Port 0 of TCP is any: tests run at the same time.
    let mut command = named("simple_switch");
    command.current_dir(dir.path()).args([
        "-i",
        "0@a",
        "-i",
        "1@b",
        "--use-files",
        "1",
        "--thrift-port",
        "0",
    ]);
    command.args(["--nanolog", "ipc:///nowhere", "build/basic_l2.json", "--", "--enable-swap"]);
    // It waits before it reads its files, which leaves time for entries.
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let port = loop {
        let line = lines.next().expect("it listens").unwrap();
        if let Some(port) = line.strip_prefix("control: 127.0.0.1:") {
            break port.to_string();
        }
        assert!(line.contains("--nanolog") || line.starts_with("control: "), "{line}");
    };
    let entry = "table_add forward set_dest 00:00:5e:00:53:01 => 1\n";
    with_input(named("simple_switch_CLI").args(["--thrift-port", &port, "--strict"]), &dir, entry)
        .expect_status(0);
    let ctl = |line: &str| run_command(p4jet().args(["ctl", "--tcp", &port, line]));
    let start = std::time::Instant::now();
    while !ctl("show_ports").stdout.contains("sent=1;") {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    // It continues after the end of its files.
    ctl("stop").expect_status(0);
    std::thread::spawn(move || lines.for_each(drop));
    assert_eq!(wait(&mut child, "simple_switch").code(), Some(0));
    assert_eq!(common::read_pcap(&dir.file("b_out.pcap")), [frame]);

    run_command(p4jet().args(["simple_switch"]))
        .expect_status(1)
        .says(&["expected a program", "Usage: simple_switch"]);
    run_command(named("simple_switch").arg("--nonsense")).expect_status(1).says(&["Usage: simple_switch"]);
    run_command(named("simple_switch_grpc").arg("--version")).expect_status(0).prints(&["p4jet "]);
    run_command(named("simple_switch").arg("gone.json"))
        .expect_status(1)
        .says(&["it looked for", "../gone.p4"]);
    let dead = run_command(named("simple_switch_CLI").args(["--thrift-port", "9"])).expect_status(1);
    assert!(dead.stdout.starts_with("Could not connect to thrift client on port 9\n"), "{}", dead.stdout);
}

#[test]
fn a_switch_without_a_program_gets_one() {
    let dir = TempDir::new("no_p4");
    let switch = Switch::start(named("simple_switch").args(["--no-p4", "--thrift-port", "0"]));
    fs::copy(program("basic_l2"), dir.file("basic_l2.p4")).unwrap();
    let commands = format!(
        "show_tables\nload_new_config_file {}\nswap_configs\nshow_tables\n",
        dir.file("basic_l2.json")
    );
    let mut cli = named("simple_switch_CLI");
    let output = with_input(cli.args(["--strict", "--thrift-port", switch.port()]), &dir, &commands);
    output.expect_status(0).prints(&["Loading new Json config\n", "Swapping configs\n", "ingress.forward  "]);
}

#[test]
fn hostile_clients_do_not_stop_the_packets() {
    let dir = TempDir::new("hostile");
    let switch = router(&dir);
    let connect = || std::os::unix::net::UnixStream::connect(switch.socket()).unwrap();
    let _half: Vec<_> = (0..40)
        .map(|n| {
            let mut stream = connect();
            stream.write_all(&b"{\"command\":\"help\"}\n{\"command\":\"table_dump forward"[..n]).unwrap();
            stream
        })
        .collect();
    let _flood: Vec<_> = (0..100).map(|_| connect()).collect();
    let tcp = ["ctl", "--tcp", switch.port(), "table_num_entries", "forward"];
    run_command(p4jet().args(tcp)).expect_status(0).prints(&["0\n"]);
}

#[test]
fn output_queues_can_be_added_at_run_time() {
    let dir = TempDir::new("queues");
    let mut command = p4jet();
    command.args(["run", &program("basic_l2").display().to_string(), "--stay", "--control", &dir.file("s")]);
    let switch = Switch::start(&mut command);
    let ctl = |line: &str| {
        let out = run_command(p4jet().args(["ctl", "--socket", switch.socket()]).args(line.split(' ')));
        assert_eq!(out.status, 0, "{line}: {}", out.stderr);
        out.stdout + &out.stderr
    };
    ctl("table_add forward set_dest 02:00:00:00:00:02 => 1");
    assert!(ctl("show_queues").contains("There are no output queues"));
    let said = ctl("set_queue_depth 7 1");
    assert!(!said.contains("without output queues"), "{said}");
    let shown = ctl("show_queues");
    assert!(!shown.contains("without output queues") && !shown.contains("There are no"), "{shown}");
    // Another program has them too, and the entries remain.
    ctl(&format!("load {}", program("basic_l2").display()));
    assert_eq!(ctl("table_num_entries forward"), "1\n");
    let shown = ctl("show_queues");
    assert!(!shown.contains("without output queues") && !shown.contains("There are no"), "{shown}");
}

/// A program that was prepared before queues were configured has them once it runs.
#[test]
fn queues_survive_the_load_of_a_program_prepared_earlier() {
    let dir = TempDir::new("queues-swap");
    let program = program("basic_l2");
    let switch = Switch::start(p4jet_run(&program).args(["--control", &dir.file("s")]));
    let ctl = |line: &str| {
        let out = run_command(p4jet().args(["ctl", "--socket", switch.socket()]).args(line.split(' ')));
        assert_eq!(out.status, 0, "{line}: {}", out.stderr);
        out.stdout + &out.stderr
    };
    ctl(&format!("load_new_config_file {}", program.display()));
    ctl("set_queue_depth 9");
    ctl("swap_configs");
    let shown = ctl("show_queues");
    assert!(shown.contains("  9  ") && !shown.contains("without output queues"), "{shown}");
}

/// A packet is traced with the present entries, and the switch is not affected.
#[test]
fn a_running_switch_traces_without_effect() {
    let dir = TempDir::new("trace-packet");
    let switch = router(&dir);
    let ctl = |line: &str| run_command(p4jet().args(["ctl", "--socket", switch.socket(), line]));
    dir.write("wrong.p4", "control");
    let frame = "00005e005301 00005e005302 0800 45";
    ctl(&format!("trace packet 0 {frame}")).expect_status(0).prints(&["arrives at port 0", "miss"]);
    ctl("table_add forward set_dest 00:00:5e:00:53:01 => 7").expect_status(0);
    ctl(&format!("trace packet 0 {frame}")).expect_status(0).prints(&[
        "hit entry 0x0",
        "leave by port 7",
        "note: the switch has no port 0; no packet arrives there",
        "note: the switch has no port 7; it drops such a packet",
    ]);
    let json = ["ctl", "--socket", switch.socket(), "--json", "trace", "packet", "0", frame];
    run_command(p4jet().args(json)).expect_status(0).prints(&["\"did\":{\"outcome\":\"sent\",\"port\":7"]);
    for (line, why) in [
        ("trace packet 0 012", "the frame has 3 hexadecimal digits"),
        ("trace packet x 01", "is not a port number"),
        ("trace packet 511 01", "uses this number as its drop port; choose 0 to 510"),
        ("trace packet 0", "expected trace packet PORT HEX|LAYERS|CAPTURE"),
        ("trace show 1 --json", "expected trace show [ID]"),
        ("trace packet 0 ip dst=1.2.3", "expected an address such as 10.0.0.1"),
        (
            "trace add ethernet.dstAdr=5",
            "did you mean `hdr.ethernet.dstAddr`? its header fields are `hdr.ethernet.",
        ),
        ("trace add port=7", "the switch has no ports"),
        ("restore wrong.p4", "cannot use state file `wrong.p4`: it is not a p4jet state file"),
        ("trace packt 0 01", "did you mean `packet`?"),
        ("trace add prt=7", "did you mean `port`?"),
        ("trace packet 0 tpc", "tpc: No such file or directory (os error 2): did you mean the layer `tcp`?"),
        ("inject 0 ippp", "ippp: No such file or directory (os error 2): did you mean the layer `ip`?"),
        ("inject 0 ippp dst=1.2.3.4", "unknown layer `ippp`: did you mean `ip`? layers: eth, vlan"),
        ("inject 0 frames", "expected a frame as hexadecimal digits or as layers, or the path of a capture"),
        ("inject 0 tpc", "tpc: No such file or directory (os error 2): did you mean the layer `tcp`?"),
        ("capture start 0 x.pcap bth", "did you mean `both`? expected in, out, both"),
        ("subscrbe digests", "Unknown syntax: subscrbe: did you mean `subscribe`?"),
    ] {
        let said =
            run_command(p4jet().args(["ctl", "--socket", switch.socket(), line]).current_dir(dir.path()));
        let said = said.expect_status(1).says(&[why]);
        // The word was right.
        assert!(why.contains("did you mean") || !said.stderr.contains("did you mean"), "{line}");
    }
    run_command(p4jet().args(["ctl", "--socket", switch.socket(), "subscribe", "--cout", "3"]))
        .expect_status(2)
        .says(&["unknown option `--cout`: did you mean `--count`?"]);
    // Layers, as one argument and as several; a capture, of which the first 100 packets are traced.
    let words = "trace packet 0 eth dst=00:00:5e:00:53:01 / ip dst=1.2.3.4 / tcp dport=80";
    for words in [vec![words], words.split(' ').collect()] {
        run_command(p4jet().args(["ctl", "--socket", switch.socket()]).args(words))
            .expect_status(0)
            .prints(&["packet of 54 bytes arrives at port 0", "leave by port 7"]);
    }
    dir.write("many.pcap", common::pcap(&vec![common::hex(frame); 120]));
    let traced = |extra: &[&str]| {
        let mut command = p4jet();
        command.args(["ctl", "--tcp", switch.port()]).args(extra).args(["trace", "packet", "0", "many.pcap"]);
        run_command(command.current_dir(dir.path())).expect_status(0).stdout
    };
    let text = traced(&[]);
    assert_eq!(text.matches("leave by port 7").count(), 100, "{text}");
    assert!(text.ends_with("The capture has more packets; only the first 100 are traced.\n"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&traced(&["--json"])).unwrap();
    let data = json["data"].as_array().unwrap();
    assert_eq!((data.len(), &data[99]["did"]["port"]), (100, &serde_json::json!(7)));
    let stats = ctl("stats").expect_status(0).stdout;
    assert!(stats.contains("\"received\": 0"), "{stats}");
}

/// Injected packets are treated like those that a port receives: they leave, are captured, and are counted at their ingress
/// port.
#[test]
fn injected_packets_pass_through_a_running_switch() {
    for extra in [&[][..], &["--engine", "interp"], &["--cores", "2"], &["--pipelined=2"]] {
        let dir = TempDir::new("inject");
        let (socket, program, out) = (dir.file("s.sock"), program("basic_l2"), dir.file("out.pcap"));
        let mut run = p4jet_run(&program);
        let out_port = format!("2@pcap:,{out}");
        run.args(["--control", &socket, "--control-tcp", "0", "--frame-max", "2048"]).args(extra);
        run.args(["-i", "1@mem", "-i", &out_port]);
        let switch = Switch::start(&mut run);
        let ctl = |line: &str| run_command(p4jet().args(["ctl", "--socket", &socket, line]));
        ctl("table_add forward set_dest 00:00:5e:00:53:01 => 2").expect_status(0);
        let frame = |last: u8| {
            let mut frame = vec![0, 0, 0x5e, 0, 0x53, 1, 0, 0, 0x5e, 0, 0x53, 2, 8, 0];
            frame.extend([0x45, last]);
            frame
        };
        let injected = ctl("inject 1 00005e005301 00005e005302 0800 4501").expect_status(0).stdout;
        assert_eq!(injected, "sent to port 2: 16 bytes\n", "{extra:?}");
        let injected = ctl("inject wait=500 1 eth dst=00:00:5e:00:53:ff src=00:00:5e:00:53:02 / ip");
        assert!(injected.expect_status(0).stdout.starts_with("dropped: "), "{extra:?}");
        // The client reads a capture, also over TCP.
        let more: Vec<Vec<u8>> = (2..202).map(frame).collect();
        dir.write("more.pcap", common::pcap(&more));
        let tcp = ["ctl", "--tcp", switch.port(), "inject", "1", "more.pcap"];
        run_command(p4jet().args(tcp).current_dir(dir.path()))
            .expect_status(0)
            .prints(&["200 packets injected\n"]);
        for (line, why) in [
            ("inject 1 012", "the frame has 3 hexadecimal digits"),
            ("inject 9 0123", "there is no port 9"),
            ("inject 1 /nowhere.pcap", "cannot open capture /nowhere.pcap"),
            (&format!("inject 9 {}", dir.file("more.pcap")), "more.pcap, frame 1: there is no port 9"),
            ("inject 1", "expected inject PORT HEX"),
            ("inject wait=1s 1 00", "found `wait=1s`, expected wait=0 to wait=60000"),
            (&format!("inject 1 {}", "00".repeat(2049)), "the longest that the switch takes"),
        ] {
            ctl(line).expect_status(1).says(&[why]);
        }
        let deadline = Instant::now() + common::DEADLINE;
        loop {
            let stats = ctl("stats").expect_status(0).stdout;
            let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
            if stats["sent"].as_u64() == Some(201) {
                assert_eq!(stats["received"], 202, "{stats}");
                let ports = stats["ports"].as_array().unwrap();
                let came: Vec<_> =
                    ports.iter().map(|p| (p["port"].as_u64(), p["rx_packets"].as_u64())).collect();
                assert_eq!(came, [(Some(1), Some(202)), (Some(2), Some(0))], "{stats}");
                break;
            }
            assert!(Instant::now() < deadline, "{stats}");
        }
        ctl("port_remove 2").expect_status(0);
        let line = "inject 1 00005e005301 00005e005302 0800 4501";
        let answer = run_command(p4jet().args(["ctl", "--socket", &socket, "--json", line])).expect_status(0);
        let answer: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
        let (left, dropped) = (&answer["data"]["left"], &answer["data"]["dropped"]);
        assert_eq!(
            (left, &dropped["port 2 does not exist"]),
            (&serde_json::json!([]), &1.into()),
            "{answer}"
        );
        let mut expected = vec![frame(1)];
        expected.extend(more);
        assert_eq!(common::read_pcap(&out), expected);
    }
}

/// Returns the answer of a switch to a command over a socket.
fn asked(socket: &str, command: &str) -> String {
    run_command(p4jet().args(["ctl", "--socket", socket]).args(command.split(' '))).stdout
}

#[test]
fn killed_while_entries_change() {
    let dir = TempDir::new("state");
    let (state, socket, program) = (dir.file("state"), dir.file("switch.sock"), program("basic_l2"));
    let start = || Switch::start(p4jet_run(&program).args(["--control", &socket, "--state", &state]));
    let mut answered = 0u32;
    for _ in 0..3 {
        let switch = start();
        let lost = |line: &String| line.contains("journal") || line.contains("not restored");
        assert!(
            !switch.printed.iter().any(|line| lost(line) && !line.contains("is incomplete")),
            "{:?}",
            switch.printed
        );
        let before = asked(&socket, "dump");
        assert_eq!(before.matches("\"entry\"").count() as u32, answered);
        let mut client = Client::unix(Path::new(&socket)).unwrap();
        let adding = std::thread::spawn(move || {
            let mut added = 0;
            for i in answered.. {
                let line =
                    format!("table_add forward set_dest 00:00:00:00:{:02x}:{:02x} => 1", i >> 8, i & 0xff);
                match client.command(&line, true) {
                    Ok(answer) => {
                        assert_eq!(answer.data.unwrap()["handle"], i);
                        added += 1;
                    }
                    Err(_) => break,
                }
            }
            added
        });
        std::thread::sleep(Duration::from_millis(50));
        drop(switch);
        answered += adding.join().unwrap();
        // One more may have been written without an answer.
        let switch = start();
        let there = asked(&socket, "table_num_entries forward").trim().parse::<u32>().unwrap();
        assert!((answered..=answered + 1).contains(&there), "{there} entries, {answered} were answered");
        answered = there;
        let before = asked(&socket, "dump");
        drop(switch);
        let switch = start();
        assert_eq!(asked(&socket, "dump"), before);
        drop(switch);
    }
    assert!(answered > 3, "nothing was added");
}

/// Output queues that a file configures exist at once, like those of a command.
#[test]
fn restored_queues_take_effect() {
    let dir = TempDir::new("restored-queues");
    let (state, dump, socket) = (dir.file("state"), dir.file("dump"), dir.file("switch.sock"));
    let program = program("basic_l2");
    let start =
        |arguments: &[&str]| Switch::start(p4jet_run(&program).args(["--control", &socket]).args(arguments));
    let are_there = || {
        let shown = asked(&socket, "show_queues");
        !shown.is_empty() && !shown.contains("without output queues") && !shown.contains("There are no")
    };
    let switch = start(&["--state", &state]);
    assert!(!are_there());
    asked(&socket, "set_queue_depth 9");
    assert!(are_there());
    asked(&socket, &format!("serialize_state {dump}"));
    drop(switch);
    let switch = start(&["--state", &state]);
    assert!(are_there(), "with --state");
    drop(switch);
    let _switch = start(&[]);
    assert!(!are_there());
    asked(&socket, &format!("restore {dump}"));
    assert!(are_there(), "after restore");
}

/// Limits a resource of a process; `None` means no limit.
pub fn limit(process: u32, resource: libc::__rlimit_resource_t, most: Option<u64>) {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both structures live through the calls.
    unsafe {
        assert_eq!(libc::prlimit(process as i32, resource, std::ptr::null(), &raw mut limits), 0);
        limits.rlim_cur = most.map_or(limits.rlim_max, |most| most.min(limits.rlim_max));
        assert_eq!(libc::prlimit(process as i32, resource, &raw const limits, std::ptr::null_mut()), 0);
    }
}

/// Starts a process with a limit on the length of files. What exceeds it is refused like by a full disk, unless the signal for
/// it ends the process.
fn with_file_limit(command: &mut Command, most: Option<u64>) -> &mut Command {
    let begin = move || {
        // SAFETY: the usual effect of a signal has no handler.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        limit(0, libc::RLIMIT_FSIZE, most);
        Ok(())
    };
    // SAFETY: the function only makes system calls.
    unsafe { command.pre_exec(begin) }
}

/// A full disk, simulated by a limit on the length of files.
#[test]
fn a_full_disk_affects_only_the_state_file() {
    let dir = TempDir::new("full-disk");
    let (state, socket, program) = (dir.file("state"), dir.file("switch.sock"), program("basic_l2"));
    let start = |most| {
        let mut command = p4jet_run(&program);
        Switch::start(with_file_limit(command.args(["--control", &socket, "--state", &state]), most))
    };
    let add = |n: u32| {
        let line = format!("table_add forward set_dest 00:00:00:00:00:{n:02x} => 1");
        let output = run_command(p4jet().args(["ctl", "--socket", &socket]).args(line.split(' ')));
        output.expect_status(0).stderr
    };
    let there = || asked(&socket, "table_num_entries forward").trim().parse::<u32>().unwrap();
    let is_reported = |text: &str| text.contains("cannot write the state file");
    let switch = start(None);
    assert!(!is_reported(&add(1)));
    // The journal has room for its present contents only.
    let journal = fs::metadata(format!("{state}.journal")).unwrap().len();
    limit(switch.child.id(), libc::RLIMIT_FSIZE, Some(journal));
    for n in 2..5 {
        let printed = add(n);
        assert!(is_reported(&printed), "{printed}");
    }
    assert_eq!(there(), 4, "the switch keeps running");
    // It is full, and remains so after a kill and a restart.
    drop(switch);
    let switch = start(Some(16));
    let printed = switch.printed.join("\n");
    assert!(printed.contains("3 changes could not be written"), "{printed}");
    assert!(printed.contains("no change is saved until"), "{printed}");
    assert_eq!(there(), 1);
    assert!(is_reported(&add(5)));
    drop(switch);
    let switch = start(Some(16));
    assert_eq!(there(), 1);
    // With room again, everything is saved from the next change on. The duration of a failed attempt decides the time of the
    // next one.
    limit(switch.child.id(), libc::RLIMIT_FSIZE, None);
    let end = std::time::Instant::now() + Duration::from_secs(60);
    for n in 10.. {
        if !is_reported(&add(n)) {
            break;
        }
        assert!(std::time::Instant::now() < end, "nothing is kept");
        std::thread::sleep(Duration::from_millis(20));
    }
    let dump = asked(&socket, "dump");
    drop(switch);
    let switch = start(None);
    assert_eq!(asked(&socket, "dump"), dump);
    assert!(!switch.printed.iter().any(|line| line.contains("restored: ")), "{:?}", switch.printed);
    // The lost state is kept for inspection.
    assert!(fs::exists(format!("{state}.old")).unwrap());
}

/// Changes that could not be saved until the end are counted, and the exit status tells scripts.
#[test]
fn a_switch_that_ends_on_a_full_disk_reports_the_lost_changes() {
    let dir = TempDir::new("end-full");
    let (state, program) = (dir.file("state"), program("basic_l2"));
    for (changes, status, text) in [
        (0, 0, "the state file holds outdated register values: "),
        (1, 3, "the last change is lost: cannot write the state file: "),
        (3, 3, "3 changes are lost: cannot write the state file: "),
    ] {
        let mut command = p4jet_run(&program);
        let mut switch = Switch::start(command.args(["--state", &state]));
        let full = fs::metadata(format!("{state}.journal")).unwrap().len();
        limit(switch.child.id(), libc::RLIMIT_FSIZE, Some(full.min(fs::metadata(&state).unwrap().len() - 1)));
        for n in 0..changes {
            let line = format!("table_add forward set_dest 00:00:00:00:{changes:02x}:{n:02x} => 1");
            let printed = run_command(p4jet().args(["ctl", "--socket", switch.socket(), &line]));
            printed.expect_status(0).says(&["cannot write the state file"]);
        }
        run_command(p4jet().args(["ctl", "--socket", switch.socket(), "stop"])).expect_status(0);
        assert_eq!(wait(&mut switch.child, "the switch").code(), Some(status), "{changes} changes");
        let printed: Vec<String> = switch.later.iter().collect();
        assert!(printed.iter().any(|line| line.starts_with(text)), "{printed:?}");
    }
}

/// A disk that has room for changes, but not for a new state file: the old journal takes them, even if its last switch was killed
/// before it counted the last change.
#[test]
fn a_nearly_full_disk_keeps_changes_in_the_old_journal() {
    let dir = TempDir::new("nearly-full-disk");
    let (state, socket, program) = (dir.file("state"), dir.file("switch.sock"), program("basic_l2"));
    let journal = format!("{state}.journal");
    let start = |most| {
        let mut command = p4jet_run(&program);
        Switch::start(with_file_limit(command.args(["--control", &socket, "--state", &state]), most))
    };
    let entry = |n: u32| format!("table_add forward set_dest 00:00:00:00:01:{n:02x} => 1");
    let add = |n: u32| {
        let output = run_command(p4jet().args(["ctl", "--socket", &socket]).args(entry(n).split(' ')));
        output.expect_status(0).stderr
    };
    let there = || asked(&socket, "table_num_entries forward").trim().parse::<u32>().unwrap();
    let switch = start(None);
    (0..100).for_each(|n| assert_eq!(add(n), ""));
    drop(switch);
    // This start writes a state file with these entries.
    let switch = start(None);
    let before = fs::read(&journal).unwrap();
    assert_eq!(add(100), "");
    drop(switch);
    let first_line = before.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let mut uncounted = before[..first_line].to_vec();
    uncounted.extend_from_slice(&fs::read(&journal).unwrap()[first_line..]);
    fs::write(&journal, uncounted).unwrap();

    let room = fs::metadata(&journal).unwrap().len() + 1500;
    assert!(fs::metadata(&state).unwrap().len() > room);
    for run in 0..2 {
        let switch = start(Some(room));
        let printed = switch.printed.join("\n");
        assert!(printed.contains("changes are appended to the old journal as long as they fit"), "{printed}");
        assert_eq!(there(), 101 + run);
        assert_eq!(add(101 + run), "");
        drop(switch);
    }
    let switch = start(Some(room));
    let refused = (103..).find(|n| !add(*n).is_empty()).unwrap();
    assert!((104..120).contains(&refused), "{refused}");
    drop(switch);
    let switch = start(None);
    assert_eq!(there(), refused);
    let printed = switch.printed.join("\n");
    assert!(printed.contains("1 change could not be written"), "{printed}");
}

/// A program with a table of each structure; the first byte of a packet selects the table.
const TABLES: &str = r#"#include <v1model.p4>
header key_t { bit<8> which; bit<32> a; bit<64> b; bit<8> rest; }
struct headers { key_t key; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.key); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control In(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    action out_by(bit<9> port) { sm.egress_spec = port; }
    table small { key = { hdr.key.a : exact; } actions = { out_by; drop; } default_action = drop(); size = 100000; }
    table hashed { key = { hdr.key.b : exact; hdr.key.a : exact; } actions = { out_by; drop; } default_action = drop(); size = 100000; }
    table routes { key = { hdr.key.a : lpm; } actions = { out_by; drop; } default_action = drop(); size = 100000; }
    table wide { key = { hdr.key.b : lpm; } actions = { out_by; drop; } default_action = drop(); size = 100000; }
    table rules { key = { hdr.key.b : ternary; } actions = { out_by; drop; } default_action = drop(); size = 100000; }
    @name("members") action_profile(16) members;
    table indirect {
        key = { hdr.key.b : ternary; } actions = { out_by; drop; } default_action = drop(); size = 100000;
        implementation = members;
    }
    apply {
        if (hdr.key.which == 0) { small.apply(); }
        else if (hdr.key.which == 1) { hashed.apply(); }
        else if (hdr.key.which == 2) { routes.apply(); }
        else if (hdr.key.which == 3) { wide.apply(); }
        else if (hdr.key.which == 4) { rules.apply(); }
        else { indirect.apply(); }
    }
}
control Eg(inout headers hdr, inout meta m, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.key); } }
V1Switch(P(), V(), In(), Eg(), C(), D()) main;
"#;

/// Spreads entries over the key.
fn spread(entry: u32) -> (u32, u64) {
    let a = entry.wrapping_mul(0x9e37_79b1);
    (a, u64::from(entry).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A switch that runs [`TABLES`] with little memory.
struct Short {
    switch: Switch,
    client: Client,
    dir: TempDir,
}

impl Short {
    fn start() -> Short {
        let dir = TempDir::new("memory");
        dir.write("tables.p4", TABLES);
        Short::of(dir)
    }

    /// Runs `tables.p4` in this folder.
    fn of(dir: TempDir) -> Short {
        let socket = dir.file("switch.sock");
        let mut command = p4jet();
        command.args(["run", &dir.file("tables.p4"), "--no-adapt", "--stay", "--control", &socket]);
        let switch = Switch::start(command.args(["-i", "1@mem", "-i", "2@mem"]));
        let client = Client::unix(Path::new(&socket)).unwrap();
        let mut short = Short { switch, client, dir };
        // The client gets its thread and the compiler ends its own before memory becomes short.
        short.number("stats", Some("received"));
        let compiles = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", short.switch.child.id())).unwrap();
            let mut names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
            names.any(|name| name.trim() == "compiler")
        };
        let end = Instant::now() + common::DEADLINE;
        while compiles() {
            assert!(Instant::now() < end, "the compiler has not ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        short
    }

    /// A client whose request was too long for the available memory got an error and disconnected.
    fn connect(&mut self) {
        self.client = Client::unix(Path::new(self.switch.socket())).expect("control goes on");
    }

    /// Limits the process to its present address space plus this many MiB; `None` lifts the limit.
    fn leave_free(&self, mib: Option<u64>) {
        let used = self.memory("VmSize:");
        limit(self.switch.child.id(), libc::RLIMIT_AS, mib.map(|mib| used + (mib << 20)));
    }

    /// A figure of the process's status, in bytes.
    fn memory(&self, figure: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.switch.child.id())).unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix(figure));
        let size = size.unwrap_or_else(|| panic!("the switch has ended; {}\n{status}", self.said()));
        let kib: u64 = size.split_whitespace().next().unwrap().parse().unwrap();
        kib << 10
    }

    /// What the switch says in two seconds.
    fn said(&self) -> String {
        let lines = std::iter::from_fn(|| self.switch.later.recv_timeout(Duration::from_secs(2)).ok());
        format!("it said:\n{}", lines.take(100).collect::<Vec<_>>().join("\n"))
    }

    fn number(&mut self, line: &str, of: Option<&str>) -> u64 {
        let answer = self.client.command(line, true).expect("control answers");
        let data = answer.data.unwrap_or_else(|| panic!("{line}: {:?}", answer.error));
        of.map_or(&data, |of| &data[of]).as_u64().unwrap()
    }

    fn entries(&mut self, table: &str) -> u64 {
        self.number(&format!("table_num_entries {table}"), None)
    }

    /// Injects a hundred packets with keys among the first `entries` entries; returns how many leave the switch.
    fn packets_sent(&mut self, table: usize, entries: u32) -> u64 {
        let (received, sent) = (self.number("stats", Some("received")), self.number("stats", Some("sent")));
        for i in 0..100 {
            let (a, b) = spread(i * entries / 100);
            let answer = self.client.command(&format!("inject 1 {table:02x}{a:08x}{b:016x}00"), false);
            assert!(answer.expect("control answers").ok);
        }
        let end = Instant::now() + Duration::from_secs(60);
        while self.number("stats", Some("received")) < received + 100
            || self.number("stats", Some("waiting")) > 0
        {
            assert!(Instant::now() < end, "the packets do not pass");
        }
        self.number("stats", Some("sent")) - sent
    }
}

/// If memory runs out in a file of commands, the whole file fails, control and packets see none of it, and the switch
/// continues.
#[test]
fn without_memory_a_file_leaves_nothing() {
    let mut refused = [0; 6];
    for (which, (table, entries)) in [
        ("small", 50_000),
        ("hashed", 50_000),
        ("routes", 20_000),
        ("wide", 20_000),
        ("rules", 60_000),
        ("indirect", 60_000),
    ]
    .into_iter()
    .enumerate()
    {
        let line = |entry: u32| {
            let (a, b) = spread(entry);
            match table {
                "small" => format!("table_add small out_by {a:#x} => 2\n"),
                "hashed" => format!("table_add hashed out_by {b:#x} {a:#x} => 2\n"),
                "routes" => format!("table_add routes out_by {a:#x}/32 => 2\n"),
                "wide" => format!("table_add wide out_by {b:#x}/64 => 2\n"),
                "rules" => format!("table_add rules out_by {b:#x}&&&0xffffffffffffffff => 2 {}\n", entry + 1),
                _ => format!("table_indirect_add indirect {b:#x}&&&0xffffffffffffffff => 0 {}\n", entry + 1),
            }
        };
        let member = if table == "indirect" { "act_prof_create_member members out_by 2\n" } else { "" };
        let mut short = Short::start();
        let file = member.to_string() + &(0..entries).map(line).collect::<String>();
        let undo = |short: &mut Short| {
            assert!(short.client.command(&format!("table_clear {table}"), false).unwrap().ok);
            // Nothing holds it any more.
            let gone = |line: &str, short: &mut Short| short.client.command(line, false).unwrap().ok;
            assert!(member.is_empty() || gone("act_prof_delete_member members 0", short));
        };
        // Entries that were loaded and deleted leave memory behind, so the smallest amount comes first.
        for free_mib in [8, 16, 32, 64, 96, 128, 256, 512] {
            short.leave_free(Some(free_mib));
            let loaded = match short.client.load("file", &file) {
                Ok(loaded) => loaded.map(drop).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            short.leave_free(None);
            short.connect();
            let (there, sent) = (short.entries(table), short.packets_sent(which, entries));
            match loaded {
                Ok(_) => {
                    assert_eq!((there, sent), (entries.into(), 100), "{table}, {free_mib} MiB");
                    undo(&mut short);
                }
                Err(error) => {
                    refused[which] += 1;
                    assert!(error.contains("no memory"), "{table}, {free_mib} MiB: {error}");
                    assert!(!error.contains("undoing failed"), "{table}, {free_mib} MiB: {error}");
                    assert_eq!((there, sent), (0, 0), "{table}, {free_mib} MiB: half applied");
                }
            }
        }
        short.client.load("file", &file).unwrap().unwrap();
        assert_eq!((short.entries(table), short.packets_sent(which, entries)), (entries.into(), 100));
    }
    // Tables of prefixes have their memory from the start.
    let [small, hashed, _, _, rules, indirect] = refused;
    let all = [small, hashed, rules, indirect].iter().all(|refused| *refused > 0);
    assert!(all, "it never ran out of memory: {refused:?}");
}

/// A program is compiled only if there is certainly enough memory: otherwise the switch continues with its present one.
#[test]
fn without_memory_a_load_is_refused() {
    let mut short = Short::start();
    let load = |short: &mut Short| {
        short.client.command(&format!("load {}", program("basic_l2").display()), false).unwrap()
    };
    short.leave_free(Some(900));
    let error = load(&mut short).error.unwrap();
    assert_eq!(error.code.as_deref(), Some("NO_MEMORY"), "{}", error.text);
    assert!(error.text.contains("1 compilation may need 1024 MiB"), "{}", error.text);
    assert_eq!(short.entries("small"), 0, "the old program runs");
    short.leave_free(None);
    assert!(load(&mut short).ok);
    assert_eq!(short.entries("forward"), 0);
}

/// A program that compiles, but whose state finds no memory, is not at fault: the code says what is missing.
#[test]
fn a_load_whose_state_finds_no_memory_says_so() {
    let mut short = Short::start();
    let apply = "small.apply(); }\n        else if (hdr.key.which == 1) { hashed.apply(); }";
    let write = format!("r.write(0, 1); {apply}");
    let program = TABLES
        .replace(
            "    apply {\n        if (hdr.key.which == 0) {",
            "    register<bit<64>>(0x8000000) r;\n    apply {\n        if (hdr.key.which == 0) {",
        )
        .replace(apply, &write);
    assert!(
        program.contains("register") && program.contains("r.write"),
        "the register is in the program:\n{program}"
    );
    let large = short.dir.write("large.p4", program);
    let load = |short: &mut Short| short.client.command(&format!("load {large}"), false).unwrap();
    // The compilation gets its gibibyte, the register of a gibibyte does not.
    short.leave_free(Some(1100));
    let error = load(&mut short).error.unwrap();
    assert_eq!(error.code.as_deref(), Some("NO_MEMORY"), "{}", error.text);
    assert!(error.text.contains("which the system refuses"), "{}", error.text);
    assert_eq!(short.entries("small"), 0, "the old program runs");
    short.leave_free(None);
    assert!(load(&mut short).ok);
}

/// If memory runs out in `restore`, the old state remains, and there is an answer.
#[test]
fn without_memory_a_restore_changes_nothing() {
    let mut short = Short::start();
    let line = |entry: u32| {
        let (_, b) = spread(entry);
        format!("table_add rules out_by {b:#x}&&&0xffffffffffffffff => 2 {}\n", entry + 1)
    };
    let file: String = (0..5_000).map(line).collect();
    short.client.load("file", &file).unwrap().unwrap();
    let dump = short.client.command("dump", false).unwrap().output;
    let mut refused = 0;
    for free_mib in [8, 16, 32, 64, 128, 256] {
        short.leave_free(Some(free_mib));
        let restore = Request::Restore { text: dump.clone() };
        let error = match short.client.ask(&restore) {
            Ok(answer) => answer.error.map(|error| error.text),
            Err(error) => Some(error.to_string()),
        };
        short.leave_free(None);
        short.connect();
        if let Some(error) = error {
            refused += 1;
            assert!(error.contains("no memory"), "{free_mib} MiB: {error}");
        }
        assert_eq!((short.entries("rules"), short.packets_sent(4, 5_000)), (5_000, 100), "{free_mib} MiB");
    }
    assert!(refused > 0, "it never ran out of memory");
}

/// If memory runs out for a long answer or for the results of a batch, that request fails and the switch continues.
#[test]
fn without_memory_long_answers_and_batches_are_refused() {
    let mut short = Short::start();
    let line = |entry: u32| format!("table_add small out_by {:#x} => 2\n", spread(entry).0);
    let file: String = (0..30_000).map(line).collect();
    short.client.load("file", &file).unwrap().unwrap();
    let entries = short.entries("small");
    let updates = |first: u32| -> Vec<String> {
        let update = |entry: u32| {
            let key = spread(entry).0;
            format!(
                r#"{{"insert":{{"table":"small","key":["{key:#x}"],"do":{{"action":"out_by","params":["2"]}}}}}}"#
            )
        };
        (first..first + 20_000).map(update).collect()
    };
    let batch = format!("{{\"write\":[{}],\"atomic\":true}}\n", updates(100_000).join(","));
    let mut refused = 0;
    for free_mib in [1, 4, 16, 24, 32] {
        for line in ["{\"command\":\"dump\"}\n", "{\"command\":\"table_dump small\",\"data\":true}\n", &batch]
        {
            // The connection gets its thread before memory becomes short.
            let mut raw = Raw::connect(short.switch.socket());
            raw.ask("{\"command\":\"table_num_entries small\"}\n");
            short.leave_free(Some(free_mib));
            let answer = raw.ask(line);
            short.leave_free(None);
            short.connect();
            if answer.contains("\"ok\":false") {
                refused += 1;
                assert!(answer.contains("no memory"), "{free_mib} MiB: {answer}");
                assert_eq!(short.entries("small"), entries, "{free_mib} MiB");
            }
        }
    }
    assert!(refused > 0, "it never ran out of memory");
}

/// A change of a whole array takes no memory for cells that are 0. For others it takes memory before anything changes.
#[test]
fn without_memory_a_change_of_a_large_array_is_refused() {
    let dir = TempDir::new("large-arrays");
    let mut text = TABLES.to_string();
    for (old, new) in [
        ("struct meta { }", "struct meta { bit<32> colour; }"),
        (
            "    action drop()",
            "    counter(8388608, CounterType.packets) unused; meter(1048576, MeterType.packets) used;
    register<bit<2048>>(16384) broad;
    action drop()",
        ),
        (
            "        if (hdr.key.which == 0)",
            "        unused.count(32w0); used.execute_meter(32w0, m.colour); broad.write(32w0, 1);
        if (hdr.key.which == 0)",
        ),
    ] {
        assert!(text.contains(old));
        text = text.replacen(old, new, 1);
    }
    dir.write("tables.p4", &text);
    let mut short = Short::of(dir);
    // A batch keeps the former state until it is complete.
    let mut set_twice = |rates: &str, free_mib| {
        let mut raw = Raw::connect(short.switch.socket());
        raw.ask("{\"command\":\"table_num_entries small\"}\n");
        short.leave_free(free_mib);
        let set = format!(r#"{{"set_meter_array":{{"meter":"used","rates":{rates}}}}}"#);
        let answer = raw.ask(&format!("{{\"write\":[{set},{set}]}}\n"));
        short.leave_free(None);
        short.connect();
        // The new client gets its thread before memory becomes short.
        short.number("stats", Some("received"));
        answer
    };
    let done = set_twice(r#"["1:2","3:4"]"#, None);
    assert!(done.contains("\"ok\":true"), "{done}");
    let refused = set_twice(r#"["5:6","7:8"]"#, Some(16));
    assert!(refused.contains("no memory: the former state"), "{refused}");
    let done = set_twice(r#"["5:6","7:8"]"#, Some(256));
    assert!(done.contains("\"ok\":true"), "{done}");
    let mut ok = |line: &str, free_mib| {
        short.leave_free(free_mib);
        let answer = short.client.command(line, false).unwrap_or_else(|e| panic!("{line}: {e}"));
        short.leave_free(None);
        answer.error.map(|error| error.text)
    };
    assert_eq!(ok("counter_reset unused", Some(16)), None, "all cells are 0");
    // What a command reads is text, JSON, and the line that is sent.
    for cell in 0..1000 {
        assert_eq!(ok(&format!("register_write broad {cell} {}", "9".repeat(600)), None), None);
    }
    for line in ["register_read broad", "dump"] {
        let error = ok(line, Some(4)).expect("a long answer does not fit");
        assert!(error.contains("no memory: this request with its answer"), "{line}: {error}");
        assert_eq!(ok(line, None), None);
    }
}

/// When no memory is left, requests of all kinds fail or succeed one by one, and the switch continues.
#[test]
fn without_memory_small_requests_do_not_end_the_switch() {
    let mut short = Short::start();
    let (mut refused, mut done) = (0, 0);
    for free_kib in [0, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384] {
        let data = short.memory("VmData:");
        limit(short.switch.child.id(), libc::RLIMIT_DATA, Some(data + (free_kib << 10)));
        for number in 0..40 {
            let key = (free_kib << 8) + number;
            for line in [
                &format!("table_add small out_by {key} => 2"),
                &format!("mc_node_create {} 1 2 3", number + 1),
                "stats",
                "show_tables",
                "dump",
                &format!("inject 1 {}", "00".repeat(200)),
                &format!("port_add mem {}", number + 3),
                &format!("port_remove {}", number + 3),
            ] {
                let answer = short.client.command(line, true);
                match answer.unwrap_or_else(|e| panic!("{free_kib} KiB: {line}: {e}; {}", short.said())).ok {
                    true => done += 1,
                    false => refused += 1,
                }
            }
        }
        limit(short.switch.child.id(), libc::RLIMIT_DATA, None);
    }
    assert!(refused > 100 && done > 100, "{refused} requests were refused, and {done} carried out");
    assert!(short.number("stats", Some("received")) > 0);
}

/// A connection that sends lines.
struct Raw(BufReader<UnixStream>);

impl Raw {
    fn connect(socket: &str) -> Raw {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Raw(BufReader::new(stream))
    }

    fn ask(&mut self, line: &str) -> String {
        self.0.get_mut().write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty(), "the switch left without an answer");
        answer
    }
}

#[test]
fn without_threads_a_program_is_refused() {
    let program = program("basic_l2");
    let mut command = p4jet();
    command.arg("check").arg(&program);
    // SAFETY: the function only makes system calls. The limit applies only to users other than root.
    unsafe {
        command.pre_exec(|| {
            if libc::geteuid() == 0 && (libc::setgid(65_534) != 0 || libc::setuid(65_534) != 0) {
                return Err(std::io::Error::last_os_error());
            }
            limit(0, libc::RLIMIT_NPROC, Some(1));
            Ok(())
        });
    }
    match command.stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(_) => {}
        Err(error) => {
            eprintln!("SKIPPED: no other user may run the binary: {error}");
            return;
        }
    }
    run_command(&mut command).expect_status(1).says(&["no thread to check the program", "ulimit -u"]);
}

const LOGGED: &str = r#"#include <v1model.p4>
header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header tag_t { bit<8> kind; bit<8> turns; }
struct headers { eth_t eth; tag_t tag; }
struct meta { bit<32> n; @field_list(1) bit<8> kept; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {
    state start { transition parse_eth; }
    state parse_eth { p.extract(hdr.eth); transition select(hdr.eth.type) { 0x800: parse_tag; default: accept; } }
    state parse_tag { p.extract(hdr.tag); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control In(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    register<bit<32>>(1) seen;
    action drop() { mark_to_drop(sm); }
    action forward(bit<9> port) { sm.egress_spec = port; log_msg("packet {} to {}", { m.n, port }); }
    action flood() { sm.mcast_grp = 1; }
    action mirror() { sm.egress_spec = 2; clone_preserving_field_list(CloneType.I2E, 5, 1); }
    action again() { sm.egress_spec = 2; m.kept = 1; resubmit_preserving_field_list(1); }
    table t {
        key = { hdr.eth.dst : exact; }
        actions = { drop; forward; flood; mirror; again; }
        default_action = drop();
    }
    apply {
        seen.read(m.n, 0);
        m.n = m.n + 1;
        seen.write(0, m.n);
        if (hdr.tag.isValid() && m.kept == 0) { t.apply(); } else { sm.egress_spec = 3; }
    }
}
control Eg(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    apply {
        if (sm.egress_port == sm.ingress_port) { mark_to_drop(sm); }
        if (hdr.tag.turns > 0) { hdr.tag.turns = hdr.tag.turns - 1; recirculate_preserving_field_list(0); }
    }
}
control C(inout headers hdr, inout meta m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), In(), Eg(), C(), D()) main;
"#;

/// Returns lines of bmv2's log, by packet and copy; those without are messages of the program.
fn logged(text: &str) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let Some((prefix, rest)) = line.split_once("] [thread ") else {
            let last: &mut (String, String) = lines.last_mut().expect("a line before");
            last.1 += "\n";
            last.1 += line;
            continue;
        };
        // [12:34:56.789] [bmv2] [D
        let (time, level) = prefix.split_once("] [bmv2] [").expect("bmv2's line");
        let digits: Vec<bool> = time.chars().map(|c| c.is_ascii_digit()).collect();
        assert_eq!(digits.iter().filter(|digit| **digit).count(), 9, "{line}");
        assert!(time.len() == 13 && ["T", "D", "I", "W", "E"].contains(&level), "{line}");
        let (thread, rest) = rest.split_once("] ").expect("a thread");
        assert!(thread.parse::<u32>().is_ok(), "{line}");
        match rest.strip_prefix('[').and_then(|rest| rest.split_once("] [cxt 0] ")) {
            Some((packet, text)) => lines.push((packet.to_string(), text.to_string())),
            None => lines.push((String::new(), rest.to_string())),
        }
    }
    lines
}

/// Reads the log until it has this line.
fn log_until(path: &str, line: &str) -> Vec<(String, String)> {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(path).unwrap();
        // The last line may not be whole yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        if whole.contains(line) {
            return logged(whole);
        }
        assert!(start.elapsed() < Duration::from_secs(30), "no `{line}` in:\n{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn simple_switch_logs_packets_as_bmv2_does() {
    let dir = TempDir::new("packet_log");
    let program = dir.write("logged.p4", LOGGED);
    let mut command = named("simple_switch");
    command.args(["--thrift-port", "0", "--log-file", &dir.file("s"), "--log-flush", &program]);
    let ports = (1..=4).map(|port| format!("{port}@mem"));
    let switch = Switch::start(command.args(ports.flat_map(|port| ["-i".to_string(), port])));
    let ctl = |line: &str| run_command(p4jet().args(["ctl", "--tcp", switch.port(), line])).expect_status(0);
    for line in [
        "table_add t forward 00:00:00:00:00:01 => 3",
        "table_add t flood 00:00:00:00:00:02 =>",
        "table_add t mirror 00:00:00:00:00:03 =>",
        "table_add t again 00:00:00:00:00:04 =>",
        "mc_mgrp_create 1",
        "mc_node_create 0 1 2",
        "mc_node_associate 1 0",
        "mirroring_add 5 4",
    ] {
        ctl(line);
    }
    let log = dir.file("s.txt");
    let inject = |dst: u8, tag: &str, line: &str| {
        ctl(&format!("inject 1 0000000000{dst:02x}000000000009{tag}"));
        log_until(&log, line)
    };
    let of = |lines: &[(String, String)], packet: &str| -> Vec<String> {
        let lines = lines.iter().filter(|(of, _)| of == packet);
        // The place in the program, which bmv2 also prints, precedes some of the text.
        lines
            .map(|(_, text)| text.split_once("logged.p4(").map_or(text.clone(), |(_, text)| text.to_string()))
            .collect()
    };
    let has = |lines: &[String], wanted: &[&str]| {
        let mut rest = lines.iter();
        for wanted in wanted {
            assert!(
                rest.any(|line| line == wanted),
                "no `{wanted}`, or not in this order:\n{}",
                lines.join("\n")
            );
        }
    };

    let lines = inject(1, "08004500", "[0.0] [cxt 0] Transmitting packet of size 16 out of port 3\n");
    let key = |name: &str, text: &str| format!("* {name:<20}: {text}");
    let looked_up = format!("Looking up key:\n{}\n", key("hdr.eth.dst", "000000000001"));
    let entry = key("hdr.eth.dst", "EXACT     000000000001");
    let entry = format!("Dumping entry 0\nMatch key:\n{entry}\nAction entry: In.forward - 3,\n");
    has(
        &of(&lines, "0.0"),
        &[
            "Processing packet received on port 1",
            "Parser 'parser': start",
            "Parser 'parser' entering state 'start'",
            "Parser state 'start' has no switch, going to default next state",
            "Parser 'parser' entering state 'parse_eth'",
            "Extracting header 'eth'",
            "Parser state 'parse_eth': key is 0800",
            "Parser 'parser' entering state 'parse_tag'",
            "Extracting header 'tag'",
            "Parser state 'parse_tag' has no switch, going to default next state",
            "Parser 'parser': end",
            "Pipeline 'ingress': start",
            "26) Primitive m.n = 1",
            "28) Condition \"hdr.tag.isValid() && m.kept == 0\" is true",
            "Applying table 'In.t'",
            &looked_up,
            "Table 'In.t': hit with handle 0",
            &entry,
            "Action entry is In.forward - 3,",
            "Action In.forward",
            "15) Primitive standard_metadata.egress_spec = 3",
            "Pipeline 'ingress': end",
            "Egress port is 3",
            "Pipeline 'egress': start",
            "33) Condition \"standard_metadata.egress_port == standard_metadata.ingress_port\" is false",
            "Pipeline 'egress': end",
            "Deparser 'deparser': start",
            "Deparsing header 'eth'",
            "Deparsing header 'tag'",
            "Deparser 'deparser': end",
            "Transmitting packet of size 16 out of port 3",
        ],
    );
    assert_eq!(of(&lines, ""), ["packet 1 to 3"]);

    // A miss, and a drop at the end of ingress. The register has only what the previous packet wrote.
    let lines = inject(9, "08004500", "[1.0] [cxt 0] Dropping packet at the end of ingress\n");
    has(
        &of(&lines, "1.0"),
        &[
            "26) Primitive m.n = 2",
            "Table 'In.t': miss",
            "Action entry is In.drop - ",
            "Action In.drop",
            "Pipeline 'ingress': end",
            "Egress port is 511",
            "Dropping packet at the end of ingress",
        ],
    );

    // Multicast: each replica is a copy with its own number; one returns to its port and is dropped in egress.
    let lines = inject(2, "08004500", "[2.2] [cxt 0] Transmitting packet of size 16 out of port 2\n");
    has(
        &of(&lines, "2.0"),
        &[
            "Action In.flood",
            "Multicast requested for packet",
            "Replicating packet on port 1",
            "Replicating packet on port 2",
        ],
    );
    has(
        &of(&lines, "2.1"),
        &["Pipeline 'egress': start", "Pipeline 'egress': end", "Dropping packet at the end of egress"],
    );

    // A clone, which is parsed again.
    let lines = inject(3, "08004500", "[3.1] [cxt 0] Transmitting packet of size 16 out of port 4\n");
    has(
        &of(&lines, "3.0"),
        &[
            "Cloning packet at ingress",
            "Cloning packet to egress port 4",
            "Egress port is 2",
            "Transmitting packet of size 16 out of port 2",
        ],
    );
    has(&of(&lines, "3.1"), &["Extracting header 'eth'", "Pipeline 'egress': start"]);

    let lines = inject(4, "08004500", "[4.1] [cxt 0] Transmitting packet of size 16 out of port 3\n");
    has(&of(&lines, "4.0"), &["Action In.again", "Resubmitting packet"]);
    let lines_of_copy = of(&lines, "4.1");
    has(&lines_of_copy, &["Parser 'parser': start", "Egress port is 3"]);

    let lines = inject(1, "08004501", "[5.1] [cxt 0] Transmitting packet of size 16 out of port 3\n");
    has(&of(&lines, "5.0"), &["Pipeline 'egress': end", "Recirculating packet"]);

    // Too short for a header that the parser extracts.
    let lines = inject(1, "0800", "[6.0] [cxt 0] Transmitting packet of size 14 out of port 3\n");
    has(&of(&lines, "6.0"), &["Exception while parsing: PacketTooShort", "Parser 'parser': end"]);
    ctl("table_add t forward 00:00:00:00:00:05 => 7");
    inject(5, "08004500", "] Transmitting packet of size 16 out of port 7, which does not exist\n");
    ctl("stop");
    assert_eq!(switch.status(), 0);
}

/// More packets than a log without a reader can hold: all are forwarded, and the log reports how many are missing.
#[test]
fn an_overloaded_packet_log_counts_its_losses() {
    const PACKETS: usize = 20_000;
    let dir = TempDir::new("packet_log_full");
    let program = dir.write("logged.p4", LOGGED);
    // By tag 0 all are sent to port 3.
    let frame = common::hex("000000000001 000000000009 0806");
    dir.write("a_in.pcap", common::pcap(&vec![frame; PACKETS]));
    dir.write("b_in.pcap", common::pcap(&[]));
    let mut command = named("simple_switch");
    command.current_dir(dir.path()).args([
        "-i",
        "1@a",
        "-i",
        "3@b",
        "--use-files",
        "0",
        "--thrift-port",
        "0",
    ]);
    let mut switch = Switch::start(command.args(["--log-console", &program]));
    let port = switch.port().to_string();
    let ctl = |line: &str| run_command(p4jet().args(["ctl", "--tcp", &port, line])).expect_status(0).stdout;
    let start = Instant::now();
    while !ctl("show_ports").contains(&format!("sent={PACKETS};")) {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", ctl("show_ports"));
        std::thread::sleep(Duration::from_millis(20));
    }
    // Reading starts only now.
    let (mut have, mut lost) = (0, 0);
    let stdout = BufReader::new(switch.child.stdout.take().unwrap());
    let (to, lines) = mpsc::channel();
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(|line| drop(to.send(line))));
    while have + lost < PACKETS {
        let line = lines.recv_timeout(Duration::from_secs(60));
        let line =
            line.unwrap_or_else(|error| panic!("{error}: the log has {have} packets, and lost {lost}"));
        have += usize::from(line.ends_with("] [cxt 0] Processing packet received on port 1"));
        if let Some((before, _)) = line.split_once(" packets and copies are not logged") {
            lost += before.rsplit(' ').next().unwrap().parse::<usize>().unwrap();
        }
    }
    assert!(have > 1000 && lost > 1000 && have + lost == PACKETS, "{have} and {lost}");
    ctl("stop");
    assert_eq!(switch.status(), 0);
}

/// A full disk affects only the log.
#[test]
fn a_packet_log_on_a_full_disk_does_not_stop_the_switch() {
    let dir = TempDir::new("packet_log_disk");
    std::os::unix::fs::symlink("/dev/full", dir.file("s.txt")).unwrap();
    let program = dir.write("logged.p4", LOGGED);
    let mut command = named("simple_switch");
    command.args([
        "--thrift-port",
        "0",
        "--log-file",
        &dir.file("s"),
        "-i",
        "1@mem",
        "-i",
        "3@mem",
        &program,
    ]);
    let switch = Switch::start(&mut command);
    let ctl = |line: &str| run_command(p4jet().args(["ctl", "--tcp", switch.port(), line])).expect_status(0);
    for _ in 0..10 {
        ctl("inject 1 0000000000010000000000090806");
    }
    ctl("show_ports").prints(&["sent=10;"]);
    ctl("stop");
    assert_eq!(switch.status(), 0);
}

/// Frames that start with 7 leave by port 1, others by port 0.
const BY_FIRST_BYTE: &str = "#include <core.p4>
#include <v1model.p4>
header first_t { bit<8> byte; }
struct H { first_t first; }
struct M {}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t sm) {
    state start { p.extract(h.first); transition accept; }
}
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t sm) {
    apply { if (h.first.byte == 7) { sm.egress_spec = 1; } else { sm.egress_spec = 0; } }
}
control E(inout H h, inout M m, inout standard_metadata_t sm) { apply {} }
control C(inout H h, inout M m) { apply {} }
control D(packet_out p, in H h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

/// There is no reader for the output of port 1, so its worker waits. Statistics are still reported, other commands are
/// refused, and SIGTERM ends the switch.
#[test]
fn a_stuck_worker_holds_up_neither_commands_nor_the_end() {
    let dir = TempDir::new("stuck");
    let (fifo, socket) = (dir.file("fifo"), dir.file("switch.sock"));
    let program = dir.write("by_first_byte.p4", BY_FIRST_BYTE);
    let input = dir.write("in.pcap", common::pcap(&vec![vec![0; 100]; 10]));
    let many = dir.write("many.pcap", common::pcap(&vec![vec![7; 1000]; 1000]));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The other end is open, and full after 64 frames.
    let other_end = fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let ports = [format!("0@pcap:{input},{}", dir.file("out.pcap")), format!("1@pcap:,{fifo}")];
    let switch = Switch::start(p4jet_run(Path::new(&program)).args([
        "-i",
        &ports[0],
        "-i",
        &ports[1],
        "--control",
        &socket,
    ]));
    let ctl = |words: &[&str]| run_command(p4jet().args(["ctl", "--socket", &socket]).args(words));
    let deadline = Instant::now() + Duration::from_secs(120);
    let stats_until = |what: &dyn Fn(&serde_json::Value) -> bool| loop {
        let stats = ctl(&["stats"]).expect_status(0);
        let stats: serde_json::Value = serde_json::from_str(&stats.stdout).expect("JSON");
        if what(&stats) {
            return stats;
        }
        assert!(Instant::now() < deadline, "{stats}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let before = stats_until(&|stats| stats["received"] == 10);
    assert_eq!(before["stuck"], serde_json::Value::Null);
    // The answer is missing or late.
    let mut client = Client::unix(Path::new(&socket)).unwrap();
    let injecting = std::thread::spawn(move || drop(client.command(&format!("inject 0 {many}"), false)));
    let stuck = stats_until(&|stats| stats["stuck"] != serde_json::Value::Null);
    let why = stuck["stuck"].as_str().expect("a text");
    assert!(
        why.contains("worker 0 has made no progress for ") && why.contains("it sends by port 1"),
        "{why}"
    );
    assert!(stuck["received"].as_u64().expect("a number") >= 10, "{stuck}");
    assert_eq!(stuck["ports"].as_array().map(Vec::len), Some(2), "{stuck}");
    let refused = ["worker 0 has made no progress for ", "it sends by port 1"];
    ctl(&["port_remove", "0"]).expect_status(1).says(&refused);
    ctl(&["load", &program]).expect_status(1).says(&refused);
    let id = switch.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(switch.status(), 3);
    drop(other_end);
    injecting.join().expect("the connection ends");
}

/// The final summary counts every packet, including those that wait in queues.
#[test]
fn the_summary_counts_packets_that_still_wait() {
    let dir = TempDir::new("waiting");
    let (socket, said) = (dir.file("switch.sock"), dir.file("said"));
    let program = dir.write("by_first_byte.p4", BY_FIRST_BYTE);
    let input = dir.write("in.pcap", common::pcap(&vec![vec![7; 100]; 1000]));
    let commands = dir.write("commands", "set_queue_rate 1");
    let ports = [format!("0@pcap:{input},"), format!("1@pcap:,{}", dir.file("out.pcap"))];
    let mut command = p4jet_run(Path::new(&program));
    command.args(["-i", &ports[0], "-i", &ports[1], "--commands", &commands, "--control", &socket]);
    command.stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap());
    let mut child = command.spawn().unwrap();
    let ctl = |word: &str| run_command(p4jet().args(["ctl", "--socket", &socket, word]));
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let stats = ctl("stats");
        let stats: serde_json::Value = serde_json::from_str(&stats.stdout).unwrap_or_default();
        if stats["received"] == 1000 {
            break;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("{stats}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    ctl("stop").expect_status(0);
    assert!(child.wait().unwrap().success());
    let said = fs::read_to_string(said).unwrap();
    let sum = |what: &str| -> u64 {
        let before = said.lines().filter_map(|line| line.split_once(what)).map(|(before, _)| before);
        before.map(|before| before.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    let (packets, packet) =
        (|what: &str| sum(&format!(" packets {what}")), |what: &str| sum(&format!(" packet {what}")));
    let count = |what: &str| packets(what) + packet(what);
    assert!(count("still waited") > 0, "{said}");
    assert_eq!(count("copied"), 0, "a packet that leaves a queue is no copy: {said}");
    let came = count("received") + count("copied");
    let went =
        count("sent to port") + count("dropped") + count("still waited") + count("ended in their copies");
    assert_eq!(came, went, "{said}");
}
