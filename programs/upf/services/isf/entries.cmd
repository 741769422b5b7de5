# Port 0: a data network. Port 1: gNBs. Ports 2 and 3: replicas of the uplink function; ports 4 and 5: of the downlink function.
table_add attachments attach 0 0 => 1 02:00:00:00:00:01 0 1
table_add attachments attach 1 0 => 2 02:00:00:00:00:02 1 0
table_add attachments attach 6 0 => 1 02:00:00:00:00:06 1 1
pvs_add own_endpoints_v4 10.0.0.1
pvs_add own_endpoints_v6 2001:db8::1
table_add endpoints_v4 endpoint 10.0.0.1 => 1 0
table_add endpoints_v6 endpoint 2001:db8::1 => 2 1

# A group has a fixed number of members: a replica that ends hands its members to others, and no other UE moves.
act_prof_create_group replicas
act_prof_create_group replicas
act_prof_create_member replicas to_service 2 02:00:00:00:01:02
act_prof_create_member replicas to_service 3 02:00:00:00:01:03
act_prof_create_member replicas to_service 4 02:00:00:00:01:04
act_prof_create_member replicas to_service 5 02:00:00:00:01:05
act_prof_add_member_to_group replicas 0 0
act_prof_add_member_to_group replicas 1 0
act_prof_add_member_to_group replicas 2 1
act_prof_add_member_to_group replicas 3 1
table_indirect_add_with_group paths 1 => 0
table_indirect_add_with_group paths 2 => 1
# Port 6 is another data network with its downlink function, whatever comes.
act_prof_create_member replicas to_service 7 02:00:00:00:01:07
table_indirect_add paths 3 => 4
table_add fixed_paths to_path 6 0 => 3
# What the uplink functions answer goes to the gNBs.
table_add returns back 2 => 1
table_add returns back 3 => 1
