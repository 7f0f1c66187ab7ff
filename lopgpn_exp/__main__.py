from lopgpn_exp.commands import main

main()
