# Tunnels arrive on port 0; the networks 100 and 200 are on the ports 1 and 2.
table_add uplinks accept_tunnels 0 =>
table_add networks decapsulate 100 => 1
table_add networks decapsulate 200 => 2
