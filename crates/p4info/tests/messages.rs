//! Every message, with random values in every field, survives writing and reading unchanged.

use bytes::Bytes;
use p4jet_p4info::proto;
use p4jet_p4info::{Format, text};

use crate::random::{DEPTH, Random, fill};

#[test]
fn text_and_binary_are_read_as_they_were_written() {
    let mut random = Random(1);
    for kind in 0..proto::all().len() {
        for _ in 0..20 {
            let mut message = proto::all().swap_remove(kind);
            fill(&mut *message, &mut random, DEPTH);
            let binary = message.encode();
            let name = message.full_name();

            let mut read = proto::all().swap_remove(kind);
            read.merge(Bytes::from(binary.clone())).expect(name);
            assert_eq!(read.encode(), binary, "{name} in binary");

            let written = String::from_utf8(Format::Text.write(&*message)).expect("text is UTF-8");
            let mut read = proto::all().swap_remove(kind);
            text::parse(&written, &mut *read).unwrap_or_else(|why| panic!("{name}: {why}\n{written}"));
            assert_eq!(read.encode(), binary, "{name} as text:\n{written}");
        }
    }
}

#[test]
fn wrong_text_is_refused_with_the_line_and_the_choices() {
    let refused = |text: &str| {
        let mut info = proto::config::P4Info::default();
        text::parse(text, &mut info).expect_err(text)
    };
    assert_eq!(
        refused("tables {\n  preamble { aliass: 3 }\n}"),
        "line 2: `aliass` is not a field of p4.config.v1.Preamble: did you mean `alias`? its fields: `id`, `name`, `alias`, `annotations`, \
         `annotation_locations`, `doc`, `structured_annotations`"
    );
    assert!(refused("tables { size: x }").contains("`size` is a number of 64 bits, not `x`"));
    assert!(refused("tables { preamble { id: 4294967296 } }").contains("`id` is a number of 32 bits"));
    assert!(refused("tables {").contains("a `}` is missing"));
    assert!(
        refused("tables { idle_timeout_behavior: SOMETIMES }").contains("`NO_TIMEOUT`, `NOTIFY_CONTROL`")
    );
    assert!(refused("pkg_info { arch: \"v1model }").contains("unterminated"));
    assert!(refused("pkg_info { arch: \"\\q\" }").contains("is not an escape"));
    assert!(refused("pkg_info 3").contains("`{` expected"));
    let deep = "type_info { new_types { key: \"a\" value { original_type { ".to_string()
        + &"tuple { members {".repeat(200);
    assert!(refused(&deep).contains("nested more than 100 deep"));
}

#[test]
fn other_spellings_of_text_are_read() {
    let mut table = proto::config::Table::default();
    let text = "preamble: < id: 0x10, name: 'a' \"b\" ; > direct_resource_ids: [1, 2]\n# comment\nidle_timeout_behavior: 1 is_const_table: true";
    text::parse(text, &mut table).expect(text);
    assert_eq!(table.preamble.as_ref().map(|p| (p.id, p.name.as_str())), Some((16, "ab")));
    assert_eq!(table.direct_resource_ids, [1, 2]);
    assert_eq!((table.idle_timeout_behavior, table.is_const_table), (1, true));
}
