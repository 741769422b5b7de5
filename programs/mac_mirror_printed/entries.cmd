# Two mirror addresses, one for each generator: arrives for dst_addr, leaves from it for src_addr.
table_add mirror set_mac 00:00:5e:00:53:01 => 00:00:5e:00:53:01 00:00:5e:00:53:91
table_add mirror set_mac 00:00:5e:00:53:02 => 00:00:5e:00:53:02 00:00:5e:00:53:92
