mirroring_add 1 3
mirroring_get 1
mirroring_add_mc 2 7
mirroring_get 2
mirroring_add 2 5
mirroring_get 2
mirroring_add_mc 1 8
mirroring_get 1
mirroring_delete 1
mirroring_get 1
mirroring_get 2

# Wrong.
mirroring_delete 1
mirroring_delete
mirroring_delete x
mirroring_delete 1 2
mirroring_get 9
mirroring_get
mirroring_get 1 2
mirroring_add
mirroring_add 1
mirroring_add 1 2 3
mirroring_add x 2
mirroring_add 1 x
mirroring_add 32768 1
mirroring_add -1 1
mirroring_add_mc 1
mirroring_add_mc 1 0
mirroring_add_mc 1 65536
mirroring_add_mc 1 2 3
mirroring_get 1
