# Groups of members, and entries that name them.
act_prof_dump ecmp
act_prof_create_member ecmp out 1
act_prof_create_member ecmp out 2
act_prof_create_member ecmp deny
act_prof_create_group ecmp
act_prof_create_group ingress.ecmp
act_prof_add_member_to_group ecmp 1 0
act_prof_add_member_to_group ecmp 0 0
act_prof_add_member_to_group ecmp 0 1
act_prof_dump_group ecmp 0
table_dump_group route 1
table_indirect_add_with_group route 10.0.0.0&&&255.0.0.0 => 0 20
table_indirect_add route 10.1.0.0&&&255.255.0.0 => 2 10
table_indirect_set_default_with_group route 1
table_dump route
act_prof_remove_member_from_group ecmp 1 0
table_dump_entry route 0
act_prof_dump_group ecmp 0

# Wrong.
act_prof_create_group ecmq
act_prof_create_group
act_prof_create_group ecmp 1
act_prof_create_group hops
act_prof_delete_group ecmp 0
act_prof_delete_group ecmp 1
act_prof_delete_group ecmp 9
act_prof_delete_group ecmp
act_prof_delete_group ecmp x
act_prof_delete_group ecmp 0 1
act_prof_delete_group hops 0
act_prof_delete_member ecmp 0
act_prof_add_member_to_group ecmp 0 0
act_prof_add_member_to_group ecmp 9 0
act_prof_add_member_to_group ecmp 0 9
act_prof_add_member_to_group ecmp 9 9
act_prof_add_member_to_group ecmp 0
act_prof_add_member_to_group ecmp 0 0 0
act_prof_add_member_to_group ecmp x 0
act_prof_add_member_to_group ecmp 0 x
act_prof_add_member_to_group hops 0 0
act_prof_remove_member_from_group ecmp 2 0
act_prof_remove_member_from_group ecmp 9 0
act_prof_remove_member_from_group ecmp 0 9
act_prof_remove_member_from_group ecmp 0
act_prof_remove_member_from_group hops 0 0
act_prof_dump_group ecmp 9
act_prof_dump_group hops 0
act_prof_dump_group ecmp
table_dump_group l2 0
table_dump_group route 9
table_indirect_add_with_group route 10.2.0.0&&&255.255.0.0 => 9 1
table_indirect_add_with_group route 10.2.0.0&&&255.255.0.0 => 0
table_indirect_add_with_group route 10.2.0.0&&&255.255.0.0 => 0 x
table_indirect_add_with_group route 10.2.0.0&&&255.255.0.0 => 0 1 2
table_indirect_add_with_group route 10.2.0.0 => 0 1
table_indirect_add_with_group route 10.0.0.0&&&255.0.0.0 => 0 20
table_indirect_add_with_group next_hop 1 => 0
table_indirect_add_with_group l2 1 => 0
table_indirect_set_default_with_group route 9
table_indirect_set_default_with_group next_hop 0
table_indirect_set_default_with_group l2 0
table_indirect_set_default_with_group route
table_indirect_set_default remote 0
table_indirect_set_default_with_group remote 0

# No entry may name an empty group; one that has become empty, and a default, may.
act_prof_create_group ecmp
table_indirect_add_with_group route 10.2.0.0&&&255.255.0.0 => 2 1
table_indirect_set_default_with_group route 2
act_prof_remove_member_from_group ecmp 0 0
table_dump route

# All goes, users first.
table_indirect_reset_default route
table_indirect_delete route 0
table_indirect_delete route 1
act_prof_delete_group ecmp 2
act_prof_delete_group ecmp 1
act_prof_delete_group ecmp 0
act_prof_delete_member ecmp 2
act_prof_delete_member ecmp 1
act_prof_delete_member ecmp 0
table_dump route
act_prof_create_group ecmp
