#!/usr/bin/env bash
# Proves that live tests have teeth: each planted fault must fail the tests about it, by what they
# say of it, and without a fault the same tests must pass. crates/lab/src/run/live/faults.rs lists what is
# planted.
#
# usage: tests/faults.sh [--times N] [--busy] [FAULT]...
#   --times N  every fault, and the runs without one, N times (1)
#   --busy     something else computes meanwhile, at nice 10
#   FAULT      only these; `none` is the runs without one
set -uo pipefail
cd "$(dirname "$0")/.."

DELAY=network::a_delay_is_kept_in_both_families
LOSS=network::random_loss_is_counted_exactly_and_follows_the_seed
RATE=rates::a_train_takes_the_time_that_the_rate_says
QUEUE=rates::a_burst_leaves_what_the_queue_holds_and_one_in_service
TRACE=rates::receivers_see_the_steps_of_a_trace

# fault, the test that must fail, what it must say
FAULTS=(
	"millisecond-timers|$DELAY|[0-9]+ ns late"
	"doubled-delay|$DELAY|[0-9]+ ns late"
	"half-rate|$RATE|0\.[45][0-9]* of the rate of"
	"doubled-queue|$QUEUE|20 packets: \[4[01]"
	"ignored-trace|$TRACE|[0-9]+ of 597\.[0-9]+: \["
	"lost-counter|$LOSS|the sums do not close"
	"uncounted-drop|$LOSS|[0-9]+ sent, [0-9]+ received|[0-9]+ missing:"
)

times=1 busy=
only=()
while [ $# -gt 0 ]; do
	case $1 in
	--times) times=${2:?--times N} && shift ;;
	--busy) busy=yes ;;
	-*) sed -n '2,9s/^# \{0,1\}//p' "$0" && exit 2 ;;
	*) only+=("$1") ;;
	esac
	shift
done

wanted() {
	[ ${#only[@]} = 0 ] || [[ " ${only[*]} " == *" $1 "* ]]
}

# Runs live tests by name into $log. A test that does not exist runs nothing, which counts as wrong.
log=$(mktemp)
live() {
	LONGHAUL_FAULT=$1 "${CARGO:-cargo}" test --locked -q -p longhaul --test live -- --exact "${@:2}" >"$log" 2>&1
}

burner=
trap 'rm -f "$log"; [ -z "$burner" ] || kill "$burner"' EXIT
"${CARGO:-cargo}" test --locked -q -p longhaul --test live --no-run || exit 1
if [ -n "$busy" ]; then
	nice -n 10 sh -c 'while :; do :; done' &
	burner=$!
fi

wrong=0
tell() {
	echo "faults: $1"
	wrong=$((wrong + 1))
	sed 's/^/    /' "$log"
}

for _ in $(seq "$times"); do
	if wanted none; then
		if live "" $DELAY $LOSS $RATE $QUEUE $TRACE && grep -q 'running 5 tests' "$log"; then
			echo "faults: none: the tests pass"
		else
			tell "none: a test fails without a fault"
		fi
	fi
	for row in "${FAULTS[@]}"; do
		IFS='|' read -r fault test says <<<"$row"
		wanted "$fault" || continue
		if live "$fault" "$test"; then
			tell "$fault: not caught: $test passes"
		elif grep -Eq -- "$says" "$log" && grep -q 'running 1 test$' "$log"; then
			echo "faults: $fault: caught by $test"
		else
			tell "$fault: $test fails, but not by the fault"
		fi
	done
done
[ $wrong = 0 ] || echo "faults: $wrong wrong"
[ $wrong = 0 ]
