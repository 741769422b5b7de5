# Port 1: h1 and its network. Port 2: the other router.
table_add ipv4_lpm set_nhop 10.0.1.0/24 => 10.0.1.2 1
table_add ipv4_lpm set_nhop 10.0.2.0/24 => 10.0.0.2 2
table_add forward set_dmac 10.0.1.2 => 00:00:00:00:01:02
table_add forward set_dmac 10.0.0.2 => 00:00:00:00:02:ff
table_add send_frame rewrite_mac 1 => 00:00:00:00:01:01
table_add send_frame rewrite_mac 2 => 00:00:00:00:01:ff
