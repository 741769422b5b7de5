# Slices of a router between data centres, on port 1, enterprises, on port 2, and other providers, on port 3.

# ---- where to ----
table_add routes_v4 set_next_hop 192.0.2.0/24 => 1
table_add routes_v4 set_next_hop 198.51.100.0/24 => 2
table_add routes_v4 set_next_hop 0.0.0.0/0 => 3
table_add routes_v6 set_next_hop 2001:db8:1::/48 => 1
table_add routes_v6 set_next_hop 2001:db8:2::/48 => 2
table_add routes_v6 set_next_hop ::/0 => 3
table_add next_hops send_to 1 => 1 00:00:5e:00:53:f1 00:00:5e:00:53:a1
table_add next_hops send_to 2 => 2 00:00:5e:00:53:f2 00:00:5e:00:53:a2
table_add next_hops send_to 3 => 3 00:00:5e:00:53:f3 00:00:5e:00:53:a3

# ---- what a slice is: source, destination, DSCP, protocol, ports, tunnel, VNI or QFI, priority (smallest wins) ----
# Slice 4: voice (DSCP 46) of all. Slice 5: VNI 100. Slice 6: QFI 9.
table_add classify_v4 to_slice 0&&&0 0&&&0 46&&&0x3f 0&&&0 0->65535 0->65535 0&&&0 0&&&0 => 4 1
table_add classify_v6 to_slice 0&&&0 0&&&0 46&&&0x3f 0&&&0 0->65535 0->65535 0&&&0 0&&&0 => 4 1
table_add classify_v4 to_slice 0&&&0 0&&&0 0&&&0 0&&&0 0->65535 0->65535 1&&&3 100&&&0xffffff => 5 2
table_add classify_v4 to_slice 0&&&0 0&&&0 0&&&0 0&&&0 0->65535 0->65535 2&&&3 9&&&0xffffff => 6 2
# Slices 1 to 3 by destination; of the enterprises only the web.
table_add classify_v4 to_slice 0&&&0 192.0.2.0&&&0xffffff00 0&&&0 0&&&0 0->65535 0->65535 0&&&0 0&&&0 => 1 10
table_add classify_v4 to_slice 0&&&0 198.51.100.0&&&0xffffff00 0&&&0 6&&&0xff 0->65535 80->443 0&&&0 0&&&0 => 2 10
table_add classify_v4 to_slice 0&&&0 203.0.113.0&&&0xffffff00 0&&&0 0&&&0 0->65535 0->65535 0&&&0 0&&&0 => 3 10
table_add classify_v6 to_slice 0&&&0 2001:db8:1::&&&ffff:ffff:ffff:: 0&&&0 0&&&0 0->65535 0->65535 0&&&0 0&&&0 => 1 10

# ---- limits: output queue, cost of a packet, cost of a byte, limit of the delay, and what the scheme needs ----
# A microsecond is 65536 units; a byte takes 8 us / (rate in Mbit/s), in 1/256 units: 2^27 / rate.
# 100 Gbit/s, 20 ms, marks above 5 ms.
table_add slices ecn_step 1 => 2 0 1342 1310720000 327680000
# 50 Gbit/s, 10 ms.
table_add slices tail_drop 2 => 2 0 2684 655360000
# 400 Gbit/s, 30 ms; above 10 ms up to 10 % are dropped at random: 0.1 * 2^32 / 20000 us.
table_add slices early_drop 3 => 1 0 336 1966080000 655360000 21475
# 100,000 packets a millisecond, 5 ms.
table_add slices tail_drop 4 => 3 655 0 327680000
# 200 Gbit/s, 20 ms; above 5 ms up to 20 % are marked, or dropped if they are not ECN-capable: 0.2 * 2^32 / 15000 us.
table_add slices early_mark 5 => 1 0 671 1310720000 327680000 57266
table_add slices unlimited 6 => 0
