//! The messages for refused configurations: tests/errors.txt. Each case is a line of `#` with its name, the
//! configuration, a line `----` and the message. UPDATE=1 writes the present messages.

use p4jet_gateway::{Config, render};

const COMMON: &str = r#"[[external]]
name = "internet"
port = 0
mac = "02:00:00:00:00:01"

[[underlay]]
name = "fabric"
port = 1
mac = "02:00:00:00:00:02"
addresses = ["10.0.0.1"]

[[vtep]]
name = "rack1"
address = "10.0.0.11"
next_hop = "02:00:00:00:01:02"

[[network]]
name = "blue"
vni = 100
mac = "02:00:00:00:00:03"
ports = [{ port = 2 }]

[[back_end]]
name = "web1"
network = "blue"
vtep = "rack1"
mac = "02:00:00:00:02:01"

[[pool]]
name = "web"
back_ends = ["web1"]

"#;

/// Returns the message for a configuration; a `+` at its start appends it to [`COMMON`].
fn said(config: &str) -> String {
    let text = match config.strip_prefix("+\n") {
        Some(rest) => format!("{COMMON}{rest}"),
        None => config.to_string(),
    };
    match Config::parse(&text) {
        Ok(_) => "fine\n".to_string(),
        Err(complaints) => render(&complaints, "gateway.toml", &text, false),
    }
}

#[test]
fn errors_are_clear() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/errors.txt");
    let golden = std::fs::read_to_string(path).unwrap();
    let mut now = String::new();
    for case in golden.split("#### ").skip(1) {
        let (name, rest) = case.split_once('\n').unwrap();
        let (config, _) = rest.split_once("----\n").unwrap();
        now += &format!("#### {name}\n{config}----\n{}\n", said(config).trim_end());
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    assert!(golden.split("#### ").skip(1).count() > 30, "the cases are there");
    assert_eq!(now, golden, "UPDATE=1 writes the present messages");
}

#[test]
fn nothing_panics() {
    // Removes each line of the shipped example, and replaces each value.
    let shipped = include_str!("../../../programs/vxlan_gateway/gateway.toml");
    assert!(Config::parse(shipped).is_ok());
    let lines: Vec<&str> = shipped.lines().collect();
    let mut refused = 0;
    for at in 0..lines.len() {
        let mut others = lines.clone();
        let line = others.remove(at);
        let mut texts = vec![others.join("\n")];
        if let Some((name, _)) = line.split_once(" = ") {
            for value in ["-1", "99999999999", "\"\"", "\"é\"", "[]", "{}", "0.5", "[[]]", "\"1.2.3.4/0\""] {
                let mut others = lines.clone();
                let line = format!("{name} = {value}");
                others[at] = &line;
                texts.push(others.join("\n"));
            }
        }
        for text in texts {
            if let Err(complaints) = Config::parse(&text) {
                refused += 1;
                assert!(!complaints.is_empty());
                render(&complaints, "f", &text, false);
            }
        }
    }
    assert!(refused > 100, "{refused}");
}
