from windtunnel.cli.main import main

main()
