module muxbench.example/server

go 1.19
