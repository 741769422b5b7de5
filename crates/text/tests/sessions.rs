//! The output of the prompt for whole sessions: each `sessions/NAME.cmd`, on a fresh switch, gives the text of
//! `sessions/NAME.txt`. `UPDATE=1` rewrites it.

use crate::common;

use crate::common::{control, session};
use p4jet_text::{Commands, prompt};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The commands that these sessions are about.
const COMMANDS: [&str; 63] = [
    "act_prof_add_member_to_group",
    "act_prof_create_group",
    "act_prof_create_member",
    "act_prof_delete_group",
    "act_prof_delete_member",
    "act_prof_dump",
    "act_prof_dump_group",
    "act_prof_dump_member",
    "act_prof_modify_member",
    "act_prof_remove_member_from_group",
    "mc_dump",
    "mc_mgrp_create",
    "mc_mgrp_destroy",
    "mc_node_associate",
    "mc_node_create",
    "mc_node_destroy",
    "mc_node_dissociate",
    "mc_node_update",
    "mc_set_lag_membership",
    "meter_array_set_rates",
    "meter_get_rates",
    "meter_set_rates",
    "mirroring_add",
    "mirroring_add_mc",
    "mirroring_delete",
    "mirroring_get",
    "pvs_add",
    "pvs_clear",
    "pvs_get",
    "pvs_remove",
    "reset_state",
    "set_crc16_parameters",
    "set_crc32_parameters",
    "set_port_bitrate",
    "set_port_rate",
    "set_queue_bitrate",
    "set_queue_depth",
    "set_queue_rate",
    "set_queue_weight",
    "show_pvs",
    "show_queues",
    "table_add",
    "table_delete",
    "table_dump",
    "table_dump_entry",
    "table_dump_group",
    "table_dump_member",
    "table_indirect_add",
    "table_indirect_add_member_to_group",
    "table_indirect_add_with_group",
    "table_indirect_create_group",
    "table_indirect_create_member",
    "table_indirect_delete",
    "table_indirect_delete_group",
    "table_indirect_delete_member",
    "table_indirect_modify_member",
    "table_indirect_remove_member_from_group",
    "table_indirect_reset_default",
    "table_indirect_set_default",
    "table_indirect_set_default_with_group",
    "table_modify",
    "table_reset_default",
    "table_set_default",
];

fn scripts() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions");
    let mut scripts: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|e| e == "cmd"));
    scripts.sort();
    scripts
}

/// The screen after `commands` were typed.
fn screen(commands: &str) -> String {
    let mut out = Vec::new();
    prompt::interact_with(&mut control(), commands.as_bytes(), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let mut answers = out.split(prompt::PROMPT);
    let mut text = answers.next().unwrap().to_string();
    for (answer, command) in answers.zip(commands.lines().chain([""])) {
        text += format!("{}{command}", prompt::PROMPT).trim_end();
        text += &format!("\n{answer}");
    }
    text
}

#[test]
fn sessions() {
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for script in scripts() {
        let commands = std::fs::read_to_string(&script).unwrap();
        used.extend(commands.lines().filter_map(|line| line.split(' ').next()).map(str::to_string));
        let text = screen(&commands);
        let golden = script.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&golden, &text).unwrap();
        } else if std::fs::read_to_string(&golden).ok().as_ref() != Some(&text) {
            wrong.push(format!("{}\n{text}", script.display()));
        }
    }
    assert!(wrong.is_empty(), "not as in the golden file (UPDATE=1 writes it):\n{}", wrong.join("\n"));
    for command in COMMANDS {
        assert!(used.contains(command), "no session has {command}");
    }
}

/// All that these commands change, as text.
fn everything(control: &p4jet_control::Control) -> String {
    let mut lines = String::from("show_queues\nmc_dump\nmirroring_get 1\nmirroring_get 2\nmirroring_get 3\n");
    for table in ["next_hop", "route", "near", "remote", "l2"] {
        lines += &format!("table_dump {table}\n");
    }
    for set in ["value_set", "pairs", "masked"] {
        lines += &format!("pvs_get {set}\n");
    }
    for meter in ["ingress.police 0", "ingress.police 1", "egress.police 1", "color 0", "color 1"] {
        lines += &format!("meter_get_rates {meter}\n");
    }
    let crcs = ["calc", "sum"].map(|name| control.switch().state().crc(name));
    session(control, &lines) + &format!("{crcs:?}")
}

const SETUP: &str = "\
act_prof_create_member hops forward 1 2
act_prof_create_member hops deny
table_indirect_add next_hop 7 => 0
table_indirect_add next_hop 8 => 1
act_prof_create_member ecmp out 1
act_prof_create_member ecmp out 2
act_prof_create_group ecmp
act_prof_create_group ecmp
act_prof_add_member_to_group ecmp 0 0
act_prof_add_member_to_group ecmp 1 0
table_indirect_add_with_group route 10.0.0.0&&&255.0.0.0 => 0 5
table_indirect_set_default route 1
meter_set_rates color 0 1:2 3:4
meter_set_rates ingress.police 1 1:2 3:4
mc_mgrp_create 1
mc_node_create 5 1 2 | 3
mc_node_associate 1 0
mc_set_lag_membership 3 6 7
mirroring_add 1 4
mirroring_add_mc 2 1
pvs_add value_set 9
pvs_add masked 0x80&&&0xf0
pvs_add pairs 0x12345
set_crc16_parameters calc 1 2 3 true false
set_crc32_parameters sum 4 5 6 false true
";

/// Every kind of change; a wrong line after it undoes each.
const CHANGES: [&str; 31] = [
    "act_prof_create_member hops deny",
    "act_prof_modify_member hops deny 0",
    "table_indirect_delete next_hop 1\nact_prof_delete_member hops 1",
    "act_prof_create_group ecmp",
    "act_prof_delete_group ecmp 1",
    "act_prof_add_member_to_group ecmp 0 1",
    "act_prof_remove_member_from_group ecmp 1 0",
    "table_indirect_delete route 0\nact_prof_delete_group ecmp 0\nact_prof_delete_member ecmp 0",
    "table_indirect_add next_hop 9 => 1",
    "table_indirect_add_with_group route 11.0.0.0&&&255.0.0.0 => 0 6",
    "table_indirect_delete next_hop 0",
    "table_indirect_set_default route 0",
    "table_indirect_set_default_with_group route 0",
    "table_indirect_reset_default route",
    "meter_set_rates color 0 5:6 7:8",
    "meter_set_rates ingress.police 0 5:6 7:8",
    "meter_array_set_rates ingress.police 5:6 7:8",
    "mc_mgrp_create 2",
    "mc_node_create 6 1\nmc_node_associate 1 1",
    "mc_node_update 0 9",
    "mc_node_dissociate 1 0",
    "mc_node_destroy 0",
    "mc_set_lag_membership 3 9",
    "mc_mgrp_destroy 1",
    "mirroring_add 1 5\nmirroring_add 3 1\nmirroring_delete 2",
    "pvs_add pairs 1",
    "pvs_remove masked 0x80&&&0xf0",
    "pvs_clear value_set",
    "set_queue_depth 9 1\nset_queue_weight 2\nset_port_rate 5 2",
    "set_crc16_parameters calc 7 7 7 false false\nset_crc32_parameters sum 7 7 7 true true",
    "reset_state",
];

#[test]
fn a_bad_line_takes_every_change_back() {
    let control = control();
    control.load("setup", SETUP).unwrap();
    let before = everything(&control);
    let taken_back = |control: &p4jet_control::Control, changes: &str| {
        // The second of two equal entries is refused after everything before it has been applied.
        let text = format!("{changes}\ntable_add l2 deny 77 =>\ntable_add l2 deny 77 =>");
        let error = control.load("changes", &text).unwrap_err();
        assert!(error.to_string().contains("DUPLICATE_ENTRY"), "{changes}: {error}");
    };
    for change in CHANGES {
        taken_back(&control, change);
        assert_eq!(everything(&control), before, "{change}");
        // Without the wrong line, it changes something.
        let other = common::control();
        other.load("setup", SETUP).unwrap();
        other.load("change", change).unwrap();
        assert_ne!(everything(&other), before, "{change}");
    }
    // All changes that do not conflict, in one file.
    taken_back(&control, &CHANGES[11..].join("\n"));
    assert_eq!(everything(&control), before);
}
