table_add tunnels forward 1 => 1
table_add tunnels forward 2 => 2
table_add tunnels forward 3 => 3
