# Port 0: the steering function. Port 1: gNBs. Port 2, VLAN 20: another network. Port 3: who intercepts.
table_add attachments attach 0 0 => 1 02:00:00:00:01:04 0 1

# gNBs, sessions, filters, an idle UE, one in handover, one that is intercepted: as in the entries of the whole function.
table_add peers via 1 => 1 1456
table_add peers via 2 => 1 1456
table_add peers via 3 => 1 1436
table_add peers via 4 => 1 1436
table_add peers via 5 => 1 1456
table_add peers via 6 => 2 1456
table_add encapsulations encapsulate_v4 1 => 02:00:00:00:00:02 02:00:00:00:01:01 0 10.0.0.1 10.0.0.11 64 2152 0 0
table_add encapsulations encapsulate_v4 2 => 02:00:00:00:00:02 02:00:00:00:01:02 0 10.0.0.1 10.0.0.12 64 49152 16383 0
table_add encapsulations encapsulate_v6 3 => 02:00:00:00:00:02 02:00:00:00:01:03 0 2001:db8::1 2001:db8::b 64 2152 0 1
table_add encapsulations encapsulate_v6 4 => 02:00:00:00:00:02 02:00:00:00:01:04 0 2001:db8::1 2001:db8::c 64 2152 0 0
table_add encapsulations encapsulate_v4 5 => 02:00:00:00:00:02 02:00:00:00:01:05 0 10.0.0.1 10.0.0.15 64 2152 0 1
table_add encapsulations encapsulate_v4 6 => 02:00:00:00:00:03 02:00:00:00:01:06 20 10.0.0.1 10.0.0.16 64 2152 0 0

table_add ues_v4 ue 1 10.60.0.1 => 1 2 0
table_add rules to_tunnel 2 => 1 0x2001 1 9 0 0 0 0 0 0 2 0 0 0 0 0

table_add ues_v4 ue 1 10.60.0.2 => 2 4 0
table_add ues_v6 ue 1 0x20010db800600002 => 2 4 0
table_add rules to_tunnel 4 => 3 0x2002 1 5 1 0 0 0 0 0 4 0 0 0 0 0

table_add ues_v4 ue 1 10.60.0.3 => 3 20 1
table_add ues_v6 ue 1 0x20010db800600003 => 3 20 1
table_add filters_v4 position 1 192.0.2.53&&&255.255.255.255 17&&&0xff 53->53 0->65535 0&&&0 0&&&0 => 0 10
table_add filters_v4 position 1 0&&&0 6&&&0xff 80->443 0->65535 0&&&0 0&&&0 => 1 20
table_add filters_v4 position 1 0&&&0 0&&&0 0->65535 0->65535 0&&&0 0&&&0 => 2 30
table_add filters_v6 position 1 0&&&0 6&&&0xff 80->443 0->65535 0&&&0 0&&&0 => 1 20
table_add filters_v6 position 1 0&&&0 0&&&0 0->65535 0->65535 0&&&0 0&&&0 => 2 30
table_add rules gate_closed 20 =>
table_add rules to_tunnel 21 => 1 0x2003 1 2 0 0xb8 0xfc 0 0 0 0 0 0 0 0 0
table_add rules to_tunnel 22 => 1 0x2003 1 1 0 0 0 0 0 0 0 0 0 0 0 0

table_add ues_v4 ue 1 10.60.0.4 => 4 31 0
table_add rules buffer 31 => 32 4 9
table_add rules to_tunnel 32 => 1 0x2004 1 9 0 0 0 0 0 0 0 0 0 0 0 0

table_add ues_v4 ue 1 10.60.0.5 => 5 41 0
table_add rules to_tunnel 41 => 1 0x2005 1 9 0 0 0 0 0 0 0 0 0 0 1 7
table_add copies copy_to_tunnel 7 0 => 2 0x3005 1 9 0 0
mirroring_add 1 1

table_add ues_v4 ue 1 10.60.0.6 => 6 52 0
table_add rules to_tunnel 52 => 1 0x2006 1 9 0 0 0 0 0 0 0 0 0 0 3 8
table_add copies copy_to_port 8 0 => 02:00:00:00:00:04 02:00:00:00:03:01 0
mirroring_add 3 3

table_add ues_v4 own_address 1 198.51.100.1 =>
