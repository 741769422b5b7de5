# A wire between port 0, the uplink function, and port 1, the data network; one in VLAN 7 between ports 2 and 4, before a downlink
# function. Port 3: who intercepts.
table_add wires to 0 0 => 1 1 1
table_add wires to 1 0 => 0 1 0
table_add wires to 2 7 => 4 2 0
table_add wires to 4 7 => 2 2 1
# UE 10.60.0.6 and 2001:db8:60:6::/64 of network instance 1; 10.60.0.6 of instance 2 is another.
table_add targets_v4 intercept 1 10.60.0.6 => 3 1
table_add targets_v6 intercept 1 0x20010db800600006 => 3 1
table_add targets_v4 intercept 2 10.60.0.8 => 3 2
table_add copies copy_to_port 1 0 => 02:00:00:00:00:04 02:00:00:00:03:01 0
table_add copies copy_to_tunnel 2 0 => 1 0x9002 0 0 0 0
table_add encapsulations encapsulate_v4 1 => 02:00:00:00:00:04 02:00:00:00:03:01 0 10.0.0.1 10.0.0.99 64 2152 0 0
mirroring_add 3 3
