# A router with two networks of its own, on ports 1 and 2, and a provider on port 3.

# Networks and next hops.
table_add ipv4_lpm set_nhop 192.0.2.0/24 => 192.0.2.2 1
table_add ipv4_lpm set_nhop 198.51.100.0/24 => 198.51.100.2 2
# One host of the second network is reached by way of the first.
table_add ipv4_lpm set_nhop 198.51.100.77/32 => 192.0.2.2 1
# Everything else, but nothing to private networks (RFC 1918).
table_add ipv4_lpm set_nhop 0.0.0.0/0 => 203.0.113.1 3
table_add ipv4_lpm _drop 10.0.0.0/8 =>
table_add ipv4_lpm _drop 172.16.0.0/12 =>
table_add ipv4_lpm _drop 192.168.0.0/16 =>

# The next hops' MAC addresses.
table_add forward set_dmac 192.0.2.2 => 00:00:5e:00:53:a1
table_add forward set_dmac 198.51.100.2 => 00:00:5e:00:53:a2
table_add forward set_dmac 203.0.113.1 => 00:00:5e:00:53:a3

# Our own, by port.
table_add send_frame rewrite_mac 1 => 00:00:5e:00:53:f1
table_add send_frame rewrite_mac 2 => 00:00:5e:00:53:f2
table_add send_frame rewrite_mac 3 => 00:00:5e:00:53:f3
