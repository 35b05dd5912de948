module agent

go 1.22
