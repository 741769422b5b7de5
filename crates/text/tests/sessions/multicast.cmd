# Groups, nodes, and lags.
mc_dump
mc_mgrp_create 1
mc_mgrp_create 2
mc_node_create 400 5 6 7
mc_node_create 0 1 | 2 3
mc_node_create 7
mc_node_associate 1 0
mc_node_associate 1 1
mc_node_associate 2 2
mc_set_lag_membership 2 4 0
mc_set_lag_membership 3 9
mc_dump
mc_node_update 0 3 1
mc_node_update 2 4 | 2
mc_dump
mc_node_update 2 |
mc_node_dissociate 1 0
mc_node_associate 2 0
mc_dump

# One that is there already stays as it is; one that is not there is destroyed all the same.
mc_mgrp_create 2
mc_mgrp_destroy 9
mc_mgrp_destroy 1
mc_node_associate 2 1
mc_node_destroy 0
mc_node_create 1 1
mc_dump

# Wrong.
mc_mgrp_create
mc_mgrp_create 0
mc_mgrp_create 65536
mc_mgrp_create x
mc_mgrp_create 1 2
mc_mgrp_destroy
mc_mgrp_destroy -1
mc_node_create
mc_node_create x 1
mc_node_create 65536 1
mc_node_create 1 2 x
mc_node_create 1 2 3 2
mc_node_create 1 2 | 3 3
mc_node_create 1 65536
mc_node_create 1 2 | 3 | 4
mc_node_update 9 1
mc_node_update 0
mc_node_update x 1
mc_node_update
mc_node_associate 2 1
mc_node_associate 2 9
mc_node_associate 9 0
mc_node_associate 2
mc_node_associate 2 0 0
mc_node_dissociate 2 0
mc_node_dissociate 2 9
mc_node_dissociate 9 1
mc_node_dissociate 2
mc_node_destroy 9
mc_node_destroy
mc_node_destroy x
mc_node_destroy 1 2
mc_set_lag_membership 2
mc_set_lag_membership
mc_set_lag_membership x 1
mc_set_lag_membership 2 1 1
mc_dump 1
mc_dump
