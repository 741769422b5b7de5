# A small office: two hosts and a printer on port 0, a server on each of the ports 1 and 2, a router on port 3.
table_add forward set_dest 00:00:5e:00:53:01 => 0
table_add forward set_dest 00:00:5e:00:53:02 => 0
table_add forward set_dest 00:00:5e:00:53:03 => 0
table_add forward set_dest 00:00:5e:00:53:11 => 1
table_add forward set_dest 00:00:5e:00:53:12 => 2
table_add forward set_dest 00:00:5e:00:53:fe => 3
# Nobody floods here, so broadcasts, such as requests for addresses, go to the router only.
table_add forward set_dest ff:ff:ff:ff:ff:ff => 3
