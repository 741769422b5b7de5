//! Dumps and restores of the configuration, and state files of switches that are killed.
//!
//! Blind spot: state files after a power cut.

use crate::common;

use crate::common::{PROGRAM, control, session};
use p4jet_control::{Control, SharedControl};
use p4jet_dataplane::Switch;
use p4jet_text::{Commands, read_command};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that is deleted after the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // In memory if possible, because each start waits for the disk.
        let memory = PathBuf::from("/dev/shm");
        let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let path = folder.join(format!("p4jet-state-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("state")
    }

    fn journal(&self) -> PathBuf {
        self.0.join("state.journal")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// State of every kind.
const SETUP: &str = "\
table_add l2 out 0x0a => 3
table_add l2 deny 0x0b =>
table_add l2 deny 0x0c =>
table_delete l2 1
table_add l2 out 0x0d => 5
table_delete l2 0
table_set_timeout l2 2 5000
table_add ipv4_lpm forward 198.51.100.0/24 => 00:11:22:33:44:55 3
table_add ipv4_lpm deny 0.0.0.0/0 =>
table_add acl deny 1&&&1 1->2 0&&&0 ::1 => 9
table_add acl out 2&&&3 0->65535 7 ::2 => 7 5
table_add acl out 3&&&3 0->65535 7 ::2 => 7 5
table_delete acl 0
table_add acl deny 0&&&0 0->65535 0&&&0 ::2 => 5
table_set_default l2 deny
table_set_default ipv4_lpm forward 00:00:00:00:00:01 1
act_prof_create_member hops forward 1 2
act_prof_create_member hops deny
act_prof_create_member hops deny
act_prof_delete_member hops 1
table_indirect_add next_hop 7 => 0
table_indirect_add next_hop 8 => 2
act_prof_create_member ecmp out 1
act_prof_create_member ecmp out 2
act_prof_create_group ecmp
act_prof_create_group ecmp
act_prof_add_member_to_group ecmp 0 1
act_prof_add_member_to_group ecmp 1 1
act_prof_delete_group ecmp 0
table_indirect_add_with_group route 10.0.0.0&&&255.0.0.0 => 1 5
table_indirect_set_default_with_group route 1
meter_set_rates color 0 1:2 3:4
meter_set_rates ingress.police 1 0.1234567890123456:2 3e5:4
mc_mgrp_create 1
mc_mgrp_create 2
mc_node_create 5 1 2 | 3
mc_node_create 6 9
mc_node_create 7 9
mc_node_associate 1 2
mc_node_associate 1 0
mc_node_destroy 1
mc_set_lag_membership 3 6 7
mirroring_add 1 4
mirroring_add 3 4 64
mirroring_add_mc 2 1
pvs_add value_set 9
pvs_add masked 0x80&&&0xf0
pvs_add pairs 0x12345
set_crc16_parameters calc 1 2 3 true false
set_crc32_parameters sum 4 5 6 false true
register_write cells 1 77
register_write wide 1 0xfffffffffffffffffffffffff
register_write bit 65536 1
counter_write seen 3 10 640
counter_write hits 2 5 50
";

fn dump(control: &Control) -> String {
    control.execute("dump counters").unwrap()
}

/// A dump without the generations of free slots, which an undone insertion may advance.
fn entries(dump: &str) -> String {
    let mut pieces = dump.split(",\"generations\":{");
    let first = pieces.next().unwrap_or("").to_string();
    pieces.fold(first, |text, piece| text + piece.split_once('}').map_or("", |(_, rest)| rest))
}

fn shared(control: Control) -> SharedControl {
    SharedControl::new(control, None)
}

fn dumped(control: &SharedControl) -> String {
    control.reply("dump", false).text
}

/// A switch that begins with a state file.
fn begun(folder: &Folder) -> (SharedControl, Vec<String>) {
    let control = shared(control());
    let lost = control.keep(&folder.file(), read_command).unwrap();
    (control, lost)
}

#[test]
fn dumps_are_restored() {
    let first = control();
    assert_eq!(session(&first, SETUP).matches('!').count(), 0);
    let text = dump(&first);
    for part in
        ["hop", "198", "\"handle\":16777217", "\"priority\":5", "lags", "77", "[10,640]", "\"session\""]
    {
        let part = part.replace("198", "0xc6336400/24");
        assert!(text.contains(&part), "{part}\n{text}");
    }
    let second = shared(control());
    // Earlier contents do not matter.
    second
        .load(
            "other",
            "table_add l2 deny 0x0f =>\nmc_mgrp_create 9\nregister_write cells 0 1\nmirroring_add 8 1",
        )
        .unwrap();
    assert_eq!(second.restore(&text), Ok(None));
    assert_eq!(second.reply("dump counters", false).text, text);
    for table in ["next_hop", "route", "near", "l2", "acl", "ipv4_lpm"] {
        let line = format!("table_dump {table}");
        // The idle time starts again.
        let ageless = |text: &str| -> String {
            text.lines().map(|line| line.split_once("ms since hit").map_or(line, |(_, life)| life)).collect()
        };
        let (text, before) = (second.reply(&line, false).text, first.execute(&line).unwrap());
        assert_eq!(ageless(&text), ageless(&before), "{table}");
    }
    // The next entry gets the handle that it would have got.
    for line in ["act_prof_create_member ecmp out 3", "mc_node_create 1 1", "table_add l2 deny 0x1f =>"] {
        assert_eq!(second.reply(line, false).text, first.execute(line).unwrap(), "{line}");
    }
}

#[test]
fn all_or_nothing() {
    let target = shared(control());
    target.load("setup", SETUP).unwrap();
    let before = target.reply("dump counters", false).text;
    let other = control();
    session(&other, "table_add l2 deny 1 =>\nmirroring_add 7 7\nregister_write cells 2 9\nmc_mgrp_create 5");
    let good = dump(&other);
    for (from, to, why) in [
        ("", "{\"entry\":{\"table\":\"ingress.gone\",\"handle\":0,\"key\":[],\"do\":{}}}", "ingress.gone"),
        (
            "",
            "{\"entry\":{\"table\":\"ingress.l2\",\"handle\":9,\"key\":[\"0x5\"],\"do\":{\"action\":\"ingress.deny\"}}}",
            "its size is 4",
        ),
        ("", "{\"session\":{\"number\":1}}", "found neither of `port` and `group`"),
        ("", "{\"surprise\":{}}", "unknown variant `surprise`"),
        ("\"width\":48", "\"width\":47", "ingress.l2: its key has changed"),
        ("\"ingress.deny\"}", "\"ingress.none\"}", "ingress.none"),
        ("{\"state\":{\"version\":1", "{\"state\":{\"version\":2", "version 2"),
        ("{\"state\":", "{\"stat\":", "it is not a p4jet state file"),
    ] {
        let text = if from.is_empty() { format!("{good}{to}\n") } else { good.replace(from, to) };
        assert_ne!(text, good);
        let error = target.restore(&text).err().unwrap_or_else(|| panic!("{why}: taken"));
        assert!(error.message.contains(why), "{why}: {error}");
        assert_eq!(entries(&target.reply("dump counters", false).text), entries(&before), "{why}");
    }
    assert_eq!(target.restore(&good), Ok(None));
    assert_eq!(entries(&target.reply("dump counters", false).text), entries(&good));
}

#[test]
fn state_survives_a_kill_at_any_byte() {
    // Single lines and files, each with the journal and the dump after it.
    let folder = Folder::new();
    let (first, _) = begun(&folder);
    let journal = || fs::read(folder.journal()).unwrap();
    let mut states = vec![(journal(), dumped(&first))];
    for line in SETUP.lines().filter(|line| !line.starts_with("counter")) {
        let reply = first.reply(line, false);
        assert_eq!((reply.refused, reply.note), (None, None), "{line}");
        states.push((journal(), dumped(&first)));
    }
    assert!(first.reply("table_add l2 deny 0x0c =>", false).refused.is_some());
    first
        .load(
            "more",
            "table_clear ipv4_lpm\n\n# nothing\ntable_add ipv4_lpm deny 1.0.0.0/8 =>\ntable_dump l2",
        )
        .unwrap();
    states.push((journal(), dumped(&first)));
    first.load("bad", "table_add ipv4_lpm deny 2.0.0.0/8 =>\ntable_add l2 deny 0x0c =>").unwrap_err();
    let (written, state) = states.last().unwrap();
    assert!(journal() == *written, "a file that fails leaves nothing");
    assert_eq!(entries(&dumped(&first)), entries(state));
    drop(first);

    let snapshot = fs::read(folder.file()).unwrap();
    for (before, after) in states.iter().zip(&states[1..]) {
        // A change is appended, and then the first line, of a fixed length, is written again.
        let (was, is) = (&before.0, &after.0);
        let header = is.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let written = is.len() - was.len();
        for part in [0, 1, written / 2, written - 2, written - 1, written] {
            let again = Folder::new();
            fs::write(again.file(), &snapshot).unwrap();
            fs::write(again.journal(), [&was[..header], &is[header..was.len() + part]].concat()).unwrap();
            let (second, lost) = begun(&again);
            // A line that lacks only its line end is complete.
            let whole = part + 1 >= written;
            assert_eq!(
                dumped(&second),
                if whole { &after.1 } else { &before.1 }.as_str(),
                "{part} of {written}"
            );
            match part == 0 || whole {
                true => assert_eq!(lost, [""; 0], "{part} of {written}"),
                false => assert!(
                    lost[0].contains("incomplete: a change that was not yet acknowledged"),
                    "{lost:?}"
                ),
            }
        }
    }
}

/// A small program, which can start thousands of times in a test.
const SMALL: &str = "\
program small
errors NoError, PacketTooShort, HeaderTooShort
error_packet_too_short 1
error_header_too_short 2
drop_reasons \"drop\"
field hdr.eth.$valid$: 1 valid hdr.eth
field hdr.eth.dst: 48 in hdr.eth
field meta.port: 9 metadata
field meta.error: 32 metadata
field ingress.out.port: 9 data ingress.out
header hdr.eth valid hdr.eth.$valid$ { hdr.eth.dst }
instance ingress.cells register 16 size 4
action ingress.out(ingress.out.port) { n0: meta.port = ingress.out.port return }
action ingress.deny() { n0: drop \"drop\" }
table ingress.l2 {
  key hdr.eth.dst: 48 exact
  action ingress.out
  action ingress.deny
  default ingress.deny()
  size 4
}
block parser parser error meta.error {
  n0: extract hdr.eth
    return
}
block ingress control {
  n0: apply ingress.l2(hdr.eth.dst) next n1 exit n1
  n1: return
}
block deparser deparser {
  n0: emit hdr.eth
    return
}
ingress parser, ingress
egress deparser
egress_port meta.port
";

fn small_control() -> Control {
    Control::new(Switch::new(p4jet_ir::text::parse(SMALL).unwrap()).unwrap())
}

/// State, a part of which is in the journal.
fn small(folder: &Folder) -> String {
    let control = shared(small_control());
    assert_eq!(control.keep(&folder.file(), read_command).unwrap(), [""; 0]);
    let done = |line: &str| assert_eq!(control.reply(line, false).refused, None, "{line}");
    done("table_add l2 out 0x0a => 3");
    done("table_add l2 deny 0x0b =>");
    done("register_write cells 1 77");
    control.write_state_file().unwrap();
    done("table_add l2 deny 0x0c =>");
    done("table_delete l2 0");
    done("mirroring_add 1 4");
    dumped(&control)
}

/// Starts with these files, one of which may be missing. Either all of their original state is there, or there is a report and
/// the files are kept unchanged.
fn nothing_is_lost_silently(base: &Control, files: [Option<&[u8]>; 2], state: &str, what: &str) -> bool {
    let folder = Folder::new();
    let paths = [folder.file(), folder.journal()];
    for (path, bytes) in paths.iter().zip(files) {
        if let Some(bytes) = bytes {
            fs::write(path, bytes).unwrap();
        }
    }
    let control = shared(base.clone());
    assert_eq!(control.reply("reset_state", false).refused, None);
    match control.keep(&folder.file(), read_command) {
        Ok(report) if report.is_empty() => {
            // The tables are shared with earlier cases, whose damage may have advanced their generations.
            let now = dumped(&control);
            let as_if_whole = |text: &str| {
                text.replace(",\"generation_min\":64", "")
                    .replace(",\"generation_min\":128", "")
                    .replace(",\"generation_min\":192", "")
            };
            assert_eq!(as_if_whole(&now), state, "{what}: lost without a word");
            false
        }
        Ok(report) => {
            let restored = report.iter().position(|line| line.starts_with("restored: "));
            assert!(restored.is_some_and(|at| at > 0), "{what}: {report:?}");
            let old = folder.0.join("state.old");
            assert_eq!(
                *report.last().unwrap(),
                format!("the original file is kept as {}", old.display()),
                "{what}"
            );
            for (path, bytes) in [old, folder.0.join("state.old.journal")].iter().zip(files) {
                assert_eq!(
                    fs::read(path).ok().as_deref(),
                    bytes.or(fs::read(path).ok().as_deref().filter(|b| b.is_empty())),
                    "{what}"
                );
            }
            // The kept state is complete, and a restart reports nothing.
            let now = dumped(&control);
            drop(control);
            let again = shared(base.clone());
            let report = again.keep(&folder.file(), read_command).unwrap();
            assert_eq!((dumped(&again), report), (now, Vec::new()), "{what}");
            true
        }
        Err(error) => {
            assert!(error.to_string().contains("state"), "{what}: {error}");
            for (path, bytes) in paths.iter().zip(files) {
                assert!(bytes.is_none_or(|bytes| fs::read(path).unwrap() == bytes), "{what}: changed");
            }
            true
        }
    }
}

#[test]
fn damage_is_always_reported() {
    let folder = Folder::new();
    let state = small(&folder);
    let (snapshot, journal) = (fs::read(folder.file()).unwrap(), fs::read(folder.journal()).unwrap());
    let files = [snapshot.as_slice(), &journal];
    let base = &small_control();
    assert!(!nothing_is_lost_silently(base, files.map(Some), &state, "the files as they are"));
    let with = |which: usize, bytes: Option<&[u8]>, what: &str| {
        let mut changed = files.map(Some);
        changed[which] = bytes;
        nothing_is_lost_silently(base, changed, &state, what)
    };
    for (which, name) in ["state", "journal"].into_iter().enumerate() {
        let bytes = files[which];
        for at in 0..bytes.len() {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1 << (at % 8);
            let what = format!("a bit of byte {at} of the {name} file");
            assert!(with(which, Some(&flipped), &what), "{what}: not noticed");
            let what = format!("the first {at} bytes of the {name} file");
            // The end of the last line may be missing.
            assert!(with(which, Some(&bytes[..at]), &what) || at + 1 == bytes.len(), "{what}: not noticed");
        }
        assert!(with(which, None, &format!("no {name} file")));
        // Each line is removed once and duplicated once.
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        for at in 0..lines.len() {
            let without = [&lines[..at], &lines[at + 1..]].concat().concat();
            assert!(with(which, Some(&without), &format!("no line {at} of the {name} file")));
            let twice = [&lines[..at], &[lines[at]], &lines[at..]].concat().concat();
            assert!(with(which, Some(&twice), &format!("line {at} twice in the {name} file")));
        }
    }
    // Both files were emptied.
    assert!(nothing_is_lost_silently(base, [Some(b""), Some(b"")], &state, "two empty files"));
    // One of the two files is older or newer than the other.
    let control = shared(small_control());
    assert_eq!(control.keep(&folder.file(), read_command).unwrap(), [""; 0]);
    assert_eq!(control.reply("table_add l2 deny 0x0d =>", false).refused, None);
    drop(control);
    let control = shared(small_control());
    assert_eq!(control.keep(&folder.file(), read_command).unwrap(), [""; 0]);
    assert_eq!(control.reply("table_add l2 deny 0x0e =>", false).refused, None);
    let now = dumped(&control);
    drop(control);
    let newer = [fs::read(folder.file()).unwrap(), fs::read(folder.journal()).unwrap()];
    assert!(nothing_is_lost_silently(base, [Some(files[0]), Some(&newer[1])], &now, "an older state file"));
    assert!(nothing_is_lost_silently(base, [Some(&newer[0]), Some(files[1])], &now, "an older journal"));
    assert!(!nothing_is_lost_silently(base, files.map(Some), &state, "both from before"));
}

/// A first start that is killed before its first dump leaves an empty journal, perhaps beside new files.
#[test]
fn a_first_start_may_be_killed() {
    for new in [&[][..], &["state.journal.new"], &["state.journal.new", "state.new"]] {
        let folder = Folder::new();
        fs::write(folder.journal(), "").unwrap();
        new.iter().for_each(|name| fs::write(folder.0.join(name), "{").unwrap());
        let (control, report) = begun(&folder);
        assert_eq!(report, [""; 0], "{new:?}");
        assert_eq!(control.reply("table_add l2 deny 0x0d =>", false).refused, None);
        let state = dumped(&control);
        drop(control);
        let (control, report) = begun(&folder);
        assert_eq!((dumped(&control), report), (state, Vec::new()), "{new:?}");
        assert!(!folder.0.join("state.old").exists());
    }
}

/// If the state file is cut within its first line, the changes of the journal are restored.
#[test]
fn the_journal_outlives_its_state_file() {
    let folder = Folder::new();
    small(&folder);
    let (snapshot, journal) = (fs::read(folder.file()).unwrap(), fs::read(folder.journal()).unwrap());
    let first_line = snapshot.iter().position(|byte| *byte == b'\n').unwrap();
    for at in 1..first_line {
        let folder = Folder::new();
        fs::write(folder.file(), &snapshot[..at]).unwrap();
        fs::write(folder.journal(), &journal).unwrap();
        let control = shared(small_control());
        let report = control.keep(&folder.file(), read_command).unwrap_or_else(|e| panic!("{at} bytes: {e}"));
        assert!(
            report.contains(&"restored: 0 records from the snapshot, 3 changes from the journal".to_string()),
            "{report:?}"
        );
        // The journal added this entry.
        assert!(control.reply("table_dump l2", false).text.contains("0c"), "{at} bytes");
    }
}

#[test]
fn kept_files_are_never_replaced() {
    let folder = Folder::new();
    small(&folder);
    let mut damaged = fs::read(folder.file()).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    for n in 1..5 {
        fs::write(folder.file(), &damaged).unwrap();
        let report = shared(small_control()).keep(&folder.file(), read_command).unwrap();
        let old = folder.0.join(if n == 1 { "state.old".to_string() } else { format!("state.old{n}") });
        assert!(report.last().unwrap().ends_with(&old.display().to_string()), "{report:?}");
        assert_eq!(fs::read(&old).unwrap(), damaged);
        damaged[middle] ^= 6;
    }
}

/// A state file that is not a regular file, or beside which another file of a state has this fault, is refused by its name. Nothing
/// is changed or created.
#[test]
fn only_regular_files_are_replaced() {
    let mkfifo = |path: &Path| {
        // A child process would hold the locks of other tests' files for a moment.
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    for name in ["state", "state.journal", "state.new", "state.journal.new"] {
        let folder = Folder::new();
        let path = folder.0.join(name);
        let refused = |kind: &str| {
            let error = shared(small_control()).keep(&folder.file(), read_command).unwrap_err().to_string();
            let expected = format!("{}: it is {kind}; a regular file is needed here", path.display());
            assert_eq!(error, expected);
            let names: Vec<_> =
                fs::read_dir(&folder.0).unwrap().map(|file| file.unwrap().file_name()).collect();
            assert_eq!(names, [name]);
        };
        mkfifo(&path);
        refused("a FIFO");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refused("a directory");
        fs::remove_dir(&path).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        refused("a socket");
        fs::remove_file(&path).unwrap();
        if name == "state" {
            // A link protects the device itself.
            std::os::unix::fs::symlink("/dev/null", &path).unwrap();
            refused("a device");
        }
    }
    // A file that appears later is refused, too.
    let folder = Folder::new();
    let control = shared(small_control());
    assert_eq!(control.keep(&folder.file(), read_command).unwrap(), [""; 0]);
    fs::create_dir(folder.0.join("state.new")).unwrap();
    let error = control.write_state_file().unwrap_err().why.to_string();
    assert!(error.contains("state.new: it is a directory"), "{error}");
}

/// Changes lost by damage may have given or deleted handles: none of these is given again.
#[test]
fn damage_never_causes_reused_handles() {
    const HANDLE: &str = "handle ";
    let handle = |control: &SharedControl, line: &str| -> u32 {
        let reply = control.reply(line, false);
        assert_eq!(reply.refused, None, "{line}");
        let digits = reply.text.split(HANDLE).nth(1).unwrap_or_else(|| panic!("{line}: {}", reply.text));
        digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    let add = |n: usize| format!("table_add l2 deny {n:#x} =>");
    type Damage = fn(Vec<&[u8]>) -> Vec<u8>;
    let damages: [(&str, Damage); 3] = [
        ("the journal's line of an add that was undone later", |lines| {
            let mut bytes = lines.concat();
            let at: usize = lines[..5].iter().map(|line| line.len()).sum();
            bytes[at + 30] ^= 1;
            bytes
        }),
        ("all but four changes", |lines| lines[..5].concat()),
        ("the whole journal", |_| Vec::new()),
    ];
    for (what, damage) in damages {
        let folder = Folder::new();
        // A table with room.
        let program = SMALL.replace("\n  size 4\n", "\n  size 64\n");
        assert_ne!(program, SMALL);
        let begin = || {
            let switch = Switch::new(p4jet_ir::text::parse(&program).unwrap()).unwrap();
            let control = shared(Control::new(switch));
            let report = control.keep(&folder.file(), read_command).unwrap();
            (control, report)
        };
        let (control, report) = begin();
        assert_eq!(report, [""; 0]);
        let mut given: Vec<u32> = (0..8).map(|n| handle(&control, &add(n))).collect();
        let mut fourth = given[4];
        for _ in 0..3 {
            assert_eq!(control.reply(&format!("table_delete l2 {fourth}"), false).refused, None);
            fourth = handle(&control, &add(4));
            given.push(fourth);
        }
        drop(control);
        let journal = fs::read(folder.journal()).unwrap();
        let damaged = damage(journal.split_inclusive(|byte| *byte == b'\n').collect());
        fs::write(folder.journal(), damaged).unwrap();
        for start in 0..2 {
            let (control, report) = begin();
            assert_eq!(report.is_empty(), start > 0, "{what}: {report:?}");
            for n in 20..30 {
                let new = handle(&control, &add(100 * start + n));
                assert!(!given.contains(&new), "{what}: handle {new} again");
                given.push(new);
            }
            // Later deletions do not lead to these handles either.
            let last = *given.last().unwrap();
            assert_eq!(control.reply(&format!("table_delete l2 {last}"), false).refused, None);
            let new = handle(&control, &add(100 * start + 50));
            assert!(!given.contains(&new), "{what}: handle {new} again");
            given.push(new);
        }
    }
}

#[test]
fn no_link_is_followed() {
    let folder = Folder::new();
    let victim = folder.0.join("victim");
    fs::write(&victim, "precious").unwrap();
    for name in ["state.new", "state.journal.new"] {
        std::os::unix::fs::symlink(&victim, folder.0.join(name)).unwrap();
    }
    let (control, report) = begun(&folder);
    assert_eq!(report, [""; 0]);
    assert_eq!(control.reply("table_add l2 deny 0x0c =>", false).note, None);
    drop(control);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    fs::remove_file(folder.journal()).unwrap();
    std::os::unix::fs::symlink(&victim, folder.journal()).unwrap();
    let error = shared(common::control()).keep(&folder.file(), read_command).unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

/// A deleted handle never names another entry, however often the switch restarts.
#[test]
fn deleted_handles_stay_deleted() {
    let folder = Folder::new();
    let handle = |control: &SharedControl, key: u32| {
        let reply = control.reply(&format!("table_add l2 deny {key} =>"), true);
        reply.data.unwrap()["handle"].as_u64().unwrap()
    };
    let (control, _) = begun(&folder);
    // The first slot keeps its entry, so that the table never becomes empty.
    let mut given = vec![handle(&control, 1)];
    for key in 2..5 {
        given.push(handle(&control, key));
    }
    for gone in &given[1..] {
        assert_eq!(control.reply(&format!("table_delete l2 {gone}"), false).refused, None);
    }
    let text = dumped(&control);
    let mut control = control;
    for _ in 0..3 {
        drop(control);
        control = begun(&folder).0;
        assert_eq!(dumped(&control), text);
    }
    // A file that fails does not bring them back.
    control.load("fails", "table_clear l2\ntable_add l2 deny 77 =>\ntable_add l2 deny 77 =>").unwrap_err();
    // An older dump does not bring them back.
    let before = dumped(&control);
    let later = handle(&control, 9);
    assert!(!given.contains(&later));
    given.push(later);
    assert_eq!(control.restore(&before), Ok(None));
    for key in 10..13 {
        let new = handle(&control, key);
        assert!(!given.contains(&new), "{new:#x} was another entry's: {given:x?}");
        given.push(new);
    }
    for gone in &given[1..5] {
        assert!(control.reply(&format!("table_delete l2 {gone}"), false).refused.is_some(), "{gone:#x}");
    }
    // Nor does a dump whose entry in the same slot is older than a deleted one.
    let before = dumped(&control);
    let delete =
        |handle: u64| assert_eq!(control.reply(&format!("table_delete l2 {handle}"), false).refused, None);
    delete(given[0]);
    let later = handle(&control, 20);
    delete(later);
    assert_eq!(control.restore(&before), Ok(None));
    delete(given[0]);
    let new = handle(&control, 21);
    assert!(new != later && !given.contains(&new), "{new:#x} was another entry's: {given:x?}, {later:#x}");
}

/// Files that p4jet wrote before lines had checksums.
#[test]
fn earlier_files_are_read() {
    let folder = Folder::new();
    let first = control();
    session(&first, "table_add l2 out 0x0a => 3\ntable_add l2 deny 0x0b =>");
    let before = first.execute("dump").unwrap();
    let end = before.find('}').unwrap();
    let numbered = format!("{},\"serial\":7{}", &before[..end], &before[end..]);
    fs::write(folder.file(), numbered).unwrap();
    let journal = concat!(
        r#"{"state":{"version":1,"program":"sample","serial":7}}"#,
        "\n",
        r#"{"did":{"commands":["table_add l2 deny 0x0c =>","table_delete l2 0"],"handles":[2,null]}}"#,
        "\n",
        r#"{"did":{"commands":["mirroring_add 1 4"],"handles":[null]}}"#,
        "\n",
    );
    fs::write(folder.journal(), journal).unwrap();
    session(&first, "table_add l2 deny 0x0c =>\ntable_delete l2 0\nmirroring_add 1 4");
    let after = first.execute("dump").unwrap();
    let (control, report) = begun(&folder);
    assert_eq!((report, dumped(&control)), (Vec::new(), after.clone()));
    drop(control);
    assert!(fs::read_to_string(folder.file()).unwrap().contains("\"sum\":"));
    let (control, report) = begun(&folder);
    assert_eq!((report, dumped(&control)), (Vec::new(), after));
}

#[test]
fn state_survives_many_restarts() {
    let folder = Folder::new();
    let mut last = None;
    for line in SETUP.lines().filter(|line| !line.starts_with("counter")) {
        let (control, lost) = begun(&folder);
        assert_eq!(lost, [""; 0]);
        assert!(last.is_none_or(|last| last == dumped(&control)), "before {line}");
        assert_eq!(control.reply(line, false).refused, None, "{line}");
        last = Some(dumped(&control));
    }
    // A journal of an older state file is not read again: it is kept.
    let (control, _) = begun(&folder);
    control.reply("table_add ipv4_lpm deny 9.0.0.0/8 =>", false);
    let journal = fs::read(folder.journal()).unwrap();
    drop(control);
    drop(begun(&folder));
    fs::write(folder.journal(), journal).unwrap();
    let lost = begun(&folder).1;
    assert!(lost[0].contains("the journal is older, so changes since it was written are lost"), "{lost:?}");
    assert_eq!(begun(&folder).1, [""; 0]);
    // Two switches cannot use one file.
    let (_control, _) = begun(&folder);
    let error = shared(common::control()).keep(&folder.file(), read_command).unwrap_err();
    assert!(error.to_string().contains("another switch"), "{error}");
}

#[test]
fn restored_and_reset_state_is_kept() {
    let folder = Folder::new();
    let other = control();
    session(&other, SETUP);
    let text = other.execute("dump").unwrap();
    let (control, _) = begun(&folder);
    assert_eq!(control.restore(&text), Ok(None));
    assert_eq!(control.reply("table_delete l2 2", false).refused, None);
    let before = dumped(&control);
    drop(control);
    let (control, lost) = begun(&folder);
    assert_eq!((dumped(&control), lost.len()), (before, 0));
    control.reply("reset_state", false);
    let before = dumped(&control);
    drop(control);
    assert_eq!(dumped(&begun(&folder).0), before);
    // A dump is a state file, too.
    fs::write(folder.file(), &text).unwrap();
    assert_eq!(dumped(&begun(&folder).0), text);
}

/// The table entries of a dump: after damage, new entries have other handles.
fn table_entries(control: &SharedControl) -> Vec<String> {
    dumped(control).lines().filter(|line| line.starts_with("{\"entry\"")).map(String::from).collect()
}

/// After a restore that could not be written, the journal continues an older snapshot. Nothing may be appended to it.
#[test]
fn changes_after_a_restore_that_cannot_be_written_are_reported() {
    let folder = Folder::new();
    let (control, _) = begun(&folder);
    let empty = control.reply("dump", false).text;
    control.reply("table_add l2 out 0x01 => 1", false);
    let old = table_entries(&control);
    let obstacle = folder.0.join("state.new");
    fs::create_dir(&obstacle).unwrap();
    assert!(
        control.restore(&empty).unwrap().is_some_and(|note| note.contains("cannot write the state file"))
    );
    for command in ["table_add l2 out 0x02 => 2", "table_add l2 out 0x03 => 3"] {
        let reply = control.reply(command, false);
        assert!(reply.note.as_deref().is_some_and(|note| note.contains("cannot write")), "{reply:?}");
    }
    let after = dumped(&control);
    drop(control);
    fs::remove_dir(&obstacle).unwrap();
    let (control, lost) = begun(&folder);
    assert_eq!(table_entries(&control), old, "the last state that could be written");
    assert!(lost.iter().any(|line| line.contains("3 changes")), "{lost:?}");
    // Once the file can be written again, it has all changes.
    drop(control);
    let (control, _) = begun(&folder);
    fs::create_dir(&obstacle).unwrap();
    control.restore(&after).unwrap();
    fs::remove_dir(&obstacle).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(control.reply("table_add l2 out 0x04 => 4", false).note, None);
    let before = table_entries(&control);
    drop(control);
    assert_eq!(table_entries(&begun(&folder).0), before);
}

#[test]
fn a_deleted_journal_is_noticed() {
    let folder = Folder::new();
    let (control, _) = begun(&folder);
    control.reply("table_add l2 out 0x01 => 1", false);
    fs::remove_file(folder.0.join("state.journal")).unwrap();
    assert_eq!(control.reply("table_add l2 out 0x02 => 2", false).note, None);
    let before = table_entries(&control);
    drop(control);
    assert_eq!(table_entries(&begun(&folder).0), before, "a new snapshot was written");
}

/// Changes are not written into a journal that something else has changed: a new state file holds them.
#[test]
fn a_journal_that_something_else_writes_is_noticed() {
    let folder = Folder::new();
    let (control, _) = begun(&folder);
    for (n, content) in [(1, "a capture"), (2, "")] {
        control.reply(&format!("table_add l2 out 0x0{n} => 1"), false);
        fs::write(folder.journal(), content).unwrap();
        assert_eq!(control.reply(&format!("table_add l2 out 0x1{n} => 2"), false).note, None);
    }
    let before = table_entries(&control);
    drop(control);
    let (control, report) = begun(&folder);
    assert_eq!((table_entries(&control), report), (before, Vec::new()));
}

#[test]
fn another_program_keeps_what_fits() {
    let folder = Folder::new();
    let (control, _) = begun(&folder);
    control.load("setup", SETUP).unwrap();
    control.write_state_file().unwrap();
    control.reply("table_add l2 deny 0x1f =>", false);
    control.reply("table_add ipv4_lpm deny 7.0.0.0/8 =>", false);
    drop(control);
    let program = PROGRAM
        .replace(
            "key hdr.eth.dst: 48 exact\n  action ingress.out",
            "key hdr.eth.src: 48 exact\n  action ingress.out",
        )
        .replace("instance ingress.cells register 16", "instance ingress.cells register 8");
    assert_ne!(program, PROGRAM);
    let program = p4jet_ir::text::parse(&program).unwrap();
    let changed = program.clone();
    let other = shared(Control::new(Switch::new(program).unwrap()));
    let before = [folder.file(), folder.journal()].map(|path| fs::read(path).unwrap());
    let lost = other.keep(&folder.file(), read_command).unwrap();
    assert!(lost.iter().any(|line| line == "not restored: ingress.l2: its key has changed"), "{lost:?}");
    assert!(
        lost.iter().any(|line| line.contains("ingress.cells: its cells had 16 bits, and now have 8")),
        "{lost:?}"
    );
    assert_eq!(other.reply("table_num_entries ipv4_lpm", false).text, "3\n");
    assert_eq!(other.reply("table_num_entries route", false).text, "1\n");
    // The old files are kept and can be used again.
    let old = PathBuf::from(format!("{}.old", folder.file().display()));
    assert_eq!(lost.last().unwrap(), &format!("the original file is kept as {}", old.display()));
    let old_journal = PathBuf::from(format!("{}.journal", old.display()));
    assert_eq!([&old, &old_journal].map(|path| fs::read(path).unwrap()), before);
    assert_eq!(shared(common::control()).keep(&old, read_command).unwrap(), [""; 0]);
    // Kept files are never replaced.
    drop(other);
    fs::write(folder.file(), &before[0]).unwrap();
    fs::write(folder.journal(), &before[1]).unwrap();
    let lost =
        shared(Control::new(Switch::new(changed).unwrap())).keep(&folder.file(), read_command).unwrap();
    assert!(lost.last().unwrap().ends_with(".old2"), "{lost:?}");
}

#[test]
fn a_state_of_another_program_is_reported_and_an_empty_one_is_ignored() {
    let folder = Folder::new();
    fs::write(folder.file(), "").unwrap();
    let (control, report) = begun(&folder);
    assert_eq!(report, [""; 0]);
    control.reply("table_add ipv4_lpm deny 9.0.0.0/8 =>", false);
    drop(control);
    // A start that is refused leaves no journal.
    let other = folder.0.join("other");
    fs::write(&other, "no state\n").unwrap();
    shared(common::control()).keep(&other, read_command).unwrap_err();
    assert!(!folder.0.join("other.journal").exists());
    let mut program = p4jet_ir::text::parse(PROGRAM).unwrap();
    let name = std::mem::replace(&mut program.name, "another".into());
    let report =
        shared(Control::new(Switch::new(program).unwrap())).keep(&folder.file(), read_command).unwrap();
    assert_eq!(report, [format!("it belongs to the program {name}, but another is running")]);
}

#[test]
fn files_belong_to_the_client() {
    use p4jet_text::client::Client;
    use p4jet_text::prompt::Commander;
    use p4jet_text::server::{Limits, Server};
    let folder = Folder::new();
    let mut control = shared(control());
    control.load("setup", SETUP).unwrap();
    let socket = folder.0.join("sock");
    let _server = Server::unix(control.clone(), &socket, Limits::default()).unwrap();
    let mut client = Client::unix(&socket).unwrap();
    let before = dumped(&control);
    let commanders: [&mut dyn Commander; 2] = [&mut client, &mut control];
    for (commander, name) in commanders.into_iter().zip(["a", "b"]) {
        let path = folder.0.join(name);
        let ask = |commander: &mut dyn Commander, what: &str, path: &Path| {
            commander.reply(&format!("{what} {}", path.display())).unwrap().refused
        };
        assert_eq!(ask(commander, "serialize_state", &path), None);
        assert_eq!(entries(&fs::read_to_string(&path).unwrap()), entries(&before));
        assert_eq!(commander.reply("reset_state").unwrap().refused, None);
        assert_ne!(commander.reply("dump").unwrap().text, before);
        assert_eq!(ask(commander, "restore", &path), None);
        assert_eq!(entries(&commander.reply("dump").unwrap().text), entries(&before));
        assert!(ask(commander, "restore", Path::new("/dev/null")).is_some());
        assert!(ask(commander, "restore", &folder.0.join("none")).is_some());
        assert_eq!(entries(&commander.reply("dump").unwrap().text), entries(&before));
    }
    // The switch itself writes no file that a client names.
    assert!(control.clone().reply("serialize_state x", false).refused.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn no_text_panics(text: String, at in 0usize..4000, byte: u8) {
        let first = control();
        session(&first, SETUP);
        let mut bytes = dump(&first).into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let control = shared(control());
        let _ = control.restore(&text);
        let _ = control.restore(&String::from_utf8_lossy(&bytes));
    }
}

/// Changes of queues in the journal come after those of the snapshot.
#[test]
fn queues_are_those_of_the_last_change() {
    let folder = Folder::new();
    for depth in 20..24 {
        let (control, report) = begun(&folder);
        assert_eq!(report, [""; 0]);
        control.reply("set_queue_depth 99", false);
        assert_eq!(control.reply(&format!("set_queue_depth {depth}"), false).refused, None);
        control.reply("set_queue_rate 5 3", false);
        let before = dumped(&control);
        drop(control);
        let (control, report) = begun(&folder);
        assert_eq!((report, dumped(&control)), (Vec::new(), before));
    }
}
