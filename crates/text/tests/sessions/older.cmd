# The older spellings, which name the table.
table_indirect_create_member route out 1
table_indirect_create_member route out 2
table_indirect_modify_member route out 0 5
table_indirect_create_group route
table_indirect_add_member_to_group route 0 0
table_indirect_add_member_to_group route 1 0
table_indirect_remove_member_from_group route 1 0
act_prof_dump ecmp
table_indirect_delete_member route 1
table_indirect_delete_group route 0
act_prof_dump ecmp

# Wrong.
table_indirect_create_member
table_indirect_create_member rout out 1
table_indirect_create_member l2 out 1
table_indirect_create_member route forward 1
table_indirect_create_group next_hop
table_indirect_create_group l2
table_indirect_modify_member route out 9 5
table_indirect_delete_member route 9
table_indirect_delete_group route 9
table_indirect_add_member_to_group route 0
table_indirect_remove_member_from_group route 0 0

# Two tables share one profile: the older spellings do not say which is meant.
table_indirect_create_member near out 1
act_prof_create_member shared out 1
act_prof_create_group shared
act_prof_add_member_to_group shared 0 0
table_indirect_add near 0x800 => 0
table_indirect_add_with_group remote 0x800 => 0
table_dump_member remote 0
table_dump_group near 0
act_prof_delete_member shared 0
table_indirect_delete near 0
table_dump near
table_dump remote
