# Members of an action profile without groups, and entries that name them.
act_prof_dump hops
act_prof_create_member hops forward 00:11:22:33:44:55 3
act_prof_create_member ingress.hops ingress.deny
act_prof_dump_member hops 0
table_dump_member next_hop 1
act_prof_modify_member hops forward 1 => 7 8
act_prof_modify_member hops forward 0 9 10
act_prof_modify_member hops deny 1
act_prof_modify_member hops deny 1 =>
act_prof_dump hops
table_indirect_add next_hop 00:00:00:00:00:07 => 1
table_indirect_set_default next_hop 0
table_dump next_hop
table_dump_entry next_hop 0

# Wrong: profiles, members, actions, data.
act_prof_create_member hop forward 1 2
act_prof_create_member
act_prof_create_member hops
act_prof_create_member hops out 1
act_prof_create_member hops fwd 1 2
act_prof_create_member hops forward 1
act_prof_create_member hops forward 1 2 3
act_prof_create_member hops forward 1 512
act_prof_create_member hops forward 00:11:22:33:44 1
act_prof_modify_member hops forward 9 1 2
act_prof_modify_member hops forward x 1 2
act_prof_modify_member hops forward
act_prof_modify_member hops forward 0 => 1
act_prof_modify_member hops out 0 1
act_prof_delete_member hops 0
act_prof_delete_member hops 1
act_prof_delete_member hops 9
act_prof_delete_member hops
act_prof_delete_member hops -1
act_prof_delete_member hops 4294967296
act_prof_delete_member hops 0 1
act_prof_dump_member hops 9
act_prof_dump_member hops x
act_prof_dump
act_prof_dump hops x
act_prof_dump egress
table_dump_member l2 0
table_dump_member next_hop 9
table_dump_member next_hop

# Wrong: entries.
table_indirect_add next_hop 8 => 9
table_indirect_add next_hop 7 => 0
table_indirect_add next_hop 8 0 0
table_indirect_add next_hop 8 =>
table_indirect_add next_hop 8 => 0 1
table_indirect_add next_hop 8 9 => 0
table_indirect_add next_hop => 0
table_indirect_add next_hop 0x1000000000000 => 0
table_indirect_add next_hop 8 => x
table_indirect_add l2 8 => 0
table_indirect_add
table_indirect_add nxt_hop 8 => 0
table_indirect_set_default next_hop 9
table_indirect_set_default next_hop
table_indirect_set_default next_hop 0 1
table_indirect_set_default l2 0
table_indirect_delete next_hop 9
table_indirect_delete next_hop
table_indirect_delete next_hop x
table_indirect_delete next_hop 0 1
table_indirect_delete l2 0
table_indirect_reset_default next_hop 0
table_indirect_reset_default l2

# The commands of other tables are not for these.
table_add next_hop deny 8 =>
table_set_default next_hop deny
table_modify next_hop deny 0
table_delete next_hop 0
table_reset_default next_hop

# Nothing of that changed anything.
table_dump next_hop

# The smallest free handle is given; a profile has a size, a table too.
act_prof_create_member hops deny
act_prof_create_member hops deny
table_indirect_add next_hop 1 => 2
table_indirect_add next_hop 2 => 2
table_indirect_add next_hop 3 => 2
table_indirect_add next_hop 4 => 2
table_indirect_delete next_hop 0
act_prof_delete_member hops 1
act_prof_create_member hops forward 1 1
table_indirect_reset_default next_hop
act_prof_delete_member hops 0
table_indirect_add next_hop 5 => 1
table_indirect_delete next_hop 0
table_dump next_hop
