module hedge-peers

go 1.19
