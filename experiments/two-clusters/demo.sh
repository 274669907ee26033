#!/bin/sh
# Runs the experiment and explains its verdict; succeeds on a noisy machine too.
set -u
longhaul=$1
"$longhaul" run "$(dirname "$0")/experiment.yaml" --out longhaul-runs/demo --force
code=$?
echo
case $code in
0)
	echo "The run was faithful: every second of it kept its promise." ;;
3)
	cat <<'TEXT'
The programs have done their work, but the verdict is not "faithful": in some seconds this
machine was too busy to send packets on time (the reasons above name the seconds). That is
what a verdict is for. On a quiet machine with two CPUs or more the same run is faithful;
`longhaul doctor` says what this one lacks.
TEXT
	code=0 ;;
*)
	exit $code ;;
esac
echo
echo "What the programs said:"
cat longhaul-runs/demo/logs/fetch@*.out longhaul-runs/demo/logs/probe.out | sed 's/^/  /'
echo
echo "The report: longhaul-runs/demo/report.html"
exit $code
