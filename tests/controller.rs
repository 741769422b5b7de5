//! The gateway's controller and a switch, as processes: carrying out plans, dead back ends, changes of the file,
//! restarts of either.
//!
//! Blind spot: packets; tests/gateway_namespaces.rs has those.

use crate::common::{self, TempDir, p4jet, program, root, run_command};
use p4jet_control::{Atomicity, Schema};
use p4jet_gateway::{Actual, Call, Change, Config, Key, Objects, Plan, State, Table, commands, diff, plan};
use p4jet_text::client::Client;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

const DEADLINE: Duration = common::DEADLINE;

/// The objects of the gateway's program.
pub static OBJECTS: LazyLock<Objects> = LazyLock::new(|| {
    let text = fs::read_to_string(program("vxlan_gateway")).unwrap();
    let compiled = p4jet_compile::compile("vxlan_gateway.p4", &text);
    let compiled = compiled.unwrap_or_else(|refused| panic!("{}", refused.text()));
    Objects::new(Schema::new(&compiled.program)).unwrap()
});

/// A process that ends with the test, and the lines of its standard error.
pub struct Process {
    pub child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Process {
    pub fn start(command: &mut Command) -> Process {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (line, lines) = mpsc::channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|text| line.send(text)));
        Process { child, lines, said: Vec::new() }
    }

    /// Waits for a line that has `what`.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str) -> String {
        let end = Instant::now() + DEADLINE;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(what) {
                        return line;
                    }
                }
                Err(e) => panic!("waiting for `{what}`: {e}; it said:\n{}", self.said.join("\n")),
            }
        }
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gateway without ports.
fn switch(socket: &str, more: &[&str]) -> Process {
    let mut command = p4jet();
    command.arg("run").arg(program("vxlan_gateway")).args(["--stay", "--control", socket]).args(more);
    let mut process = Process::start(&mut command);
    process.wait_for(": forwarding between ");
    process
}

fn controller(config: &str, socket: &str) -> Process {
    Process::start(p4jet().args(["gateway", config, "--socket", socket]))
}

fn connected(socket: &str) -> Client {
    Client::unix(Path::new(socket)).unwrap()
}

/// Applies one change; `made` has the handles from earlier changes.
fn make(client: &mut Client, change: &Change, made: &mut Vec<Option<u32>>) {
    let mut update = OBJECTS.schema().named(&change.update);
    update.with_handles(made);
    let results = client.write(vec![update], Atomicity::AllOrNothing).unwrap();
    made.push(*results[0].as_ref().unwrap_or_else(|error| panic!("{}: {error}", change.command(&OBJECTS))));
}

fn actual(client: &mut Client) -> Actual {
    Actual::from_dump(&OBJECTS, &client.command("dump", false).unwrap().output).unwrap()
}

fn apply(client: &mut Client, plan: &Plan) {
    let changes = diff(&OBJECTS, plan, &actual(client));
    let text = commands(&OBJECTS, &changes);
    client.load("test", &text).unwrap().unwrap_or_else(|e| panic!("{e}\n{text}"));
}

/// Waits until the switch has this state, and returns the time.
#[track_caller]
fn wait_until(client: &mut Client, what: &str, is: impl Fn(&Actual) -> bool) -> Duration {
    let begin = Instant::now();
    loop {
        let now = actual(client);
        if is(&now) {
            return begin.elapsed();
        }
        assert!(begin.elapsed() < DEADLINE, "waiting: {what}\n{now:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the MAC addresses of the back ends that have the slots of the only pool.
fn owners(actual: &Actual) -> Vec<Option<u128>> {
    let slots = actual.state.pools.values().next().map_or(&[][..], Vec::as_slice);
    slots.iter().map(|call| owner(&actual.state, call)).collect()
}

fn owner(state: &State, slot: &Call) -> Option<u128> {
    let next_hop = *slot.params.first()?;
    let call = &state.entries[&(Table::NextHops, vec![next_hop.into()])];
    Some(call.params[if call.action == "tunnel" { 4 } else { 3 }])
}

// ---- what the plan makes of a switch ----

/// Returns missing objects that others refer to.
fn missing(state: &State) -> Vec<String> {
    let mut missing = Vec::new();
    let has = |table: Table, number: u128| state.entries.contains_key(&(table, vec![number.into()]));
    let mut expect = |there: bool, what: String| {
        if !there {
            missing.push(what);
        }
    };
    for ((table, key), call) in &state.entries {
        let what = |missing: &str| format!("{missing} of {table:?} {key:?} => {call:?}");
        match (call.action.as_str(), call.params.as_slice()) {
            ("to_next_hop", [next_hop]) => expect(has(Table::NextHops, *next_hop), what("next hop")),
            ("balance", [pool, _]) => {
                expect(state.pools.get(&(*pool as u16)).is_some_and(|slots| !slots.is_empty()), what("pool"));
            }
            ("by_service", [service]) => {
                let is = |((table, key), _): (&(Table, Key), _)| {
                    *table == Table::Services && key[0].value == *service
                };
                expect(state.entries.iter().any(is), what("service"));
            }
            ("tunnel" | "to_vtep" | "remote" | "from_vtep", [vtep, ..]) => {
                expect(has(Table::Vteps, *vtep) && has(Table::Encapsulations, *vtep), what("VTEP"));
            }
            ("into", [.., group, _]) | ("tenant", [.., group, _]) => {
                expect(*group == 0 || state.floods.contains_key(&(*group as u16)), what("flood group"));
            }
            _ => {}
        }
    }
    for slot in state.pools.values().flatten().filter(|slot| slot.action == "to_next_hop") {
        expect(has(Table::NextHops, slot.params[0]), format!("next hop of {slot:?}"));
    }
    for (rid, port) in state.floods.values().flatten() {
        expect(has(Table::Replicas, u128::from(*rid)), format!("replica {rid} to port {port}"));
    }
    missing
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    fn chance(&mut self) -> bool {
        self.below(3) > 0
    }
}

/// Returns a configuration from a small set, so that two of them have much in common.
fn some_config(random: &mut Random) -> String {
    let mut text = String::new();
    let mut put = |line: &str| {
        text += line;
        text.push('\n');
    };
    put("[[tenant]]\nname = \"red\"\nvrf = 7");
    put("[[external]]\nname = \"internet\"\nport = 0\nmac = \"02:00:00:00:00:01\"");
    let addresses = ["\"10.0.0.1\", \"2001:db8::a\"", "\"10.0.0.1\", \"2001:db8::a\", \"10.0.0.2\""];
    let which = addresses[random.below(2) as usize];
    put(&format!(
        "[[underlay]]\nname = \"fabric\"\nport = 1\nmac = \"02:00:00:00:00:02\"\naddresses = [{which}]"
    ));
    let mut vteps = Vec::new();
    for at in 1..=4 {
        if at == 1 || random.chance() {
            let address = if at == 3 { "2001:db8::b".to_string() } else { format!("10.0.1.{at}") };
            let next_hop = random.below(2);
            put(&format!("[[vtep]]\nname = \"rack{at}\"\naddress = \"{address}\""));
            put(&format!("next_hop = \"02:00:00:00:01:0{next_hop}\""));
            vteps.push(format!("rack{at}"));
        }
    }
    let mut networks = Vec::new();
    for at in 1..=3u64 {
        if at == 1 || random.chance() {
            let (learn, flood, vlan) = (random.chance(), random.chance(), 10 * (random.below(2) + 1));
            put(&format!("[[network]]\nname = \"net{at}\"\nvni = {}\nmac = \"02:00:00:00:00:03\"", 100 * at));
            put(&format!(
                "ports = [{{ port = 2, vlan = {} }}, {{ port = {}, vlan = {vlan} }}]",
                100 + at,
                2 + at
            ));
            put(&format!("learn = {learn}\nflood = {flood}\naddresses = [\"10.{at}.0.1\"]"));
            let some: Vec<String> =
                vteps.iter().filter(|_| random.chance()).map(|name| format!("\"{name}\"")).collect();
            put(&format!("vteps = [{}]", some.join(", ")));
            if random.chance() {
                let address = random.below(3) + 5;
                put(&format!(
                    "[[network.station]]\nmac = \"02:00:00:00:03:01\"\naddress = \"10.{at}.0.{address}\""
                ));
                put(&format!("port = 2\nvlan = {}", 100 + at));
            }
            networks.push(at);
        }
    }
    for at in 1..=4 {
        if random.chance() {
            put(&format!("[[route]]\nprefix = \"203.0.{at}.0/24\""));
            match random.below(2) {
                0 => put(&format!("external = \"internet\"\nmac = \"02:00:00:00:05:0{}\"", random.below(2))),
                _ => put("network = \"net1\"\nvtep = \"rack1\"\nmac = \"02:00:00:00:05:07\""),
            }
        }
    }
    let mut back_ends = Vec::new();
    for at in 1..=5 {
        if random.chance() {
            let (network, weight) = (networks[at as usize % networks.len()], random.below(4));
            put(&format!(
                "[[back_end]]\nname = \"web{at}\"\nnetwork = \"net{network}\"\nmac = \"02:00:00:00:02:0{at}\""
            ));
            put(&format!("weight = {weight}"));
            match random.chance() {
                true => put(&format!("vtep = \"{}\"", vteps[at as usize % vteps.len()])),
                false => put(&format!("port = 2\nvlan = {}", 100 + network)),
            }
            back_ends.push(format!("\"web{at}\""));
        }
    }
    let slots = 16 << random.below(2);
    put(&format!("[[pool]]\nname = \"all\"\nslots = {slots}\nback_ends = [{}]", back_ends.join(", ")));
    back_ends.reverse();
    put(&format!("[[pool]]\nname = \"other\"\nslots = 8\nback_ends = [{}]", back_ends.join(", ")));
    for at in 1..=4 {
        if random.chance() {
            let tenant = if random.chance() { "tenant = \"red\"" } else { "" };
            put(&format!("[[vip]]\naddress = \"198.51.100.{at}\"\n{tenant}"));
            let pool = ["all", "other"][random.below(2) as usize];
            match random.chance() {
                true => put(&format!(
                    "pool = \"{pool}\"\nalgorithm = \"{}\"",
                    ["crc32", "crc32c"][random.below(2) as usize]
                )),
                false => put(&format!(
                    "services = [{{ protocol = \"tcp\", port = {}, pool = \"{pool}\" }}]",
                    80 + random.below(2)
                )),
            }
        }
    }
    text
}

/// From any configuration to any other: the switch ends in the planned state, no object ever refers to a missing one,
/// and a plan for the new state finds nothing to do.
#[test]
fn any_configuration_follows_any_other() {
    let dir = TempDir::new("plan");
    let socket = dir.file("switch.sock");
    let _switch = switch(&socket, &[]);
    let mut client = connected(&socket);
    let mut random = Random(6);
    let mut changes_made = 0;
    for round in 0..40 {
        let text = some_config(&mut random);
        let config = Config::parse(&text).unwrap_or_else(|e| panic!("{e:#?}\n{text}"));
        let dead = random.below(8) as usize;
        let alive = |at: usize| at != dead;
        let before = actual(&mut client);
        // Typed reads, page by page, find the same as a dump.
        assert_eq!(Actual::read(&OBJECTS, &mut client).unwrap().unwrap(), before);
        let planned = plan(&config, &alive, &before).unwrap();
        // The changes after another death are those that would be planned then.
        let other = random.below(8) as usize;
        let mut shared = planned.clone();
        shared.share(&config, &|at| at != other);
        assert_eq!(shared, plan(&config, &|at| at != other, &before).unwrap(), "{text}");
        let changes = diff(&OBJECTS, &planned, &before);
        if round % 4 == 0 {
            // One by one, checking each intermediate state.
            let mut made = Vec::new();
            for change in &changes {
                make(&mut client, change, &mut made);
                let gaps = missing(&actual(&mut client).state);
                assert!(
                    gaps.is_empty(),
                    "after `{}`: {gaps:#?}\n{}",
                    change.command(&OBJECTS),
                    commands(&OBJECTS, &changes)
                );
            }
        } else {
            apply(&mut client, &planned);
        }
        changes_made += changes.len();
        let after = actual(&mut client);
        assert_eq!(after.state, planned.state, "{text}");
        assert_eq!(after.strays, Default::default());
        let again = plan(&config, &alive, &after).unwrap();
        assert_eq!(diff(&OBJECTS, &again, &after), [], "{text}");
        stay_where_they_are(&config, &planned, &after, &mut client, &mut random);
    }
    assert!(changes_made > 1000, "{changes_made}");
    let nothing = plan(&Config::parse("[health]").unwrap(), &|_| true, &actual(&mut client)).unwrap();
    apply(&mut client, &nothing);
    assert_eq!(actual(&mut client).state, State { crc32c: true, ..State::default() });
}

/// When one of the back ends dies and recovers, only its own slots change owners.
fn stay_where_they_are(
    config: &Config,
    planned: &Plan,
    after: &Actual,
    client: &mut Client,
    random: &mut Random,
) {
    let dead = random.below(6) as usize;
    let without = plan(config, &|at| at != dead, after).unwrap();
    let changes = diff(&OBJECTS, &without, after);
    assert!(changes.iter().all(|change| change.slot.is_some()), "{changes:#?}");
    apply(client, &without);
    let died = actual(client);
    let all = plan(config, &|_| true, &died).unwrap();
    apply(client, &all);
    let back = actual(client);
    let mac = config.back_ends.get(dead).map(|back_end| u128::from(back_end.mac));
    for (pool, slots) in &died.state.pools {
        for (slot, then) in slots.iter().zip(&back.state.pools[pool]) {
            let (then, now) = (owner(&back.state, then), owner(&died.state, slot));
            assert!(then == now || then == mac, "{then:x?} {now:x?} {mac:x?}");
        }
    }
    apply(client, planned);
}

/// A FIFO without a writer is refused instead of waited for, and the time for a file with many mistakes depends only on
/// its size.
#[test]
fn plan_does_not_hang() {
    let dir = TempDir::new("plan-hang");
    let fifo = dir.file("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    run_command(p4jet().args(["gateway", "plan", &fifo])).expect_status(1).says(&["it is a FIFO"]);
    let example = root().join("programs/vxlan_gateway/gateway.toml");
    let plan = ["gateway", "plan", example.to_str().unwrap(), "--state", &fifo];
    run_command(p4jet().args(plan)).expect_status(1).says(&["it is a FIFO"]);
    // With pairwise comparisons, or with the whole file shown for each mistake, these would take minutes.
    let network = |n: usize| {
        format!(
            "[[tenant]]\nname = \"a-tenant-{n}\"\nvrf = {n}\n\
             [[network]]\nname = \"n{n}\"\nvni = {n}\ntenant = \"b-tenant-{n}\"\nmac = \"02:00:00:00:00:01\"\n"
        )
    };
    let text: String = (1..20_000).map(network).collect();
    let output =
        run_command(p4jet().args(["gateway", "plan", &dir.write("many.toml", text)])).expect_status(1);
    let errors = output.stderr.matches("error: unknown tenant").count();
    assert!((50..=100).contains(&errors), "{errors} errors are shown");
    assert!(
        output.stderr.contains("the first 100 of ") && output.stderr.len() < 200_000,
        "{}",
        output.stderr.len()
    );
}

/// The plan of the shipped example is a file of commands, after which there is nothing to do.
#[test]
fn a_plan_is_a_file_of_commands() {
    let dir = TempDir::new("plan-commands");
    let example = root().join("programs/vxlan_gateway/gateway.toml");
    let example = example.to_str().unwrap();
    let output = run_command(p4jet().args(["gateway", "plan", example])).expect_status(0);
    output
        .stdout
        .lines()
        .last()
        .unwrap()
        .contains(" to add, 2 to change, 0 to remove")
        .then_some(())
        .unwrap();
    let file = dir.write("plan.cmd", &output.stdout);
    let socket = dir.file("switch.sock");
    let _switch = switch(&socket, &["--commands", &file]);
    let dump = dir.file("dump");
    run_command(p4jet().args(["ctl", "--socket", &socket, "serialize_state", &dump])).expect_status(0);
    let plan = |more: &[&str]| run_command(p4jet().args(["gateway", "plan", example]).args(more));
    let same = plan(&["--state", &dump]).expect_status(0);
    assert_eq!(same.stdout, "# nothing to change\n");
    assert_eq!(plan(&["--state", &dump, "--json"]).expect_status(0).stdout, "{\"changes\":[]}\n");

    // Dumps that are not of a gateway.
    let other = dir.write("other", "{\"state\":{\"version\":1,\"program\":\"router\"}}\n");
    plan(&["--state", &other]).expect_status(1).says(&["runs `router`, which has no table"]);
    plan(&["--state", example]).expect_status(1).says(&["line 1 is not a record of a dump"]);
    plan(&["--socket", &dir.file("nothing")]).expect_status(3).says(&["no switch listens"]);
    let wrong = dir.write("wrong.toml", "[[vip]]\nadress = 1\n");
    run_command(p4jet().args(["gateway", "plna"]))
        .expect_status(1)
        .says(&["cannot read plna", "did you mean `gateway plan`?"]);
    run_command(p4jet().args(["gateway", "plan", &wrong])).expect_status(1).says(&[
        "unknown field `adress`",
        "wrong.toml:2:1",
        "did you mean `address`?",
    ]);
    run_command(p4jet().args(["gateway", "/nowhere"])).expect_status(1).says(&["cannot read /nowhere"]);
    run_command(p4jet().args(["gateway"])).expect_status(2);
}

/// entries.cmd was written by hand: objects that a gateway finds there and would not set are removed, after its own
/// have been set.
#[test]
fn a_switch_set_by_hand_is_taken_over() {
    let dir = TempDir::new("by-hand");
    let socket = dir.file("switch.sock");
    let by_hand = root().join("programs/vxlan_gateway/entries.cmd");
    let _switch = switch(&socket, &["--commands", by_hand.to_str().unwrap()]);
    let mut client = connected(&socket);
    let text = fs::read_to_string(root().join("programs/vxlan_gateway/gateway.toml")).unwrap();
    let config = Config::parse(&text).unwrap();
    let before = actual(&mut client);
    let planned = plan(&config, &|_| true, &before).unwrap();
    // The same VTEPs, network and next hops keep their numbers.
    for (table, number) in
        [(Table::Vteps, 3), (Table::Encapsulations, 1), (Table::NextHops, 1), (Table::NextHops, 13)]
    {
        let place = (table, vec![u128::from(number as u8).into()]);
        assert_eq!(before.state.entries[&place], planned.state.entries[&place]);
    }
    let mut made = Vec::new();
    for change in diff(&OBJECTS, &planned, &before) {
        make(&mut client, &change, &mut made);
    }
    let after = actual(&mut client);
    assert_eq!(after.state, planned.state);
    assert_eq!(after.strays, Default::default());
}

// ---- the running controller ----

fn config_of(back_ends: &[SocketAddr], more: &str) -> String {
    let mut text = String::from(
        r#"
[[external]]
name = "internet"
port = 0
mac = "02:00:00:00:00:01"

[[underlay]]
name = "fabric"
port = 1
mac = "02:00:00:00:00:02"
addresses = ["10.0.0.1"]

[[vtep]]
name = "rack"
address = "10.0.0.11"
next_hop = "02:00:00:00:01:02"

[[network]]
name = "blue"
vni = 100
mac = "02:00:00:00:00:03"
vteps = ["rack"]
ports = [{ port = 2 }, { port = 3, vlan = 10 }]

[[vip]]
address = "198.51.100.1"
pool = "web"
"#,
    );
    let mut names = Vec::new();
    for (i, address) in back_ends.iter().enumerate() {
        let mac = format!("02:00:00:00:02:{:02x}", i + 1);
        write!(
            text,
            "\n[[back_end]]\nname = \"web{i}\"\nnetwork = \"blue\"\nvtep = \"rack\"\nmac = \"{mac}\"\n"
        )
        .unwrap();
        writeln!(text, "health = {{ tcp = \"{address}\" }}").unwrap();
        names.push(format!("\"web{i}\""));
    }
    writeln!(text, "\n[[pool]]\nname = \"web\"\nslots = 128\nback_ends = [{}]\n{more}", names.join(", "))
        .unwrap();
    text
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn mac(i: u128) -> Option<u128> {
    Some(0x0200_0000_0200 + i)
}

/// Returns the number of slots of each.
fn shares(owners: &[Option<u128>]) -> BTreeMap<Option<u128>, usize> {
    owners.iter().fold(BTreeMap::new(), |mut shares, owner| {
        *shares.entry(*owner).or_default() += 1;
        shares
    })
}

#[test]
fn dead_back_ends_go_within_two_seconds_and_no_other_slots_move() {
    let dir = TempDir::new("health");
    let socket = dir.file("switch.sock");
    let _switch = switch(&socket, &[]);
    let mut listeners: Vec<_> = (0..3).map(|_| Some(listener())).collect();
    let addresses: Vec<_> = listeners.iter().map(|l| l.as_ref().unwrap().1).collect();
    let config = dir.write("gateway.toml", config_of(&addresses, ""));
    let mut controller = controller(&config, &socket);
    controller.wait_for("to add");
    let mut client = connected(&socket);
    wait_until(&mut client, "it is set up", |now| owners(now).len() == 128);
    let all = owners(&actual(&mut client));
    assert_eq!(shares(&all).keys().copied().collect::<Vec<_>>(), [mac(1), mac(2), mac(3)]);
    let mut times = Vec::new();
    for (gone, slot) in listeners.iter_mut().enumerate() {
        let (listener, address) = slot.take().unwrap();
        let dead = mac(gone as u128 + 1);
        drop(listener);
        let is_out = |now: &Actual| !owners(now).contains(&dead);
        times.push(wait_until(&mut client, "the dead one is out", is_out));
        for (before, now) in all.iter().zip(owners(&actual(&mut client))) {
            assert!(*before == now || *before == dead, "{before:x?} {now:x?}");
        }
        controller.wait_for(&format!("web{gone}: dead: no connection"));
        *slot = Some((TcpListener::bind(address).unwrap(), address));
        wait_until(&mut client, "all have again what they had", |now| owners(now) == all);
    }
    // Worst case: it dies right after a check; two more fail, 500 ms apart. Other activity of the machine may spoil one
    // measurement.
    times.sort();
    assert!(times[1] < Duration::from_secs(2), "{times:?}");
    eprintln!("dead back ends were out after {times:?}");
    // Without any back end there is no owner, and packets find none.
    listeners.clear();
    let nobody = |now: &Actual| shares(&owners(now)).keys().eq([&None]);
    wait_until(&mut client, "nobody is left", nobody);
    assert!(actual(&mut client).state.pools.values().flatten().all(|slot| slot.action == "no_back_end"));
}

#[test]
fn changes_of_the_file_take_effect_and_mistakes_do_not() {
    let dir = TempDir::new("file");
    let socket = dir.file("switch.sock");
    let _switch = switch(&socket, &[]);
    let (_a, a) = listener();
    let (_b, b) = listener();
    let path = dir.write("gateway.toml", config_of(&[a, b], ""));
    let mut controller = controller(&path, &socket);
    let mut client = connected(&socket);
    wait_until(&mut client, "it is set up", |now| owners(now).len() == 128);
    let two = owners(&actual(&mut client));

    // A third one takes slots from the others, which take none from each other. The controller was not signalled.
    let (_c, c) = listener();
    dir.write("gateway.toml", config_of(&[a, b, c], ""));
    wait_until(&mut client, "the third one has a share", |now| owners(now).contains(&mac(3)));
    let three = owners(&actual(&mut client));
    for (before, now) in two.iter().zip(&three) {
        assert!(before == now || *now == mac(3), "{before:x?} {now:x?}");
    }

    // A mistake changes nothing, and is reported with its place.
    let before = actual(&mut client);
    dir.write("gateway.toml", config_of(&[a, b], "[[vip]]\naddress = \"198.51.100.2\"\npool = \"wbe\"\n"));
    let line = controller.wait_for("unknown pool `wbe`");
    assert!(line.contains("gateway.toml:") && line.contains("did you mean `web`?"), "{line}");
    controller.wait_for("stays in effect");
    assert_eq!(actual(&mut client), before);

    // A configuration that exceeds the room in the switch is refused as a whole; health checks continue.
    let mut many = config_of(&[a, b, c], "");
    for i in 0..2100 {
        write!(many, "[[network]]\nname = \"n{i}\"\nvni = {}\nmac = \"02:00:00:00:00:03\"\n", 1000 + i)
            .unwrap();
    }
    dir.write("gateway.toml", &many);
    controller.wait_for("the previous version stays in effect");
    assert_eq!(actual(&mut client), before);
    drop(_c);
    wait_until(&mut client, "the third one is out", |now| owners(now) == two);

    // A change by someone else is found on SIGHUP.
    assert!(client.command("table_clear vteps", false).unwrap().ok);
    controller.signal("-HUP");
    wait_until(&mut client, "the table is filled again", |now| now.state == expected(&before.state, now));
    controller.signal("-TERM");
    assert!(common::wait(&mut controller.child, "the controller").success());
    assert_eq!(owners(&actual(&mut client)), two, "what it set stays");
}

/// Returns the earlier state with the present pools.
fn expected(before: &State, now: &Actual) -> State {
    State { pools: now.state.pools.clone(), ..before.clone() }
}

#[test]
fn restarts_of_both() {
    let dir = TempDir::new("restarts");
    let socket = dir.file("switch.sock");
    let (_a, a) = listener();
    let (gone, b) = listener();
    let path = dir.write("gateway.toml", config_of(&[a, b], ""));
    // The controller may start first.
    let mut first = controller(&path, &socket);
    first.wait_for("no switch");
    let mut running = switch(&socket, &[]);
    let mut client = connected(&socket);
    wait_until(&mut client, "it is set up", |now| owners(now).len() == 128);
    let all = actual(&mut client);

    // A new switch gets everything again.
    running.signal("-KILL");
    let _ = common::wait(&mut running.child, "the switch");
    first.wait_for("Connection refused");
    let _second = switch(&socket, &[]);
    let mut client = connected(&socket);
    wait_until(&mut client, "it is set up again", |now| now.state == all.state);

    // A new controller finds that all is well, and what died meanwhile.
    drop(first);
    let mut second = controller(&path, &socket);
    second.wait_for("web1: alive");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(actual(&mut client), all);
    drop(second);
    drop(gone);
    let mut third = controller(&path, &socket);
    wait_until(&mut client, "the dead one is out", |now| !owners(now).contains(&mac(2)));
    third.wait_for("web1: dead");
    assert!(third.said.iter().all(|line| !line.contains("to add")), "{:?}", third.said);
    let changed = third.wait_for("changed: 0 to add, ");
    assert!(changed.ends_with(" to change, 0 to remove"), "{changed}");
}

#[test]
fn a_stopped_switch_is_awaited() {
    let dir = TempDir::new("still");
    let socket = dir.file("switch.sock");
    let running = switch(&socket, &[]);
    let (_a, a) = listener();
    let (gone, b) = listener();
    let path = dir.write("gateway.toml", config_of(&[a, b], ""));
    let mut controller = controller(&path, &socket);
    let mut client = connected(&socket);
    wait_until(&mut client, "it is set up", |now| owners(now).len() == 128);
    let all = actual(&mut client);
    controller.wait_for("changed: ");
    // It reads the state of the switch; for that answer it would wait longer.
    std::thread::sleep(Duration::from_secs(1));
    running.signal("-STOP");
    controller.wait_for("the switch is silent: no answer within 5s");
    // It still checks back ends.
    drop(gone);
    controller.wait_for("web1: dead");
    running.signal("-CONT");
    wait_until(&mut client, "the dead one is out", |now| !owners(now).contains(&mac(2)));
    let _again = TcpListener::bind(b).unwrap();
    wait_until(&mut client, "all is as it was", |now| *now == all);
    controller.wait_for("web1: alive again");
    assert_eq!(controller.said.iter().filter(|line| line.contains("silent")).count(), 1);
    // It ends on request in any state of the switch.
    running.signal("-STOP");
    controller.signal("-TERM");
    assert!(common::wait(&mut controller.child, "the controller").success());
    running.signal("-CONT");
}

/// Returns a frame of a station of the network, and its MAC address; with a tag on port 3.
fn frame_of(station: u8, tagged: bool) -> (Vec<u8>, u64) {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 3, station]);
    if tagged {
        frame.extend([0x81, 0, 0, 10]);
    }
    frame.extend([0x88, 0xb6]);
    frame.resize(64, 0);
    (frame, 0x0200_0000_0300 | u64::from(station))
}

fn station(actual: &Actual, table: Table, mac: u64) -> Option<Call> {
    actual.state.entries.get(&(table, vec![1u128.into(), u128::from(mac).into()])).cloned()
}

/// Makes a port receive a frame.
fn receive(client: &mut Client, dir: &TempDir, port: u32, frame: &[u8]) {
    let frames = dir.write(&format!("in{port}.pcap"), common::pcap(&[frame.to_vec()]));
    let out = dir.file(&format!("out{port}.pcap"));
    let answer = client.command(&format!("port_add pcap:{frames},{out} {port}"), false).unwrap();
    assert!(answer.ok, "{answer:?}");
    let begin = Instant::now();
    // It ends with its file, and may then be added again.
    while !client.command(&format!("port_remove {port}"), false).unwrap().ok {
        assert!(begin.elapsed() < DEADLINE);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn stations_are_learned_move_and_age() {
    let dir = TempDir::new("learning");
    let socket = dir.file("switch.sock");
    let _switch = switch(&socket, &[]);
    let text = config_of(&[], "[learning]\nage_seconds = 4\n")
        .replace("[[vip]]", "[[network.station]]\nmac = \"02:00:00:00:03:09\"\nport = 2\n\n[[vip]]");
    let path = dir.write("gateway.toml", &text);
    let mut first = controller(&path, &socket);
    first.wait_for("to add");
    let mut client = connected(&socket);

    let (frame, mac) = frame_of(1, false);
    receive(&mut client, &dir, 2, &frame);
    first.wait_for("02:00:00:00:03:01 of network blue is at port 2");
    let here = Call::new("local", [2, 0]);
    wait_until(&mut client, "it is learned", |now| station(now, Table::Stations, mac).is_some());
    assert_eq!(station(&actual(&mut client), Table::Macs, mac), Some(here.clone()));

    // It moves. A configured station stays at its configured place, even if another one claims its address.
    receive(&mut client, &dir, 3, &frame_of(9, true).0);
    receive(&mut client, &dir, 3, &frame_of(1, true).0);
    let there = Some(Call::new("local", [3, 10]));
    wait_until(&mut client, "it has moved", |now| station(now, Table::Macs, mac) == there);
    let now = actual(&mut client);
    assert_eq!(station(&now, Table::Stations, mac), Some(Call::new("at", [3])));
    assert_eq!(station(&now, Table::Macs, frame_of(9, false).1), Some(here));

    // After half of the age the switch must report it again, which it does.
    wait_until(&mut client, "it is asked for", |now| station(now, Table::Stations, mac).is_none());
    assert!(station(&actual(&mut client), Table::Macs, mac).is_some());
    receive(&mut client, &dir, 3, &frame_of(1, true).0);
    wait_until(&mut client, "it is known again", |now| station(now, Table::Stations, mac).is_some());

    // A new controller keeps it, and forgets it when it has been silent.
    drop(first);
    let mut second = controller(&path, &socket);
    second.wait_for("02:00:00:00:03:01 of network blue is silent");
    wait_until(&mut client, "it is forgotten", |now| station(now, Table::Macs, mac).is_none());
    let now = actual(&mut client);
    assert!(station(&now, Table::Stations, mac).is_none());
    assert!(station(&now, Table::Stations, frame_of(9, false).1).is_some(), "the file says so");
}

/// A listener is retried if the switch has no free connection.
#[test]
fn stations_are_learned_as_soon_as_possible() {
    let dir = TempDir::new("full");
    let socket = dir.file("switch.sock");
    let _switch = switch(&socket, &[]);
    let path = dir.write("gateway.toml", config_of(&[], ""));
    // The switch accepts 64 connections at a time, and one is left for the controller.
    let mut others: Vec<Client> = (0..63).map(|_| connected(&socket)).collect();
    others.iter_mut().for_each(|other| assert!(other.command("get_time_elapsed", false).unwrap().ok));
    let mut controller = controller(&path, &socket);
    controller.wait_for("learning is off: ");
    controller.wait_for("to add");
    drop(others);
    controller.wait_for("stations are learned again");
    let mut client = connected(&socket);
    receive(&mut client, &dir, 2, &frame_of(1, false).0);
    controller.wait_for("02:00:00:00:03:01 of network blue is at port 2");
}

/// A flood of new stations does not keep clients at a dead back end.
#[test]
fn dead_back_ends_come_before_stations() {
    let dir = TempDir::new("flood");
    let socket = dir.file("switch.sock");
    let _switch = switch(&socket, &[]);
    let (_a, a) = listener();
    let (gone, b) = listener();
    let path = dir.write("gateway.toml", config_of(&[a, b], ""));
    let mut controller = controller(&path, &socket);
    controller.wait_for("to add");
    let stations = |n: u32| {
        let mut frame = frame_of(1, false).0;
        frame[8..12].copy_from_slice(&n.to_be_bytes());
        frame
    };
    // Fewer than the 65,536 stations that the controller remembers.
    let frames: Vec<_> = (0..60_000).map(stations).collect();
    let (frames, out) = (dir.write("in.pcap", common::pcap(&frames)), dir.file("out.pcap"));
    let mut client = connected(&socket);
    let answer = client.command(&format!("port_add pcap:{frames},{out} 2"), false).unwrap();
    assert!(answer.ok, "{answer:?}");
    controller.wait_for("is at port 2");
    drop(gone);
    let begin = Instant::now();
    controller.wait_for("web1: dead");
    let changed = controller.wait_for("changed: ");
    assert!(changed.contains("changed: 0 to add, "), "{changed}");
    let (took, seen) = (begin.elapsed(), controller.said.len());
    eprintln!("out after {took:?} and {seen} lines");
    // Other activity of the machine may delay it a little.
    assert!(took < Duration::from_secs(3), "{took:?}, {seen} lines");
    // Stations are still learned. The flood itself may have ended: learn messages beyond the switch's buffer are lost.
    client.command("port_remove 2", false).unwrap();
    receive(&mut client, &dir, 2, &stations(0xffff));
    controller.wait_for("02:00:00:00:ff:ff of network blue is at port 2");
}

#[test]
fn events_as_json() {
    let dir = TempDir::new("json");
    let socket = dir.file("switch.sock");
    let _switch = switch(&socket, &[]);
    let path = dir.write("gateway.toml", config_of(&[], ""));
    let mut command = p4jet();
    command.args(["gateway", &path, "--socket", &socket, "--json"]);
    let mut controller = Process::start(&mut command);
    let line = controller.wait_for("to add");
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((event["level"].as_str(), event["event"].as_str()), (Some("info"), Some("switch")));
}
