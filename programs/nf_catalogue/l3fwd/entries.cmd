# Two networks behind routers on the ports 1 and 2, and a default route to port 3.
table_add ipv4_lpm route 192.0.2.0/24 => 00:00:5e:00:53:a1 1
table_add ipv4_lpm route 198.51.100.0/24 => 00:00:5e:00:53:a2 2
table_add ipv4_lpm route 0.0.0.0/0 => 00:00:5e:00:53:a3 3
