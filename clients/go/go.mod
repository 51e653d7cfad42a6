module meshlock

go 1.19
