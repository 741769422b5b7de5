//! The list of commands with their help.

use p4jet_suggest::nearest;

/// A command.
pub(crate) struct Spec {
    /// Its name.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: &'static str,
    /// Its effect.
    pub about: &'static str,
    /// The objects that it uses.
    pub touches: Touches,
}

impl Spec {
    /// The possible first arguments: `start`, `stop` and `list` of `start <port> … | stop <port> | list`.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'static str> {
        let optional = self.arguments.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let (forms, between) = optional.map_or((self.arguments, " | "), |inside| (inside, "|"));
        let first = forms.split(between).filter_map(|form| form.split_whitespace().next());
        first.filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()))
    }
}

/// The objects that a command uses. Commands have no more rights than their kind needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touches {
    /// Tables, counters and other state that commands set.
    State,
    /// The process: its ports, its program, its end.
    Switch,
    /// Files and interfaces of the switch's machine, subject to the client's rights ([`crate::Rights`]).
    Machine,
    /// Files of the client, which the client itself opens.
    Client,
}

const fn spec(name: &'static str, touches: Touches, arguments: &'static str, about: &'static str) -> Spec {
    Spec { name, arguments, about, touches }
}

use Touches::{Client, Machine, State, Switch};

/// The commands of p4jet, sorted by name.
pub(crate) const COMMANDS: &[Spec] = &[
    spec(
        "act_prof_add_member_to_group",
        State,
        "<action profile name> <member handle> <group handle>",
        "Add member to group in an action profile",
    ),
    spec("act_prof_create_group", State, "<action profile name>", "Add a group to an action profile"),
    spec(
        "act_prof_create_member",
        State,
        "<action profile name> <action name> [action parameters]",
        "Add a member to an action profile",
    ),
    spec(
        "act_prof_delete_group",
        State,
        "<action profile name> <group handle>",
        "Delete a group from an action profile",
    ),
    spec(
        "act_prof_delete_member",
        State,
        "<action profile name> <member handle>",
        "Delete a member in an action profile",
    ),
    spec("act_prof_dump", State, "<action profile name>", "Display members and groups of an action profile"),
    spec(
        "act_prof_dump_group",
        State,
        "<action profile name> <group handle>",
        "Display the members of a group",
    ),
    spec(
        "act_prof_dump_member",
        State,
        "<action profile name> <member handle>",
        "Display the action of a member",
    ),
    spec(
        "act_prof_modify_member",
        State,
        "<action profile name> <action name> <member handle> [=>] [action parameters]",
        "Modify member in an action profile",
    ),
    spec(
        "act_prof_remove_member_from_group",
        State,
        "<action profile name> <member handle> <group handle>",
        "Remove member from group in an action profile",
    ),
    spec(
        "capture",
        Machine,
        "start <port> <file> [in|out|both] [snaplen=<bytes>] [count=<frames>] | stop <port> | list",
        "Write the frames of a port to a pcap file",
    ),
    spec("counter_read", State, "<name> <index>", "Read counter value"),
    spec("counter_reset", State, "<name>", "Reset counter"),
    spec("counter_write", State, "<name> <index> <packets> <bytes>", "Write counter value"),
    spec(
        "dump",
        State,
        "[counters]",
        "Display everything that was set, one JSON object per line; `counters` adds the counters",
    ),
    spec("get_time_elapsed", State, "", "Microseconds since the switch started"),
    spec("get_time_since_epoch", State, "", "Microseconds since 1970"),
    spec("help", State, "[command]", "List available commands, or describe one of them"),
    spec(
        "inject",
        Switch,
        "[wait=<ms>] <port> <hexadecimal digits>|<layers>|<capture>",
        "Process packets as if they had arrived at a port; wait=<ms>: maximum wait for copies",
    ),
    spec("load", Machine, "<path of a program>", "Compile a program and replace the running one by it"),
    spec("load_new_config_file", Machine, "<path of a program>", "Compile a program for swap_configs"),
    spec("mc_dump", State, "", "Display multicast groups, their nodes, and lags"),
    spec("mc_mgrp_create", State, "<group>", "Create multicast group"),
    spec("mc_mgrp_destroy", State, "<group>", "Destroy multicast group"),
    spec("mc_node_associate", State, "<group> <node handle>", "Add a node to a multicast group"),
    spec("mc_node_create", State, "<rid> <ports> [ | <lags> ]", "Create multicast node"),
    spec("mc_node_destroy", State, "<node handle>", "Destroy multicast node"),
    spec("mc_node_dissociate", State, "<group> <node handle>", "Remove a node from a multicast group"),
    spec("mc_node_update", State, "<node handle> <ports> [ | <lags> ]", "Update multicast node"),
    spec("mc_set_lag_membership", State, "<lag> <ports>", "Set the ports of a lag"),
    spec(
        "meter_array_set_rates",
        State,
        "<name> <rate>:<burst> <rate>:<burst>",
        "Configure rates for an entire meter array",
    ),
    spec("meter_get_rates", State, "<name> <index>", "Retrieve rates for a meter"),
    spec(
        "meter_set_rates",
        State,
        "<name> <index> <rate>:<burst> <rate>:<burst>",
        "Configure the committed and the peak rate of a meter, in units per microsecond and units",
    ),
    spec(
        "mirroring_add",
        State,
        "<session> <port> [bytes]",
        "Send the copies of a clone session to a port, truncated if a length is given",
    ),
    spec(
        "mirroring_add_mc",
        State,
        "<session> <group>",
        "Send the copies of a clone session to a multicast group",
    ),
    spec("mirroring_delete", State, "<session>", "Delete a clone session"),
    spec("mirroring_get", State, "<session>", "Display a clone session"),
    spec(
        "port_add",
        Machine,
        "<interface> <port> [file]",
        "Add a port to the switch, and capture its frames",
    ),
    spec("port_remove", Switch, "<port>", "Remove a port from the switch"),
    spec("pvs_add", State, "<value set name> <value>", "Add a value to a parser value set"),
    spec("pvs_clear", State, "<value set name>", "Remove all values from a parser value set"),
    spec("pvs_get", State, "<value set name>", "Display the values of a parser value set"),
    spec("pvs_remove", State, "<value set name> <value>", "Remove a value from a parser value set"),
    spec("register_read", State, "<name> [index]", "Read register value, or the entire array"),
    spec("register_reset", State, "<name>", "Reset all the cells in the register array to 0"),
    spec("register_write", State, "<name> <index> <value>", "Write register value"),
    spec(
        "reset_state",
        State,
        "",
        "Reset all state of the switch: entries, members, groups, sessions, value sets, registers, counters, meters",
    ),
    spec("restore", Client, "<path>", "Replace the whole state by the output of dump or serialize_state"),
    spec("serialize_state", Client, "<path>", "Write everything that was set to a file"),
    spec(
        "set_crc16_parameters",
        State,
        "<name> <polynomial> <initial remainder> <final xor value> <reflect data?> <reflect remainder?>",
        "Change the parameters of a crc16_custom hash",
    ),
    spec(
        "set_crc32_parameters",
        State,
        "<name> <polynomial> <initial remainder> <final xor value> <reflect data?> <reflect remainder?>",
        "Change the parameters of a crc32_custom hash",
    ),
    spec(
        "set_port_bitrate",
        State,
        "<bits per second> [<port>]",
        "Set the total rate of the queues of one / all ports",
    ),
    spec(
        "set_port_rate",
        State,
        "<packets per second> [<port>]",
        "Set the total rate of the queues of one / all ports",
    ),
    spec(
        "set_queue_bitrate",
        State,
        "<bits per second> [<port> [<priority>]]",
        "Set rate of one / all egress queue(s); 0 is no limit",
    ),
    spec(
        "set_queue_depth",
        State,
        "<packets> [<port> [<priority>]]",
        "Set depth of one / all egress queue(s)",
    ),
    spec(
        "set_queue_rate",
        State,
        "<packets per second> [<port> [<priority>]]",
        "Set rate of one / all egress queue(s); 0 is no limit",
    ),
    spec(
        "set_queue_weight",
        State,
        "<weight> [<port> [<priority>]]",
        "Set the share of the rate that strict queues leave; 0 makes a queue strict",
    ),
    spec("show_actions", State, "", "List actions defined in the P4 program"),
    spec("show_ports", Switch, "", "Show the ports of the switch"),
    spec("show_pvs", State, "", "List parser value sets defined in the P4 program"),
    spec("show_queues", State, "", "Display configuration and statistics of the output queues"),
    spec("show_tables", State, "", "List tables defined in the P4 program"),
    spec(
        "stats",
        Switch,
        "[on|off]",
        "Show counts of ports, tables, actions and workers; on / off: count tables and actions, or not",
    ),
    spec("stop", Switch, "", "Stop the switch"),
    spec("swap_configs", Switch, "", "Activate the program loaded by load_new_config_file"),
    spec("switch_info", State, "", "Show basic info about the switch"),
    spec(
        "table_add",
        State,
        "<table name> <action name> <match fields> [=>] <action parameters> [priority]",
        "Add entry to a match table; a priority is required if a key is ternary, range or optional; the smallest wins",
    ),
    spec(
        "table_clear",
        State,
        "<table name>",
        "Clear all entries in a match table, but not the default entry",
    ),
    spec("table_delete", State, "<table name> <entry handle>", "Delete entry from a match table"),
    spec("table_dump", State, "<table name>", "Display entries in a match-table"),
    spec(
        "table_dump_entry",
        State,
        "<table name> <entry handle>",
        "Display some information about a table entry",
    ),
    spec(
        "table_dump_entry_from_key",
        State,
        "<table name> <match fields> [priority]",
        "Display some information about a table entry",
    ),
    spec("table_dump_group", State, "<table name> <group handle>", "Display the members of a group"),
    spec("table_dump_member", State, "<table name> <member handle>", "Display the action of a member"),
    spec(
        "table_indirect_add",
        State,
        "<table name> <match fields> [=>] <member handle> [priority]",
        "Add entry with a member",
    ),
    spec(
        "table_indirect_add_member_to_group",
        State,
        "<table name> <member handle> <group handle>",
        "Older spelling of act_prof_add_member_to_group",
    ),
    spec(
        "table_indirect_add_with_group",
        State,
        "<table name> <match fields> [=>] <group handle> [priority]",
        "Add entry with a group",
    ),
    spec("table_indirect_create_group", State, "<table name>", "Older spelling of act_prof_create_group"),
    spec(
        "table_indirect_create_member",
        State,
        "<table name> <action name> [action parameters]",
        "Older spelling of act_prof_create_member",
    ),
    spec(
        "table_indirect_delete",
        State,
        "<table name> <entry handle>",
        "Delete entry from a table with an action profile",
    ),
    spec(
        "table_indirect_delete_group",
        State,
        "<table name> <group handle>",
        "Older spelling of act_prof_delete_group",
    ),
    spec(
        "table_indirect_delete_member",
        State,
        "<table name> <member handle>",
        "Older spelling of act_prof_delete_member",
    ),
    spec(
        "table_indirect_modify_member",
        State,
        "<table name> <action name> <member handle> [action parameters]",
        "Older spelling of act_prof_modify_member",
    ),
    spec(
        "table_indirect_remove_member_from_group",
        State,
        "<table name> <member handle> <group handle>",
        "Older spelling of act_prof_remove_member_from_group",
    ),
    spec(
        "table_indirect_reset_default",
        State,
        "<table name>",
        "Reset default entry of a table with an action profile",
    ),
    spec(
        "table_indirect_set_default",
        State,
        "<table name> <member handle>",
        "Set default member of a table with an action profile",
    ),
    spec(
        "table_indirect_set_default_with_group",
        State,
        "<table name> <group handle>",
        "Set default group of a table with an action profile",
    ),
    spec("table_info", State, "<table name>", "Show info about a table"),
    spec(
        "table_modify",
        State,
        "<table name> <action name> <entry handle> [=>] <action parameters>",
        "Change the action of an entry of a match table",
    ),
    spec("table_num_entries", State, "<table name>", "Return the number of entries in a match table"),
    spec("table_reset_default", State, "<table name>", "Reset default entry for a match table"),
    spec(
        "table_set_default",
        State,
        "<table name> <action name> <action parameters>",
        "Set default action for a match table",
    ),
    spec(
        "table_set_timeout",
        State,
        "<table name> <entry handle> <timeout (ms)>",
        "Set the time without a hit after which an entry ages; 0 means never",
    ),
    spec("table_show_actions", State, "<table name>", "List one table's actions as per the P4 program"),
    spec(
        "trace",
        Switch,
        "add [port=<port>] [<field>=<value>[&&&<mask>]] [bytes=<at>:<hex>] [count=<packets>] | list | show [<trace>] \
         | remove <trace> | packet <port> <hexadecimal digits>|<layers>|<capture>",
        "Show the steps of live packets, or of a given packet",
    ),
];

/// Commands of bmv2 that are not runtime commands of p4jet, with the reason. `!` stands for all commands
/// that begin with it.
const LACKING: &[(&str, &str)] = &[
    ("set_toeplitz_hash_key", "neither v1model nor PSA has Toeplitz hashes"),
    ("write_config_to_file", "p4jet runs P4 source and writes no JSON for it"),
    ("shell", "commands of the operating system run only at the prompt"),
    ("!", "commands of the operating system run only at the prompt"),
];

/// Not a command, but a word of `p4jet ctl`.
const SUBSCRIBE: &str = "subscribe";

/// The command of that name.
pub(crate) fn find(name: &str) -> Option<&'static Spec> {
    COMMANDS.binary_search_by(|spec| spec.name.cmp(name)).ok().map(|i| &COMMANDS[i])
}

/// The reason why a command of bmv2 is not a runtime command of p4jet.
pub(crate) fn lacking(name: &str) -> Option<&'static str> {
    let matches = |known: &str| known == name || (known == "!" && name.starts_with('!'));
    LACKING.iter().find(|(known, _)| matches(known)).map(|(_, why)| *why)
}

/// True if p4jet or bmv2 has a command of that name, even if p4jet refuses it.
pub(crate) fn is_command(name: &str) -> bool {
    find(name).is_some() || lacking(name).is_some()
}

/// The names of p4jet's commands.
pub(crate) fn command_names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|spec| spec.name)
}

/// `: did you mean …?`, if a command has a similar name.
pub(crate) fn suggestion(name: &str) -> String {
    if name == SUBSCRIBE {
        return ": it has a connection to itself: `p4jet ctl subscribe`".to_string();
    }
    let near = nearest(name, command_names().chain([SUBSCRIBE]));
    near.map_or_else(String::new, |near| format!(": did you mean `{near}`?"))
}

/// The output of `help`.
pub(crate) fn help() -> String {
    let title = "Documented commands (type help <topic>):";
    let mut out = format!("\n{title}\n{}\n", "=".repeat(title.len()));
    // Two columns fit in 80 characters, as the longest name has 39.
    let rows = COMMANDS.len().div_ceil(2);
    for (row, left) in COMMANDS.iter().take(rows).enumerate() {
        let right = COMMANDS.get(rows + row).map_or("", |spec| spec.name);
        out += format!("{:<40}{right}", left.name).trim_end();
        out.push('\n');
    }
    out
}

/// The output of `help COMMAND`.
pub(crate) fn help_for(spec: &Spec) -> String {
    format!("{}: {}\n", spec.about, usage(spec))
}

/// The command with its arguments.
pub(crate) fn usage(spec: &Spec) -> String {
    format!("{} {}", spec.name, spec.arguments).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_for_the_search() {
        assert!(COMMANDS.is_sorted_by_key(|spec| spec.name));
        assert_eq!(find("table_add").unwrap().name, "table_add");
        assert!(find("table").is_none());
    }

    #[test]
    fn knows_what_is_missing() {
        assert!(lacking("write_config_to_file").is_some());
        assert_eq!(lacking("!ls"), Some("commands of the operating system run only at the prompt"));
        assert_eq!(lacking("table_add"), None);
        assert!(COMMANDS.iter().all(|spec| lacking(spec.name).is_none()));
    }
}
