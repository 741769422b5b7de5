# Port 0: the steering function, or gNBs. Port 1: the data network, or the intercept function. Port 3: who intercepts.
table_add attachments attach 0 0 => 2 02:00:00:00:01:02 1 0

# Tunnels, sessions, filters, an intercepted UE, duplicates, N9: as in the entries of the whole function.
pvs_add own_endpoints_v4 10.0.0.1
pvs_add own_endpoints_v6 2001:db8::1
pvs_add own_endpoints_v6 2001:db8::2
table_add endpoints_v4 endpoint 10.0.0.1 => 1 0
table_add endpoints_v6 endpoint 2001:db8::1 => 2 1
table_add endpoints_v6 endpoint 2001:db8::2 => 3 0

table_add peers via 1 => 0 1456
table_add peers via 2 => 0 1456
table_add peers via 3 => 0 1436
table_add peers via 4 => 0 1436
table_add peers via 5 => 0 1456
table_add peers via 6 => 2 1456
table_add encapsulations encapsulate_v4 1 => 02:00:00:00:00:02 02:00:00:00:01:01 0 10.0.0.1 10.0.0.11 64 2152 0 0
table_add encapsulations encapsulate_v4 2 => 02:00:00:00:00:02 02:00:00:00:01:02 0 10.0.0.1 10.0.0.12 64 49152 16383 0
table_add encapsulations encapsulate_v6 3 => 02:00:00:00:00:02 02:00:00:00:01:03 0 2001:db8::1 2001:db8::b 64 2152 0 1
table_add encapsulations encapsulate_v6 4 => 02:00:00:00:00:02 02:00:00:00:01:04 0 2001:db8::1 2001:db8::c 64 2152 0 0
table_add encapsulations encapsulate_v4 5 => 02:00:00:00:00:02 02:00:00:00:01:05 0 10.0.0.1 10.0.0.15 64 2152 0 1
table_add encapsulations encapsulate_v4 6 => 02:00:00:00:00:03 02:00:00:00:01:06 20 10.0.0.1 10.0.0.16 64 2152 0 0
table_add next_hops local 1 => 1 0 02:00:00:00:00:01 02:00:00:00:02:01 1500
table_add next_hops local 2 => 2 20 02:00:00:00:00:03 02:00:00:00:02:02 1500

table_add teids tunnel 1 0x1001 => 1 1 0 0 1 10.60.0.1 0
table_add rules to_network 1 => 1 0 0 0 1 0 0 0 0 0

table_add teids tunnel 2 0x1002 => 2 3 0 0 1 10.60.0.2 0x20010db800600002
table_add rules to_network 3 => 1 0 0 0 3 0 0 0 0 0

table_add teids tunnel 1 0x1003 => 3 10 2 0 1 10.60.0.3 0x20010db800600003
table_add filters_v4 position 2 192.0.2.53&&&255.255.255.255 17&&&0xff 53->53 0->65535 0&&&0 0&&&0 => 0 10
table_add filters_v4 position 2 0&&&0 0&&&0 0->65535 0->65535 0&&&0 2&&&0x3f => 1 20
table_add filters_v4 position 2 0&&&0 0&&&0 0->65535 0->65535 0xb8&&&0xfc 1&&&0x3f => 2 30
table_add rules gate_closed 10 =>
table_add rules to_network 11 => 1 0 0 0 0 0 0 0 0 0
table_add rules to_network 12 => 2 0 0 0 0 0 0 0 0 0

table_add teids tunnel 1 0x1006 => 6 51 0 0 1 10.60.0.6 0
table_add rules to_network 51 => 1 0 0 0 0 0 0 0 3 8
table_add copies copy_to_port 8 0 => 02:00:00:00:00:04 02:00:00:00:03:01 0
mirroring_add 3 3

table_add teids tunnel 1 0x1007 => 7 61 0 1 1 10.60.0.7 0
table_add teids tunnel 1 0x1107 => 8 61 0 2 1 10.60.0.7 0
table_add rules to_network 61 => 1 0 0 0 0 0 0 0 0 0

table_add teids tunnel_to_ue 1 0x1009 => 9 71 0 0
table_add rules to_tunnel 71 => 2 0x2009 0 0 0 0 0 0 0 0 0 0 0 0 0 0
table_add teids tunnel_to_ue 1 0x100a => 10 72 0 0
table_add rules to_tunnel 72 => 6 0x200a 1 3 0 0 0 0 0 0 0 0 0 0 0 0
