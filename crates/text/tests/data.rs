//! The JSON answers of commands: `data.txt` has one for each of `LINES`. `UPDATE=1` rewrites it.

use crate::common;

use p4jet_text::Commands;
use serde_json::{Value, json};
use std::path::Path;

const LINES: &str = "\
table_add ipv4_lpm forward 198.51.100.0/24 => 00:11:22:33:44:55 3
table_add acl out 1&&&1 0->65535 0&&&0 ::1 => 7 99
table_dump ipv4_lpm
table_dump_entry acl 0
table_dump_entry_from_key acl 1&&&1 0->65535 0&&&0 ::1 99
table_num_entries acl
table_info acl
table_show_actions l2
show_actions
act_prof_create_member ecmp out 1
act_prof_create_member ecmp out 2
act_prof_create_group ecmp
act_prof_add_member_to_group ecmp 1 0
table_indirect_add_with_group route 10.0.0.0&&&255.0.0.0 => 0 5
table_indirect_set_default route 1
table_dump route
act_prof_dump ecmp
act_prof_dump_member ecmp 1
act_prof_dump_group ecmp 0
table_dump next_hop
counter_write seen 3 10 640
counter_read seen 3
register_write cells 1 77
register_read cells 1
register_read cells
register_write wide 0 0x1000000000000000000000007
register_read wide 0
meter_get_rates ingress.police 0
meter_set_rates ingress.police 0 0.125:9000 1:10000
meter_get_rates ingress.police 0
mc_mgrp_create 7
mc_node_create 5 1 2 | 3
mc_node_associate 7 0
mc_set_lag_membership 3 6 7
mc_dump
mirroring_add 1 4
mirroring_get 1
mirroring_add_mc 2 7
mirroring_get 2
pvs_add pairs 0x12345
pvs_get pairs
pvs_add masked 0x80&&&0xf0
pvs_get masked
show_pvs
switch_info
";

#[test]
fn commands_that_read_give_data() {
    let control = common::control();
    let mut text = String::new();
    for line in LINES.lines() {
        let reply = control.reply(line, true);
        assert_eq!(reply.refused, None, "{line}");
        text += &format!("{line}\n  {}\n", serde_json::to_string(&reply.data).unwrap());
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&golden).unwrap(), text, "UPDATE=1 rewrites it");
}

#[test]
fn data_is_as_large_as_the_text_and_only_on_request() {
    let control = common::control();
    let file: String = (0..100).map(|key| format!("table_add ipv4_lpm deny {key}/32 =>\n")).collect();
    control.load("file", &file).unwrap();
    let data = control.reply("table_dump ipv4_lpm", true).data.unwrap();
    assert_eq!(data["entries"].as_array().unwrap().len(), 100);
    assert_eq!(data["entries"][99]["key"][0]["value"], json!("0x00000063"));
    assert_eq!(data["default"], json!({"action": "NoAction", "params": {}}));
    assert_eq!(control.reply("table_dump ipv4_lpm", false).data, None);
    // The same tables and commands, in either form.
    let names = |data: Option<Value>| -> Vec<String> {
        let all = data.unwrap();
        all.as_array().unwrap().iter().map(|table| table["name"].as_str().unwrap().to_string()).collect()
    };
    let reply = control.reply("show_tables", true);
    let text: Vec<_> = reply.text.lines().map(|line| line.split(' ').next().unwrap().to_string()).collect();
    assert_eq!(names(reply.data), text);
    assert!(control.reply("get_time_elapsed", true).data.unwrap().is_u64());
    assert!(control.reply("get_time_since_epoch", true).data.unwrap().is_u64());
}
