# Port 0: clients and the Internet. Port 1: the underlay. Ports 2, and 3 in VLAN 10: the tenant's network 1, VNI 100.
table_add attachments external 0 0 => 0 02:00:00:00:00:01
table_add attachments underlay 1 0 => 0 02:00:00:00:00:02
table_add attachments tenant 2 0 => 1 0 02:00:00:00:00:03 100 1 1
table_add attachments tenant 3 10 => 1 0 02:00:00:00:00:03 100 1 1

# Tunnels: here 10.0.0.1 and 2001:db8::a, there the VTEPs 1, 2 and 3. IP packets in them: underlay's MTU of 1500 less 50, or 70.
pvs_add own_vteps_v4 10.0.0.1
pvs_add own_vteps_v6 2001:db8::a
table_add tunnels_v4 from_vtep 10.0.0.1 10.0.0.11 => 1
table_add tunnels_v4 from_vtep 10.0.0.1 10.0.0.12 => 2
table_add tunnels_v6 from_vtep 2001:db8::a 2001:db8::b => 3
table_add vnis into 100 => 1 0 02:00:00:00:00:03 1 1
table_add vteps via 1 => 1 1450
table_add vteps via 2 => 1 1450
table_add vteps via 3 => 1 1430
table_add encapsulations encapsulate_v4 1 => 02:00:00:00:00:02 02:00:00:00:01:02 0 10.0.0.1 10.0.0.11 64 49152 16383
table_add encapsulations encapsulate_v4 2 => 02:00:00:00:00:02 02:00:00:00:01:02 0 10.0.0.1 10.0.0.12 64 49152 16383
table_add encapsulations encapsulate_v6 3 => 02:00:00:00:00:02 02:00:00:00:01:02 0 2001:db8::a 2001:db8::b 64 49152 16383

# Next hops: 1 to the clients; back ends 11, 12 and 13, behind the three VTEPs.
table_add next_hops local 1 => 0 0 02:00:00:00:00:01 02:00:00:00:01:01 1500
table_add next_hops tunnel 11 => 1 100 1 02:00:00:00:00:03 02:00:00:00:02:01
table_add next_hops tunnel 12 => 2 100 1 02:00:00:00:00:03 02:00:00:00:02:02
table_add next_hops tunnel 13 => 3 100 1 02:00:00:00:00:03 02:00:00:00:02:03
table_add routes_v4 to_next_hop 0 203.0.113.0/24 => 1
table_add routes_v6 to_next_hop 0 2001:db8:9::/48 => 1
table_add hosts_v4 own_address 0 10.0.0.1 =>
table_add hosts_v4 own_address 0 198.51.100.254 =>
table_add hosts_v4 to_next_hop 0 192.0.2.13 => 13

# Two virtual addresses: .1 with all ports, .2 with three services. CRC-32C for algorithm 1, of IPv4 and of IPv6 clients.
set_crc32_parameters calc_2 0x1edc6f41 0xffffffff 0xffffffff true true
set_crc32_parameters calc_6 0x1edc6f41 0xffffffff 0xffffffff true true
act_prof_create_group members
act_prof_create_member members to_next_hop 11
act_prof_create_member members to_next_hop 12
act_prof_create_member members to_next_hop 11
act_prof_create_member members to_next_hop 12
act_prof_add_member_to_group members 0 0
act_prof_add_member_to_group members 1 0
act_prof_add_member_to_group members 2 0
act_prof_add_member_to_group members 3 0
table_indirect_add_with_group pools 1 => 0
table_add hosts_v4 balance 0 198.51.100.1 => 1 0
table_add hosts_v6 balance 0 2001:db8:1::1 => 1 0
table_add hosts_v4 by_service 0 198.51.100.2 => 1
table_add services balance 1 6 80 => 1 1
table_add services balance 1 6 443 => 1 2
table_add services balance 1 17 53 => 1 3

# The tenant's network: stations, floods, the gateway's own address.
table_add macs local 1 02:00:00:00:03:01 => 2 0
table_add macs local 1 02:00:00:00:03:02 => 3 10
table_add macs remote 1 02:00:00:00:02:01 => 1
table_add stations at 1 02:00:00:00:03:01 => 2
table_add stations at 1 02:00:00:00:03:02 => 3
table_add stations at 1 02:00:00:00:02:01 => 0x10001
table_add stations at 1 02:00:00:00:02:02 => 0x10002
table_add arp_answers answer 1 192.0.2.1 => 02:00:00:00:00:03
table_add replicas to_vlan 1 => 0
table_add replicas to_vlan 2 => 10
table_add replicas to_vtep 11 => 1 1450
table_add replicas to_vtep 12 => 2 1450
mc_mgrp_create 1
mc_node_create 1 2
mc_node_create 2 3
mc_node_create 11 1
mc_node_create 12 1
mc_node_associate 1 0
mc_node_associate 1 1
mc_node_associate 1 2
mc_node_associate 1 3
