# One RPC in ten has 1 KB, the others have 1 MB.
1000 10
1000000 10
1000000 100
