from lopgpn_exp.cli import main

main()
