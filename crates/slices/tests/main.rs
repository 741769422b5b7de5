//! Configurations and their entries.

use p4jet_slices::{Changes, Config, Scheme, commands, entries};

const SLICES: &str = r#"
capacity_mbit = 1000

[[slice]]
name = "dc"
number = 1
match = [{ prefix = "192.0.2.0/24" }, { vni = 100 }]
rate_mbit = 48
burst_ms = 20
scheme = "ecn"
target_ms = 5
priority = 7

[[slice]]
name = "peering"
number = 3
match = [{ prefix = "2001:db8::/32", protocol = "tcp", port = "80-443" }, { qfi = 9 }, { source = "10.0.0.1", dscp = 46 }]
rate_mbit = 240
burst_ms = 30
scheme = "early-drop"
target_ms = 10
packet_bytes = 1500
"#;

fn config(text: &str) -> Config {
    Config::parse(text).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

#[test]
fn entries_by_hand() {
    // 2^27 / 48, 20 ms and 5 ms in 1/65536 us; for a packet 12000 / 240 us; a probability of 0.1 over 20000 us.
    let expected = "\
table_add classify_v4 to_slice 0x0&&&0x0 0xc0000200&&&0xffffff00 0x0&&&0x0 0x0&&&0x0 0x0->0xffff 0x0->0xffff 0x0&&&0x0 0x0&&&0x0 => 0x1 1
table_add classify_v4 to_slice 0x0&&&0x0 0x0&&&0x0 0x0&&&0x0 0x0&&&0x0 0x0->0xffff 0x0->0xffff 0x1&&&0x3 0x64&&&0xffffff => 0x1 2
table_add classify_v4 to_slice 0x0&&&0x0 0x0&&&0x0 0x0&&&0x0 0x0&&&0x0 0x0->0xffff 0x0->0xffff 0x2&&&0x3 0x9&&&0xffffff => 0x3 4
table_add classify_v4 to_slice 0xa000001&&&0xffffffff 0x0&&&0x0 0x2e&&&0x3f 0x0&&&0x0 0x0->0xffff 0x0->0xffff 0x0&&&0x0 0x0&&&0x0 => 0x3 5
table_add classify_v6 to_slice 0x0&&&0x0 0x0&&&0x0 0x0&&&0x0 0x0&&&0x0 0x0->0xffff 0x0->0xffff 0x1&&&0x3 0x64&&&0xffffff => 0x1 2
table_add classify_v6 to_slice 0x0&&&0x0 0x0&&&0x0 0x0&&&0x0 0x0&&&0x0 0x0->0xffff 0x0->0xffff 0x2&&&0x3 0x9&&&0xffffff => 0x3 4
table_add classify_v6 to_slice 0x0&&&0x0 0x20010db8000000000000000000000000&&&0xffffffff000000000000000000000000 0x0&&&0x0 0x6&&&0xff 0x0->0xffff 0x50->0x1bb 0x0&&&0x0 0x0&&&0x0 => 0x3 3
table_add slices ecn_step 0x1 => 0x7 0x0 0x2aaaab 0x4e200000 0x13880000
table_add slices early_drop 0x3 => 0x0 0x320000 0x0 0x75300000 0x27100000 0x53e3
";
    let mut found: Vec<String> = commands(&entries(&config(SLICES))).lines().map(str::to_string).collect();
    let mut expected: Vec<String> = expected.lines().map(str::to_string).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn changes_touch_only_what_differs() {
    let before = entries(&config(SLICES));
    assert!(Changes::new(&before, &before).updates.is_empty());
    let after = entries(&config(&SLICES.replace("rate_mbit = 48", "rate_mbit = 49")));
    let changes = Changes::new(&after, &before);
    assert_eq!((changes.counts, changes.updates.len()), ([0, 1, 0], 1));
    assert_eq!(changes.summary(), "0 to add, 1 to change, 0 to remove");
    // Without the slice `dc` in front, the others' matches have other priorities.
    let (head, rest) = SLICES.split_at(SLICES.find("[[slice]]").unwrap());
    let peering = &rest[rest[1..].find("[[slice]]").unwrap() + 1..];
    let changes = Changes::new(&entries(&config(&format!("{head}{peering}"))), &before);
    assert_eq!(changes.counts, [4, 0, 8]);
    // Limits first, then matches; at the end, first matches, then limits.
    let tables: Vec<String> = changes.updates.iter().map(|update| format!("{update:?}")).collect();
    assert!(tables.last().unwrap().contains("ingress.slices"), "{tables:?}");
    let changes = Changes::new(&before, &entries(&config(head)));
    assert_eq!(changes.counts, [9, 0, 0]);
    assert!(format!("{:?}", changes.updates[0]).contains("ingress.slices"));
}

/// Each change of the good file is a mistake, at the place of the text that changed.
#[test]
fn mistakes() {
    let cases = [
        ("rate_mbit = 48", "rate_mbit = 0", "found 0, expected a rate in Mbit/s, from 0.001 to 1000000"),
        ("rate_mbit = 48", "rate_mbit = nan", "found NaN, expected a rate"),
        ("number = 3", "number = 1", "the slice `dc` has the number 1, too"),
        ("number = 3", "number = 1024", "found 1024, expected the number of a slice, from 1 to 1023"),
        ("\"peering\"", "\"dc\"", "another slice has the name `dc`"),
        ("\"peering\"", "\"\"", "expected a name"),
        (
            "\"ecn\"",
            "\"enc\"",
            "found `enc`, expected tail-drop, ecn, early-drop, early-mark; did you mean `ecn`?",
        ),
        ("target_ms = 5\n", "", "`ecn` needs target_ms"),
        ("target_ms = 5", "target_ms = 20", "found 20, expected less than burst_ms, 20"),
        ("\"ecn\"", "\"tail-drop\"", "tail-drop has no target_ms"),
        ("target_ms = 5", "target_ms = 5\ndrop_share = 0.1", "`ecn` has no drop_share"),
        ("target_ms = 10", "target_ms = 10\ndrop_share = 2", "found 2, expected a probability"),
        ("burst_ms = 20", "burst_ms = 0.1", "found 0.1, expected at least 0.250: a packet of 1500 bytes"),
        ("priority = 7", "priority = 8", "found 8, expected a priority, from 0 to 7"),
        ("192.0.2.0/24", "192.0.2.1/24", "`192.0.2.1/24` has bits beyond its length of 24"),
        ("192.0.2.0/24", "192.0.2.0/33", "found /33, expected at most /32"),
        ("192.0.2.0/24", "192.0.2/24", "found `192.0.2/24`, expected a prefix"),
        ("{ vni = 100 }", "{ vni = 16777216 }", "found 16777216, expected a VNI"),
        ("{ vni = 100 }", "{ vni = 1, qfi = 1 }", "no packet has both a VNI and a QFI"),
        ("{ vni = 100 }", "{ qfi = 64 }", "found 64, expected a QFI"),
        ("{ vni = 100 }", "{ prefix = \"::/0\", source = \"0.0.0.0/0\" }", "different versions of IP"),
        ("{ vni = 100 }", "{ qfi = 9 }", "the slice `dc` has the same match"),
        ("{ vni = 100 }", "{ nvi = 100 }", "unknown field `nvi`"),
        ("dscp = 46", "dscp = 64", "found 64, expected a DSCP"),
        ("\"80-443\"", "\"443-80\"", "found `443-80`, expected a port"),
        ("\"80-443\"", "0", "found `0`, expected a port"),
        ("\"tcp\"", "\"tpc\"", "found `tpc`, expected a protocol"),
        ("capacity_mbit = 1000", "capacity_mbit = 0", "found 0, expected the capacity"),
        // 0.96 Mbit for dc, then 7.2 Mbit through what dc leaves: 0.96/265 + 7.2/217 = 36.8 ms; 0.96/316 + 7.2/268 = 29.9 ms.
        (
            "capacity_mbit = 1000",
            "capacity_mbit = 265",
            "more than the capacity: these slices need capacity_mbit = 316",
        ),
        (
            "burst_ms = 30",
            "burst_ms = 30\ndelay_ms = 8",
            "the worst-case delay of `peering` is 8.523 ms, more than 8 ms",
        ),
    ];
    for (good, bad, message) in cases {
        assert!(SLICES.contains(good), "{good}");
        let text = SLICES.replacen(good, bad, 1);
        let mistakes = Config::parse(&text).expect_err(bad);
        let lines: Vec<String> = mistakes.iter().map(|mistake| mistake.line("slices.toml", &text)).collect();
        assert!(lines.iter().any(|line| line.contains(message)), "{bad}: {lines:#?}");
        assert!(lines.iter().all(|line| line.starts_with("slices.toml:")), "{lines:?}");
    }
    let allowed = SLICES.replace("= 1000", "= 265\nallow_longer_delays = true");
    assert_eq!(config(&allowed).slices[1].scheme, Scheme::EarlyDrop(0.1));
}

/// Any text gives a configuration or mistakes.
#[test]
fn cut_and_doubled_texts() {
    for at in 0..SLICES.len() {
        let _ = Config::parse(&SLICES[..at]);
        let _ = Config::parse(&format!("{}{}", &SLICES[..at], &SLICES[at / 2..]));
        let _ = Config::parse(&SLICES.replacen(&SLICES[at..=at], "9", 1));
    }
}
