# What the prompt says of a change before the switch carries it out, or refuses it.
table_add l2 out 1 => 1
table_add l2 out 1 => 2
table_modify l2 deny 5
table_delete l2 5
table_add ipv4_out NoAction =>
table_set_default l2 out 512
table_num_entries l2
# Counters: what is said of one that belongs to a table.
counter_write seen 7 2 128
counter_write hits 0 2 128
counter_read hits 0
counter_write hits 5 2 128
counter_reset hits
counter_read ingress.hits 0
counter_read hits 5
