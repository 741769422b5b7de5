# Port 0: a data network (N6), network instance 1. Port 1: gNBs (N3). Port 2, VLAN 20: both. Port 3: who intercepts.
table_add attachments attach 0 0 => 1 02:00:00:00:00:01 0 1
table_add attachments attach 1 0 => 2 02:00:00:00:00:02 1 0
table_add attachments attach 2 20 => 1 02:00:00:00:00:03 1 1

# Our ends of tunnels: 10.0.0.1, and 2001:db8::1, which takes packets without a UDP checksum; 2001:db8::2 does not.
pvs_add own_endpoints_v4 10.0.0.1
pvs_add own_endpoints_v6 2001:db8::1
pvs_add own_endpoints_v6 2001:db8::2
table_add endpoints_v4 endpoint 10.0.0.1 => 1 0
table_add endpoints_v6 endpoint 2001:db8::1 => 2 1
table_add endpoints_v6 endpoint 2001:db8::2 => 3 0

# gNBs: 1 and 2 over IPv4, 3 over IPv6 with a UDP checksum, 4 without; 5 over IPv4 with one; 6 behind VLAN 20. IP packets in their
# tunnels: the link's MTU of 1500 less 44 or 64.
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
# The data networks' routers.
table_add next_hops local 1 => 0 0 02:00:00:00:00:01 02:00:00:00:02:01 1500
table_add next_hops local 2 => 2 20 02:00:00:00:00:03 02:00:00:00:02:02 1500

# A session of IPv4: UE 10.60.0.1, uplink by TEID 0x1001 here, downlink by 0x2001 at gNB 1, QFI 9. Usage: cells 1 and 2.
table_add teids tunnel 1 0x1001 => 1 1 0 0 1 10.60.0.1 0
table_add ues_v4 ue 1 10.60.0.1 => 1 2 0
table_add rules to_network 1 => 1 0 0 0 1 0 0 0 0 0
table_add rules to_tunnel 2 => 1 0x2001 1 9 0 0 0 0 0 0 2 0 0 0 0 0

# A session of IPv4v6 over IPv6: UE 10.60.0.2 and 2001:db8:60:2::/64, gNB 3, QFI 5 with reflective QoS.
table_add teids tunnel 2 0x1002 => 2 3 0 0 1 10.60.0.2 0x20010db800600002
table_add ues_v4 ue 1 10.60.0.2 => 2 4 0
table_add ues_v6 ue 1 0x20010db800600002 => 2 4 0
table_add rules to_network 3 => 1 0 0 0 3 0 0 0 0 0
table_add rules to_tunnel 4 => 3 0x2002 1 5 1 0 0 0 0 0 4 0 0 0 0 0

# A session with filters, UE 10.60.0.3 and 2001:db8:60:3::/64, by precedence: DNS of 192.0.2.53, closed; TCP ports 80 to 443 of
# anybody by QFI 2; everything else by QFI 1. Set 1 is for packets to UEs, set 2 for those from them, where QFI 2 decides.
table_add teids tunnel 1 0x1003 => 3 10 2 0 1 10.60.0.3 0x20010db800600003
table_add ues_v4 ue 1 10.60.0.3 => 3 20 1
table_add ues_v6 ue 1 0x20010db800600003 => 3 20 1
table_add filters_v4 position 1 192.0.2.53&&&255.255.255.255 17&&&0xff 53->53 0->65535 0&&&0 0&&&0 => 0 10
table_add filters_v4 position 1 0&&&0 6&&&0xff 80->443 0->65535 0&&&0 0&&&0 => 1 20
table_add filters_v4 position 1 0&&&0 0&&&0 0->65535 0->65535 0&&&0 0&&&0 => 2 30
table_add filters_v6 position 1 0&&&0 6&&&0xff 80->443 0->65535 0&&&0 0&&&0 => 1 20
table_add filters_v6 position 1 0&&&0 0&&&0 0->65535 0->65535 0&&&0 0&&&0 => 2 30
table_add filters_v4 position 2 192.0.2.53&&&255.255.255.255 17&&&0xff 53->53 0->65535 0&&&0 0&&&0 => 0 10
table_add filters_v4 position 2 0&&&0 0&&&0 0->65535 0->65535 0&&&0 2&&&0x3f => 1 20
table_add filters_v4 position 2 0&&&0 0&&&0 0->65535 0->65535 0xb8&&&0xfc 1&&&0x3f => 2 30
table_add rules gate_closed 10 =>
table_add rules to_network 11 => 1 0 0 0 0 0 0 0 0 0
table_add rules to_network 12 => 2 0 0 0 0 0 0 0 0 0
table_add rules gate_closed 20 =>
table_add rules to_tunnel 21 => 1 0x2003 1 2 0 0xb8 0xfc 0 0 0 0 0 0 0 0 0
table_add rules to_tunnel 22 => 1 0x2003 1 1 0 0 0 0 0 0 0 0 0 0 0 0

# An idle UE, 10.60.0.4: its packets wait in the buffer, which sends them back for rule 32.
table_add ues_v4 ue 1 10.60.0.4 => 4 31 0
table_add rules buffer 31 => 32 4 9
table_add rules to_tunnel 32 => 1 0x2004 1 9 0 0 0 0 0 0 0 0 0 0 0 0

# A UE in handover, 10.60.0.5: to gNB 1, and copies (session 1, number 7) to gNB 2.
table_add ues_v4 ue 1 10.60.0.5 => 5 41 0
table_add rules to_tunnel 41 => 1 0x2005 1 9 0 0 0 0 0 0 0 0 0 0 1 7
table_add copies copy_to_tunnel 7 0 => 2 0x3005 1 9 0 0
mirroring_add 1 1

# An intercepted UE, 10.60.0.6: copies of both directions leave by port 3.
table_add teids tunnel 1 0x1006 => 6 51 0 0 1 10.60.0.6 0
table_add ues_v4 ue 1 10.60.0.6 => 6 52 0
table_add rules to_network 51 => 1 0 0 0 0 0 0 0 3 8
table_add rules to_tunnel 52 => 1 0x2006 1 9 0 0 0 0 0 0 0 0 0 0 3 8
table_add copies copy_to_port 8 0 => 02:00:00:00:00:04 02:00:00:00:03:01 0
mirroring_add 3 3

# A UE whose packets arrive twice, 10.60.0.7: by the window with TEID 0x1007; as published with 0x1107.
table_add teids tunnel 1 0x1007 => 7 61 0 1 1 10.60.0.7 0
table_add teids tunnel 1 0x1107 => 8 61 0 2 1 10.60.0.7 0
table_add rules to_network 61 => 1 0 0 0 0 0 0 0 0 0

# Forwarding between gNBs during a handover, and an intermediate UPF (N9): from TEID 0x1009 into the tunnel 0x2009 of gNB 2, without
# a container; from TEID 0x100a over VLAN 20.
table_add teids tunnel_to_ue 1 0x1009 => 9 71 0 0
table_add rules to_tunnel 71 => 2 0x2009 0 0 0 0 0 0 0 0 0 0 0 0 0 0
table_add teids tunnel_to_ue 1 0x100a => 10 72 0 0
table_add rules to_tunnel 72 => 6 0x200a 1 3 0 0 0 0 0 0 0 0 0 0 0 0

# Our own address in the data network.
table_add ues_v4 own_address 1 198.51.100.1 =>
