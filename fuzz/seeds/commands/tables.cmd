show_tables
show_actions
table_info acl
table_add l2 out 02:00:00:00:00:01 => 1
table_add ingress.ipv4_lpm forward 10.0.0.0/8 => 00:11:22:33:44:55 2
table_add acl deny 1&&&3 1->5 6 ::1 => 20
table_modify l2 deny 0
table_dump l2
table_dump_entry l2 0
table_dump_entry_from_key l2 02:00:00:00:00:01
table_num_entries acl
table_set_default ipv4_lpm ingress.deny
table_reset_default ipv4_lpm
table_delete l2 0
table_clear acl
table_add fixed out 1 => 1
