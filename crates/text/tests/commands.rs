//! What the runtime commands do and print.

use crate::common;

use crate::common::{control, session};
use p4jet_control::{Control, ErrorKind};
use p4jet_text::{Commands, prompt};

/// What one line prints on a fresh switch.
fn one(line: &str) -> String {
    session(&control(), line)
}

#[test]
fn output_for_new_entries_matches_bmv2() {
    assert_eq!(
        one("table_add ipv4_lpm forward 198.51.100.0/24 => 00:11:22:33:44:55 3"),
        "Adding entry to lpm match table ipv4_lpm\n\
         match key:           LPM-c6:33:64:00/24\n\
         action:              forward\n\
         runtime data:        00:11:22:33:44:55\t00:03\n\
         Entry has been added with handle 0\n"
    );
    assert_eq!(
        one("table_add acl ingress.deny 0x0a000000&&&0xff000000 1024->2047 6 2001:db8::1 => 10 # a comment"),
        "Adding entry to range match table acl\n\
         match key:           TERNARY-0a:00:00:00 &&& ff:00:00:00\tRANGE-04:00 -> 07:ff\tTERNARY-06 &&& ff\t\
         EXACT-20:01:0d:b8:00:00:00:00:00:00:00:00:00:00:00:01\n\
         action:              ingress.deny\n\
         runtime data:        \n\
         Entry has been added with handle 0\n"
    );
}

/// Like bmv2, p4jet clears the bits outside a prefix or mask; the note shows what the entry matches.
#[test]
fn a_note_shows_a_key_whose_bits_are_cleared() {
    let control = control();
    for (line, note) in [
        (
            "table_add ipv4_lpm deny 10.0.0.1/8 =>",
            Some(
                "hdr.ipv4.dst: `10.0.0.1/8` has bits outside the prefix, which are ignored: the entry matches 10.0.0.0/8",
            ),
        ),
        ("table_add ipv4_lpm deny 0x0b000001/8 =>", Some("the entry matches 0xb000000/8")),
        ("table_add ipv4_lpm deny 12.0.0.0/8 =>", None),
        ("table_add ipv4_lpm deny 12.0.0.1/32 =>", None),
        ("table_add ipv4_lpm deny 1.1.1.1/0 =>", Some("the entry matches 0.0.0.0/0")),
        (
            "table_add acl deny 10.0.0.1&&&255.0.0.0 0->1 0x17 ::1 => 1",
            Some(
                "hdr.ipv4.src: `10.0.0.1&&&255.0.0.0` has bits outside the mask, which are ignored: the entry matches \
                 10.0.0.0&&&255.0.0.0",
            ),
        ),
        ("table_add acl deny 1.0.0.0&&&255.0.0.0 0->1 0x10 ::1 => 1", None),
    ] {
        let reply = control.reply(line, false);
        assert_eq!(reply.refused, None, "{line}");
        match note {
            Some(note) => {
                assert!(reply.note.as_ref().is_some_and(|n| n.ends_with(note)), "{line}: {:?}", reply.note)
            }
            None => assert_eq!(reply.note, None, "{line}"),
        }
    }
    // A file has one note for all lines.
    let file = "table_clear ipv4_lpm\ntable_add ipv4_lpm deny 10.0.0.1/8 =>\ntable_add ipv4_lpm deny 11.1.0.0/8 =>\n";
    let note = control.load("entries", file).unwrap().note.unwrap();
    assert_eq!(
        note,
        "entries:2: hdr.ipv4.dst: `10.0.0.1/8` has bits outside the prefix, which are ignored: the entry matches \
         10.0.0.0/8\nentries: also on 1 other line"
    );
}

#[test]
fn dumps_a_table() {
    let lines = "table_add ipv4_lpm forward 198.51.100.0/24 => 0x001122334455 3
                 table_add acl out 1&&&1 0->65535 0&&&0 ::1 => 7 99
                 table_dump ipv4_lpm
                 table_dump_entry acl 0
                 table_dump_entry_from_key acl 1&&&1 0->65535 0&&&0 ::1 99
                 table_set_default ipv4_lpm deny";
    let control = control();
    let out = session(&control, lines);
    let acl = "Dumping entry 0x0\n\
         Match key:\n\
         * hdr.ipv4.src        : TERNARY   00000001 &&& 00000001\n\
         * hdr.tcp.dport       : RANGE     0000 -> ffff\n\
         * hdr.ipv4.proto      : TERNARY   00 &&& 00\n\
         * hdr.ipv6.dst        : EXACT     00000000000000000000000000000001\n\
         Priority: 99\n\
         Action entry: ingress.out - 0007\n";
    let expected = format!(
        "==========\n\
         TABLE ENTRIES\n\
         **********\n\
         Dumping entry 0x0\n\
         Match key:\n\
         * hdr.ipv4.dst        : LPM       c6336400/24\n\
         Action entry: ingress.forward - 001122334455, 0003\n\
         ==========\n\
         Dumping default entry\n\
         Action entry: NoAction - \n\
         ==========\n\
         {acl}{acl}\
         Setting default action of ipv4_lpm\n\
         action:              deny\n\
         runtime data:        \n"
    );
    assert!(out.ends_with(&expected), "{out}");
    let out = session(&control, "table_dump ipv4_lpm\ntable_reset_default ipv4_lpm\ntable_dump ipv4_lpm");
    assert!(
        out.contains("Action entry: ingress.deny - \n") && out.contains("Action entry: NoAction - \n"),
        "{out}"
    );
}

#[test]
fn modifies_and_deletes() {
    let lines = "table_add ipv4_lpm deny 10.0.0.0/8 =>
                 table_modify ipv4_lpm forward 0 => 1 2
                 table_modify ipv4_lpm forward 0 1 3
                 table_num_entries ipv4_lpm
                 table_dump_entry ipv4_lpm 0
                 table_delete ipv4_lpm 0
                 table_num_entries ipv4_lpm
                 table_delete ipv4_lpm 0";
    let out = session(&control(), lines);
    let expected = "Entry has been added with handle 0\n\
         Modifying entry 0 for lpm match table ipv4_lpm\n\
         Modifying entry 0 for lpm match table ipv4_lpm\n\
         1\n\
         Dumping entry 0x0\n\
         Match key:\n\
         * hdr.ipv4.dst        : LPM       0a000000/8\n\
         Action entry: ingress.forward - 000000000001, 0003\n\
         Deleting entry 0 from ipv4_lpm\n\
         0\n\
         ! Invalid table operation (INVALID_HANDLE): no entry has handle 0\n";
    assert!(out.ends_with(expected), "{out}");
}

#[test]
fn shows_the_program() {
    let control = control();
    let out = session(&control, "show_tables");
    assert!(out.starts_with("egress.ipv4_out                [implementation=None, mk=]\n"), "{out}");
    assert!(
        out.contains("\ningress.ipv4_lpm               [implementation=None, mk=hdr.ipv4.dst(lpm, 32)]\n"),
        "{out}"
    );
    assert!(!out.contains("value_set"), "{out}");
    let out = session(&control, "show_actions");
    // Two actions of the IR are `ingress.out`.
    assert_eq!(
        out,
        "NoAction                       []\n\
         ingress.deny                   []\n\
         ingress.forward                [dst(48),\tport(9)]\n\
         ingress.out                    [port(9)]\n"
    );
    assert!(session(&control, "switch_info").contains("\nactions     : 4\n"));
    let shared = session(&control, "table_set_default ipv4_out ingress.out 5\ntable_dump ipv4_out");
    assert!(shared.contains("Dumping default entry\nAction entry: ingress.out - 0005\n"), "{shared}");
    let info = session(&control, "table_info l2");
    let stars = "*".repeat(80);
    let expected = format!(
        "ingress.l2                     [implementation=None, mk=hdr.eth.dst(exact, 48)]\n{stars}\n\
         NoAction                       []\n\
         ingress.deny                   []\n\
         ingress.out                    [port(9)]\n"
    );
    assert_eq!(info, expected);
    assert_eq!(
        session(&control, "table_show_actions l2"),
        expected.split_once(&format!("{stars}\n")).unwrap().1
    );
    assert!(session(&control, "switch_info").contains("program     : sample\n"));
    assert!(session(&control, "help").contains("table_add\n"));
    assert!(session(&control, "help table_add").starts_with("Add entry to a match table"));
    let reply = control.reply("help tabel_add", false);
    let refused = reply.refused.unwrap();
    assert_eq!(refused.message, "*** No help on tabel_add: did you mean `table_add`?");
}

#[test]
fn counters_and_registers() {
    let lines = "counter_write seen 3 10 640
                 counter_read seen 3
                 counter_reset seen
                 counter_read ingress.seen 3
                 register_write cells 2 0xff
                 register_read cells 2
                 register_read cells
                 register_write wide 1 0x123456789012345678901234
                 register_read wide 1
                 register_reset cells
                 register_read cells
                 table_add l2 out 00:00:00:00:00:01 => 1
                 counter_read hits 0
                 counter_write hits 0 5 300
                 counter_read hits 0
                 counter_reset hits
                 counter_read hits 0";
    let expected = "seen[3] has been updated\n\
         seen[3]= (640 bytes, 10 packets)\n\
         ingress.seen[3]= (0 bytes, 0 packets)\n\
         cells[2]= 255\n\
         cells= 0, 0, 255, 0\n\
         wide[1]= 5634002666912405225802306100\n\
         cells= 0, 0, 0, 0\n\
         Adding entry to exact match table l2\n\
         match key:           EXACT-00:00:00:00:00:01\n\
         action:              out\n\
         runtime data:        00:01\n\
         Entry has been added with handle 0\n\
         this is the direct counter for table ingress.l2\n\
         hits[0]= (0 bytes, 0 packets)\n\
         writing to direct counter for table ingress.l2\n\
         hits[0] has been updated\n\
         this is the direct counter for table ingress.l2\n\
         hits[0]= (300 bytes, 5 packets)\n\
         this is the direct counter for table ingress.l2\n\
         this is the direct counter for table ingress.l2\n\
         hits[0]= (0 bytes, 0 packets)\n";
    assert_eq!(session(&control(), lines), expected);
}

#[test]
fn a_new_entry_counts_from_zero() {
    let lines = "table_add l2 out 1 => 1
                 counter_write hits 0 5 300
                 table_delete l2 0
                 table_add l2 out 2 => 1";
    let control = control();
    let out = session(&control, lines);
    let handle = out.trim_end().rsplit(' ').next().unwrap();
    let out = session(&control, &format!("counter_read hits {handle}"));
    assert!(out.ends_with("= (0 bytes, 0 packets)\n"), "{out}");
}

#[test]
fn crc_parameters() {
    let control = control();
    assert_eq!(session(&control, "set_crc16_parameters calc 0x1021 0xffff 0 false true"), "");
    let set = control.switch().state().crc("calc").unwrap();
    assert_eq!((set.poly, set.init, set.reflect_in, set.reflect_out), (0x1021, 0xffff, false, true));
    let out = session(&control, "set_crc32_parameters calc 1 2 3 true true");
    assert_eq!(
        out,
        "! Invalid crc32_custom name (calc): it is a crc16_custom: expected set_crc16_parameters\n"
    );
    assert_eq!(
        session(&control, "set_crc16_parameters calc 0x1021 0x10000 0 false true"),
        "! Error: `0x10000` is too large for an initial remainder: the largest is 65535\n"
    );
}

#[test]
fn errors_name_what_was_found_and_expected() {
    let cases = [
        ("table_ad x", "*** Unknown syntax: table_ad: did you mean `table_add`? (`help` lists the commands)"),
        (
            "subscribe",
            "*** Unknown syntax: subscribe: it has a connection to itself: `p4jet ctl subscribe` (`help` lists the \
             commands)",
        ),
        (
            "swap_configs",
            "not supported here: swap_configs (a running switch does it, at its prompt or by p4jet ctl)",
        ),
        (
            "table_add ipv4_lmp x",
            "Invalid table name (ipv4_lmp): did you mean `ingress.ipv4_lpm`? tables of the program are \
             `ingress.ipv4_lpm`, `egress.ipv4_out`, `ingress.",
        ),
        ("table_info ipv4", "Invalid table name (ipv4): tables of the program are"),
        (
            "table_add",
            "Error: expected a table name at the end of the line; usage: table_add <table name> <action",
        ),
        (
            "table_add ipv4_lpm deny 1.2.3.0/24 7",
            "Error: deny on table ipv4_lpm takes 1 key and 0 parameters, but 2 words follow; usage",
        ),
        (
            "table_add ipv4_lpm nothing 1.2.3.0/24 =>",
            "Invalid action name (nothing): actions of the table are `NoAction`, `ingress.",
        ),
        (
            "table_add l2 forward 1 => 1 2",
            "Error: Table ingress.l2 has no action forward: its actions are `ingress.out`, `NoAction`, `ingress.deny`",
        ),
        (
            "table_add ipv4_lpm deny 1.2.3.0/24 5 =>",
            "Error: Table ingress.ipv4_lpm needs 1 key fields (hdr.ipv4.dst (lpm, bit<32>)), found 2",
        ),
        (
            "table_add ipv4_lpm forward 1.2.3.0/24 => 1",
            "Error: Action forward needs 2 parameters (dst bit<48>, port bit<9>), found 1",
        ),
        (
            "table_add ipv4_lpm forward 1.2.3.0/24 => 1 2 3",
            "Error: Action forward needs 2 parameters (dst bit<48>, port bit<9>), found 3",
        ),
        (
            "table_add ipv4_lpm forward 1.2.3.0/24 => 1 512",
            "Invalid runtime data: parameter port (bit<9>): `512` does not fit in 9 bits: the largest value is 0x1ff (511)",
        ),
        (
            "table_add ipv4_lpm deny 1.2.3.4 =>",
            "Invalid match key: field hdr.ipv4.dst (lpm, bit<32>): found `1.2.3.4`, expected value/prefix-length, such as \
             1.2.3.4/32",
        ),
        (
            "table_add ipv4_lpm deny 1.2.3.4/33 =>",
            "Invalid match key: field hdr.ipv4.dst (lpm, bit<32>): `33` is too large for a prefix length: the largest is 32",
        ),
        (
            "table_add acl deny 1&&&1 5->4 6 ::1 => 1",
            "Invalid match key: field hdr.tcp.dport (range, bit<16>): found `5->4`, whose low end is above its high end",
        ),
        (
            "table_add acl deny 1 4->5 6 ::1 => 1",
            "Invalid match key: field hdr.ipv4.src (ternary, bit<32>): found `1`, expected value&&&mask, such as \
             1&&&0xffffffff",
        ),
        (
            "table_add acl deny 1&&&1 4->5 6&&&3 ::1 => 1",
            "Invalid match key: field hdr.ipv4.proto (optional, bit<8>): found the mask 0x3, expected 0xff (this value) or \
             0 (any value)",
        ),
        (
            "table_add acl deny 1&&&1 4->5 6 ::1 =>",
            "Error: Table is range, but could not extract a valid priority from args: expected a priority (the smallest \
             number wins) as the last word",
        ),
        (
            "table_add acl deny 1&&&1 4->5 6 ::1 => 4294967296",
            "Error: Table is range, but could not extract a valid priority from args: `4294967296` is too large for a \
             priority: the largest is 2147483647",
        ),
        (
            "table_add fixed out 1 => 1",
            "Invalid table operation (IMMUTABLE_TABLE_ENTRIES): `ingress.fixed` has const entries",
        ),
        ("table_clear fixed", "Invalid table operation (IMMUTABLE_TABLE_ENTRIES)"),
        ("table_delete fixed 0", "Invalid table operation (IMMUTABLE_TABLE_ENTRIES)"),
        ("table_modify fixed out 0 1", "Invalid table operation (IMMUTABLE_TABLE_ENTRIES)"),
        (
            "table_set_default fixed out 1",
            "Invalid table operation (DEFAULT_ACTION_IS_CONST): `ingress.fixed` has a const default_action",
        ),
        ("table_set_default fixed NoAction", "Invalid table operation (DEFAULT_ENTRY_IS_CONST)"),
        (
            "table_add l2 NoAction 1 =>",
            "Invalid table operation (INVALID_ACTION_NAME): `NoAction` may only be the default action of `ingress.l2` \
             (@defaultonly)",
        ),
        (
            "table_set_default acl out 1",
            "Invalid table operation (INVALID_ACTION_NAME): `ingress.out` may not be the default action of `ingress.acl` (@tableonly)",
        ),
        ("table_add ipv4_out NoAction =>", "Invalid table operation (NO_TABLE_KEY)"),
        ("table_dump_entry l2 3", "Invalid table operation (INVALID_HANDLE): no entry has handle 3"),
        ("table_dump_entry_from_key l2 3", "Invalid table operation (BAD_MATCH_KEY): no entry has this key"),
        ("table_delete l2 x", "Error: `x` is not an entry handle: expected an integer"),
        ("table_dump l2 x", "Error: found `x` after the last argument; usage: table_dump <table name>"),
        (
            "register_read cells 4",
            "Invalid register operation (INVALID_INDEX): found index 4, expected 0 to 3",
        ),
        (
            "register_write cells 0 65536",
            "Error: `65536` does not fit in 16 bits: the largest value is 0xffff (65535)",
        ),
        ("counter_read seen 8", "Invalid counter operation (INVALID_INDEX): found index 8, expected 0 to 7"),
        ("counter_read hits 0", "Invalid table operation (INVALID_HANDLE): no entry has handle 0"),
    ];
    for (line, expected) in cases {
        let message = one(line);
        assert!(message.starts_with(&format!("! {expected}")), "{line}\n  {message}");
    }
    assert_eq!(control().execute("swap_configs").unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn errors_point_at_the_word() {
    let cases = [
        ("table_add  nope", "nope"),
        ("table_add ipv4_lpm forward 1.2.3.0/24 => 1 512", "512"),
        ("table_add ipv4_lpm forward 1.2.3.0/24 1 => 1 512", "1"),
        ("register_read cells 4", "4"),
        ("table_add ipv4_lpm forward 1.2.3.0/24", ""),
    ];
    for (line, word) in cases {
        let span = control().execute(line).unwrap_err().span.unwrap();
        assert_eq!(&line[span], word, "{line}");
    }
}

#[test]
fn refuses_duplicates_and_too_many() {
    let control = control();
    for i in 0..4 {
        control.execute(&format!("table_add l2 out {i} => 1")).unwrap();
    }
    let duplicate = control.execute("table_add l2 out 3 => 2").unwrap_err().message;
    assert!(duplicate.starts_with("Invalid table operation (DUPLICATE_ENTRY): "), "{duplicate}");
    let full = control.execute("table_add l2 out 9 => 2").unwrap_err().message;
    assert!(full.starts_with("Invalid table operation (TABLE_FULL): "), "{full}");
    control.execute("table_clear l2").unwrap();
    assert_eq!(control.execute("table_num_entries l2").unwrap(), "0\n");
}

#[test]
fn loads_a_file() {
    let control = control();
    let text = "# routes\n\n  table_add ipv4_lpm forward 10.0.0.0/8 => 1 2 # first\r\n\
                table_add ipv4_lpm deny 10.1.0.0/16 =>\ntable_set_default l2 deny\ntable_num_entries ipv4_lpm";
    let summary = control.load("s1.txt", text).unwrap();
    assert_eq!((summary.commands, summary.entries_added, summary.output.as_str()), (4, 2, "2\n"));
}

/// Where the number of words says which they are, the `=>` may be missing.
#[test]
fn arrow_is_optional() {
    let lines = |arrow: &str| {
        format!(
            "act_prof_create_member route forward 1\ntable_add l2 deny 5{arrow}\n\
             table_add ipv4_lpm deny 10.0.0.0/8{arrow}\ntable_dump l2\ntable_dump ipv4_lpm"
        )
    };
    let (with, without) = (session(&control(), &lines(" =>")), session(&control(), &lines("")));
    assert_eq!(with, without);
    assert!(with.contains("Entry has been added"), "{with}");
    for line in ["table_add l2 deny", "table_add l2 deny 5 6", "table_add l2 deny 5 ="] {
        let error = control().execute(line).unwrap_err().message;
        assert!(error.contains("deny on table l2 takes 1 key and 0 parameters, but "), "{error}");
    }
}

#[test]
fn files_may_contain_reading_commands() {
    let control = control();
    let reading = "table_add ipv4_lpm deny 10.0.0.0/8 =>\ntable_dump ipv4_lpm\ncounter_write seen 2 1 1\ncounter_read seen 2\n\
                   help counter_read\nhelp\nswitch_info\nshow_tables\nshow_actions\ntable_info l2\ntable_show_actions l2\n\
                   table_dump_entry ipv4_lpm 0\ntable_dump_entry_from_key ipv4_lpm 10.0.0.0/8\nregister_read wide\n\
                   register_read wide 1\ntable_num_entries ipv4_lpm";
    let summary = control.load("s1.txt", reading).unwrap();
    // The output of the prompt for each command, without that for changes.
    let lines =
        reading.lines().filter(|line| !line.starts_with("table_add") && !line.starts_with("counter_write"));
    let expected = session(&control, &lines.collect::<Vec<_>>().join("\n"));
    let expected = expected.replace("seen[2] has been updated\n", "");
    assert_eq!(summary.output, expected);
    assert!(expected.contains("seen[2]= (1 bytes, 1 packets)\n"), "bmv2 writes it so: {expected}");
    assert_eq!((summary.commands, summary.entries_added), (16, 1));
}

#[test]
fn a_large_register_is_read_by_cells() {
    let control = control();
    let message = control.execute("register_read bit # all").unwrap_err().message;
    let expected = "Error: bit has 65537 cells, and at most 65536 are read at once: expected an index, such as \
                    register_read bit 0";
    assert_eq!(message, expected);
    assert_eq!(control.execute("register_read bit 65536").unwrap(), "bit[65536]= 0\n");
    let error = control.load("r.txt", "table_add l2 out 2 => 1\nregister_read bit").unwrap_err();
    assert_eq!((error.line, error.error.message.as_str()), (2, expected));
    assert_eq!(control.execute("table_num_entries l2").unwrap(), "0\n");
}

/// All that commands can change, as text.
fn everything(control: &p4jet_control::Control) -> String {
    let mut lines = String::new();
    for table in ["l2", "ipv4_lpm", "acl", "fixed", "ipv4_out"] {
        lines += &format!("table_dump {table}\n");
    }
    lines += "register_read cells\nregister_read wide\ncounter_read seen 0\ncounter_read seen 1\ncounter_read seen 7\n";
    session(control, &lines) + &format!("{:?}", control.switch().state().crc("calc"))
}

#[test]
fn file_with_a_refused_line_changes_nothing() {
    let control = control();
    let before = "table_add l2 out 1 => 1\ntable_add ipv4_lpm deny 10.0.0.0/8 =>\ntable_set_default l2 out 5\n\
                  register_write cells 1 7\ncounter_write seen 7 1 2\ncounter_write hits 0 3 4";
    control.load("before", before).unwrap();
    session(&control, "set_crc16_parameters calc 1 2 3 true false");
    let state = everything(&control);
    let hits = session(&control, "counter_read hits 0");
    let text = "counter_write hits 0 9 9\ntable_add l2 out 2 => 1\ntable_modify l2 deny 0\ntable_add ipv4_lpm forward 10.1.0.0/16 => 1 2\n\
                table_delete ipv4_lpm 0\ntable_clear l2\ntable_add l2 deny 77 =>\ntable_set_default l2 deny\n\
                table_reset_default acl\nregister_write cells 1 8\nregister_reset cells\nregister_write cells 0 9\n\
                counter_write seen 7 5 5\ncounter_reset seen\ncounter_write seen 1 1 1\n\
                set_crc16_parameters calc 4 5 6 false true\ntable_add l2 deny 77 =>\ntable_add l2 deny 78 =>\n";
    let error = control.load("routes.txt", text).unwrap_err();
    assert_eq!(error.line, 17);
    let message = error.to_string();
    assert!(message.starts_with("routes.txt:17: Invalid table operation (DUPLICATE_ENTRY): "), "{message}");
    assert_eq!(everything(&control), state);
    // The entry has its handle and its counter back.
    assert_eq!(session(&control, "counter_read hits 0"), hits);
}

#[test]
fn wrong_line_is_reported_before_any_change() {
    let control = control();
    let text = "table_add l2 out 2 => 1\n\ttable_add ipv4_lpm deny 10.0.0.256/8 =>\n";
    let error = control.load("routes.txt", text).unwrap_err();
    assert_eq!(
        error.render(),
        "error: Invalid match key: field hdr.ipv4.dst (lpm, bit<32>): `10.0.0.256` is not an IPv4 address: expected four \
         numbers up to 255\n --> routes.txt:2:26\n  |\n2 | \ttable_add ipv4_lpm deny 10.0.0.256/8 =>\n  \
         | \t                        ^^^^^^^^^^^^\n"
    );
    assert!(error.to_string().starts_with("routes.txt:2:26: Invalid match key"), "{error}");
    assert_eq!(control.execute("table_num_entries l2").unwrap(), "0\n");
}

#[test]
fn prompt_continues_after_errors() {
    let mut control = control();
    let mut out = Vec::new();
    let input = "table_num_entries l2\nnonsense\n\n# nothing\r\ntable_num_entries l2";
    let failed = prompt::interact_with(&mut control, input.as_bytes(), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!(failed, 1);
    let start = "Control utility for runtime P4 table manipulation\n\
         RuntimeCmd: 0\n\
         RuntimeCmd: *** Unknown syntax: nonsense (`help` lists the commands)";
    assert!(out.starts_with(start), "{out}");
    assert!(out.ends_with("\nRuntimeCmd: RuntimeCmd: RuntimeCmd: 0\nRuntimeCmd: \n"), "{out}");
}

#[test]
fn quit_and_exit_leave_the_prompt() {
    for word in ["quit", " exit \r"] {
        let mut out = Vec::new();
        let input = format!("nonsense\n{word}\ntable_num_entries l2\n");
        let failed = prompt::interact_with(&mut control(), input.as_bytes(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(failed, 1);
        assert!(out.ends_with("\nRuntimeCmd: ") && !out.contains("syntax: quit"), "{out}");
    }
}

#[test]
fn the_prompt_runs_commands_of_the_system() {
    let mut out = Vec::new();
    let input = "!echo one\nshell echo two\n!false\nEOF\nnonsense\n";
    let failed = prompt::interact_with(&mut control(), input.as_bytes(), &mut out).unwrap();
    assert_eq!(failed, 1);
    let expected = "RuntimeCmd: one\nRuntimeCmd: two\nRuntimeCmd: RuntimeCmd: ";
    assert_eq!(String::from_utf8(out).unwrap().split_once('\n').unwrap().1, expected);
    // Only at the prompt.
    assert!(control().execute("!echo one").is_err());
    assert!(control().execute("shell echo one").is_err());
}

#[test]
fn completes_commands_and_names() {
    let control = control();
    let complete = |line: &str| control.complete(line, line.len());
    assert_eq!(complete("table_re"), (0, vec!["table_reset_default".to_string()]));
    assert_eq!(complete("table_dump ipv4_l"), (11, vec!["ingress.ipv4_lpm".to_string()]));
    assert_eq!(complete("table_add l2 ingress.d"), (13, vec!["ingress.deny".to_string()]));
    assert_eq!(complete("counter_read ").1, ["ingress.hits", "ingress.seen"]);
    assert_eq!(complete("register_read w").1, ["ingress.wide"]);
    assert_eq!(complete("trace ").1, ["add", "list", "show", "remove", "packet"]);
    assert_eq!(complete("capture st").1, ["start", "stop"]);
    assert_eq!(complete("stats o").1, ["on", "off"]);
    assert!(complete("inject ").1.is_empty() && complete("mc_node_create ").1.is_empty());
}

/// P4_16 "entries": `const` on one of them; the others may be changed.
#[test]
fn const_entries_are_protected_among_others() {
    let text = common::PROGRAM.replace(
        "  entry 0 (0x800) ingress.out(0x1)\n  const_entries\n",
        "  entry 0 (0x800) ingress.out(0x1)\n  entry const 0 (0x801) ingress.out(0x2)\n",
    );
    let program = p4jet_ir::text::parse(&text).unwrap();
    let control = p4jet_control::Control::new(p4jet_dataplane::Switch::new(program).unwrap());
    let refused = "Invalid table operation (IMMUTABLE_TABLE_ENTRIES): entry 1 of `ingress.fixed` is const in the program";
    for line in ["table_delete fixed 1", "table_modify fixed out 1 7"] {
        assert!(session(&control, line).contains(refused), "{line}: {}", session(&control, line));
    }
    assert!(!session(&control, "table_modify fixed out 0 7").contains('!'));
    let out = session(&control, "table_clear fixed\ntable_num_entries fixed\ntable_dump_entry fixed 1");
    assert!(out.contains("00000801") || out.contains("0801"), "{out}");
    assert!(!session(&control, "table_dump_entry fixed 0").contains("0800"), "{out}");
    // The next entry does not get the handle of the deleted one, and is not const.
    assert!(session(&control, "table_add fixed out 0x0800 => 1").contains("has been added"));
}

#[test]
fn timeouts_of_entries() {
    let control = control();
    control.execute("table_add l2 deny 5 =>").unwrap();
    assert!(!control.execute("table_dump l2").unwrap().contains("Life"));
    let said = control.execute("table_set_timeout l2 0 5000").unwrap();
    assert_eq!(said, "Setting a 5000 ms timeout for entry 0\n");
    let life = |control: &Control| {
        let text = control.execute("table_dump_entry l2 0").unwrap();
        text.lines().last().unwrap().to_string()
    };
    assert!(life(&control).ends_with("ms since hit, timeout is 5000ms"), "{}", life(&control));
    let entry = control.reply("table_dump_entry l2 0", true).data.unwrap();
    assert_eq!(entry["timeout_ms"], 5000);
    assert!(entry["since_hit_ms"].as_u64().is_some_and(|ms| ms < 60_000));
    let refused = |control: &Control, line: &str| control.execute(line).unwrap_err().to_string();
    assert!(refused(&control, "table_set_timeout l2 7 5000").contains("INVALID_HANDLE"));
    let other = refused(&control, "table_set_timeout ipv4_lpm 0 5000");
    assert!(other.contains("does not support entry timeouts"), "{other}");
    // A file that fails has changed nothing.
    for lines in ["table_set_timeout l2 0 9", "table_delete l2 0", "table_clear l2"] {
        control.load("file", &format!("{lines}\nnonsense_of_a_table_add l2")).unwrap_err();
        control.load("file", &format!("{lines}\ntable_delete l2 3")).unwrap_err();
        assert!(life(&control).ends_with("timeout is 5000ms"), "{lines}");
    }
    control.execute("table_set_timeout l2 0 0").unwrap();
    assert!(!life(&control).contains("Life"));
}

/// Runs a test alone in its process, because slow readers delay the tables of the whole process.
fn alone(name: &str, test: impl FnOnce()) {
    const ALONE: &str = "P4JET_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let name = format!("commands::{name}");
    let done = command.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn refused_file_is_undone_with_slow_readers() {
    alone("refused_file_is_undone_with_slow_readers", || {
        let control = control();
        let (pinned, is_pinned) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let _guard = p4jet_tables::pin();
            pinned.send(()).unwrap();
            // Longer than one change waits.
            std::thread::sleep(std::time::Duration::from_millis(2500));
        });
        is_pinned.recv().unwrap();
        // The short route is deleted only after readers have passed that may have missed the longer one.
        let file = "table_add ipv4_lpm deny 10.0.0.0/8 =>\n\
                    table_add ipv4_lpm deny 10.1.0.0/16 =>\n\
                    table_add ipv4_lpm deny 10.1.0.0/16 =>\n";
        let error = control.load("file", file).unwrap_err();
        assert_eq!((error.line, &*error.error.code), (3, "DUPLICATE_ENTRY"));
        assert!(!error.to_string().contains("undoing failed"), "{error}");
        assert_eq!(control.execute("table_num_entries ipv4_lpm").unwrap(), "0\n");
        reader.join().unwrap();
    });
}

#[test]
fn reset_blocked_by_readers_changes_nothing() {
    alone("reset_blocked_by_readers_changes_nothing", || {
        let control = control();
        let lines = "table_set_default ipv4_lpm deny
                     table_add ipv4_lpm deny 10.1.0.0/16 =>
                     table_add l2 deny 5 =>";
        assert!(!session(&control, lines).contains('!'));
        let before = control.execute("dump").unwrap();
        let guard = p4jet_tables::pin();
        let error = control.execute("reset_state").unwrap_err();
        drop(guard);
        assert!(error.to_string().contains("packet workers"), "{error}");
        assert!(!error.to_string().contains("undoing failed"), "{error}");
        assert_eq!(control.execute("dump").unwrap(), before);
        control.execute("reset_state").unwrap();
        assert_eq!(control.execute("table_num_entries l2").unwrap(), "0\n");
    });
}

/// `$3` denotes the handle that line 3 of a file gives.
#[test]
fn lines_refer_to_objects_of_earlier_lines() {
    let control = control();
    for _ in 0..2 {
        let file = "# a pool\nact_prof_create_member ecmp out 1\nact_prof_create_group ecmp\n\n\
                    act_prof_add_member_to_group ecmp $2 $3\n\
                    table_indirect_add_with_group route 1&&&1 => $3 5\n\
                    table_add l2 deny 1 =>\n\
                    table_modify l2 out $7 => 4\n\
                    table_set_timeout l2 $7 5000\n\
                    mc_mgrp_create 1\nmc_node_create 3 1 2\nmc_node_associate 1 $11\n";
        control.load("file", file).unwrap_or_else(|e| panic!("{e}"));
        assert!(control.execute("table_dump route").unwrap().contains("Index: group("));
        assert!(control.execute("table_dump l2").unwrap().contains("ingress.out - 0004"));
        control.execute("reset_state").unwrap();
        // Other handles are free in the next round.
        control.execute("act_prof_create_member ecmp out 7").unwrap();
        control.execute("mc_node_create 9 1").unwrap();
    }
    for (line, found) in [
        ("table_delete l2 $1", "found $1, expected an entry handle, or $ and the number of an earlier line"),
        ("table_delete l2 $3", "found $3"),
        ("table_delete l2 $x", "found $x"),
    ] {
        let error =
            control.load("file", &format!("# nothing\n{line}\ntable_add l2 deny 1 =>\n")).unwrap_err();
        assert!(error.error.message.contains(found), "{error}");
        assert!(control.execute(line).unwrap_err().message.contains(found));
    }
}
