# What reset_state takes away, and what it leaves: entries and defaults of the program, and CRCs.
table_add l2 out 1 => 1
table_set_default l2 out 3
counter_write seen 1 2 3
register_write cells 1 7
act_prof_create_member ecmp out 1
act_prof_create_group ecmp
act_prof_add_member_to_group ecmp 0 0
table_indirect_add_with_group route 1&&&1 => 0 1
table_indirect_set_default route 0
act_prof_create_member shared out 1
table_indirect_add near 1 => 0
table_indirect_add remote 1 => 0
meter_set_rates ingress.police 1 1:2 3:4
mc_mgrp_create 1
mc_node_create 1 2
mc_node_associate 1 0
mc_set_lag_membership 1 2
mirroring_add 1 2
pvs_add value_set 1
reset_state 1
reset_state
table_dump l2
counter_read seen 1
register_read cells 1
table_dump route
table_dump near
table_dump remote
table_dump fixed
meter_get_rates ingress.police 1
mc_dump
mirroring_get 1
pvs_get value_set
# Handles count from 0 again.
act_prof_create_member ecmp out 1
act_prof_create_group ecmp
mc_node_create 1 2
table_add l2 out 1 => 1
reset_state
