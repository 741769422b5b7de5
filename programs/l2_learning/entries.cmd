# What the controller makes of an office with ports 0 to 3 after a while: all ports are flooded to, and three stations
# are known, on the ports 0, 1 and 2. Each is forgotten after five minutes of silence.
mc_mgrp_create 1
mc_node_create 0 0 1 2 3
mc_node_associate 1 0
table_add smac NoAction 00:00:5e:00:53:01 0 =>
table_add dmac forward 00:00:5e:00:53:01 => 0
table_add smac NoAction 00:00:5e:00:53:02 1 =>
table_add dmac forward 00:00:5e:00:53:02 => 1
table_add smac NoAction 00:00:5e:00:53:03 2 =>
table_add dmac forward 00:00:5e:00:53:03 => 2
table_set_timeout smac 0 300000
table_set_timeout smac 1 300000
table_set_timeout smac 2 300000
