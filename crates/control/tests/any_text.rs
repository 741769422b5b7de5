//! No text makes the control plane panic. Blind spot: whether it does the right thing.

mod common;

use common::control;
use p4jet_control::stf::{Device, parse, run};
use p4jet_dataplane::Processed;
use proptest::prelude::*;

/// Sends nothing anywhere.
struct Sink;

impl Device for Sink {
    fn process(&mut self, _: u32, _: &[u8]) -> Processed {
        Processed { sent: Vec::new(), dropped: vec!["sink".into()] }
    }
}

/// Words that lines are made of, so that many lines get far.
fn word() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "table_add",
        "table_modify",
        "table_delete",
        "table_set_default",
        "table_clear",
        "table_dump",
        "table_info",
        "table_dump_entry",
        "table_dump_entry_from_key",
        "table_reset_default",
        "table_num_entries",
        "counter_read",
        "counter_write",
        "counter_reset",
        "register_read",
        "register_write",
        "register_reset",
        "set_crc16_parameters",
        "help",
        "show_tables",
        "mc_mgrp_create",
        "l2",
        "ipv4_lpm",
        "acl",
        "fixed",
        "ipv4_out",
        "value_set",
        "forward",
        "deny",
        "out",
        "NoAction",
        "=>",
        "0",
        "1",
        "2",
        "16777216",
        "4294967295",
        "0x10",
        "-1",
        "10.0.0.0/8",
        "1&&&3",
        "1->5",
        "5->1",
        "6",
        "0&&&0",
        "::1",
        "00:11:22:33:44:55",
        "seen",
        "hits",
        "cells",
        "wide",
        "calc",
        "true",
        "#",
        "é",
        "\u{a0}",
        "/",
        "&&&",
        "->",
        "1/99999999999",
        "0x",
        "_",
        ".",
    ];
    prop_oneof![9 => prop::sample::select(WORDS).prop_map(str::to_string), 1 => ".{0,6}"]
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![8 => prop::collection::vec(word(), 0..9).prop_map(|words| words.join(" ")), 1 => ".*"]
}

fn stf_word() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "add ",
        "setdefault ",
        "packet ",
        "expect ",
        "no_packet",
        "wait",
        "remove ",
        "all",
        "check_counter ",
        "l2 ",
        "acl ",
        "ipv4_lpm ",
        "dst:",
        "hdr.eth.dst:",
        "src:",
        "hdr.ipv4.src:0x0a****** ",
        "out(port:1)",
        "deny()",
        "(",
        ")",
        ":",
        "0x1*",
        "0b*1",
        "0 ",
        "1 ",
        "99999999999999999999",
        "$",
        "*",
        "\"",
        "a.b",
        "[0]",
        "= R",
        "seen(",
        "$R",
        " packets == 1",
        "register_read cells ",
        "counter_read ",
        "register_write wide 1 ",
        "é",
        "#",
        "/",
        "->",
        "&&&",
        "0xffffffffffffffffffffffffffffffffffffffff",
        "00 ",
        "aa",
        "10.0.0.1",
        "\t",
    ];
    prop_oneof![12 => prop::sample::select(WORDS).prop_map(str::to_string), 1 => ".{0,4}"]
}

proptest! {
    #[test]
    fn commands(lines in prop::collection::vec(line(), 0..12)) {
        let mut control = control();
        for line in &lines {
            if let Err(error) = control.execute(line) {
                prop_assert!(!error.message.is_empty() && !error.message.contains('\n'));
                // Whoever shows the line cuts it there.
                prop_assert!(error.span.is_none_or(|span| line.get(span).is_some()), "{line}");
            }
        }
    }

    #[test]
    fn files(lines in prop::collection::vec(line(), 0..12)) {
        let mut control = control();
        if let Err(error) = control.load("f", &lines.join("\n")) {
            prop_assert!(!error.render().is_empty() && !error.to_string().is_empty());
        }
    }

    #[test]
    fn scripts(lines in prop::collection::vec(prop::collection::vec(stf_word(), 0..9), 0..6)) {
        let text: Vec<String> = lines.iter().map(|words| words.concat()).collect();
        match parse(&text.join("\n")) {
            Ok(script) => {
                let report = run(&script, &mut control(), &mut Sink).report("t");
                prop_assert!(report.lines().count() == 1);
            }
            Err(error) => prop_assert!(error.text.get(error.span.clone()).is_some() && !error.render("f").is_empty()),
        }
    }

    #[test]
    fn any_script(text in ".*") {
        let _ = parse(&text);
    }

    #[test]
    fn completion(line in line(), at in 0usize..60) {
        let (start, _) = control().complete(&line, at);
        prop_assert!(line.is_char_boundary(start));
    }
}
