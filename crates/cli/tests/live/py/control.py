"""Talks to the control socket of a run: control.py SOCKET. Uses the standard library only."""

import json
import socket
import sys

run = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
run.connect(sys.argv[1])


def ask(request):
    run.send(json.dumps(request).encode())
    return json.loads(run.recv(1 << 16))


def check(condition, what):
    if not condition:
        sys.exit(f"wrong: {what}")


status = ask({"status": {}})["status"]
check(status["hosts"] == ["a", "b"], status)

# Every field, as a text of the file or as JSON has it.
values = {
    "delay": {"normal": {"mean": "5 ms", "deviation": "1 ms"}, "reorder": True},
    "loss": {"one_in": 100},
    "queue": "codel",
    "rate": "10 Mbit/s",
    "bit_errors": 1e-9,
    "overtake": True,
}
done = ask({"set": {"link": "a-b", "values": values}})["set"]
check(done["pipes"] == ["a>b", "b>a"] and done["at_s"] > 0, done)

got = ask({"get": {"link": "a>b"}})["get"]
[pipe] = got["pipes"]
check(pipe["up"] and pipe["name"] == "a>b" and pipe["link"] == "a-b", pipe)
check(pipe["rate_bps"] == 10_000_000 and pipe["delay_ns"] == 5_000_000, pipe)
check(abs(pipe["loss"] - 0.01) < 1e-12, pipe)
check("normal" in pipe["params"]["delay"] and "CoDel" in pipe["params"]["queue"], pipe)
check(pipe["params"]["bit_errors"] in ("1e-9", "1e-09"), pipe)
check(pipe["counters"]["packets"] >= 0 and pipe["waiting_packets"] >= 0, pipe)

down = ask({"down": {"link": "a-b"}})["down"]
check(down["pipes"] == ["a>b", "b>a"], down)
again = ask({"down": {"link": "a>b", "keep_queue": True}})["down"]
check(again["pipes"] == [], again)
check(not ask({"get": {"link": "a>b"}})["get"]["pipes"][0]["up"], "down")
up = ask({"up": {"link": "a-b"}})["up"]
check(up["pipes"] == ["b>a"], "a>b was taken down twice")
up = ask({"up": {"link": "a-b"}})["up"]
check(up["pipes"] == ["a>b"], up)

for wrong, part in [
    ({"set": {"link": "a-b", "values": {"delay": 5}}}, "unit"),
    ({"set": {"link": "a-b", "values": {"colour": "red"}}}, "colour"),
    ({"set": {"link": "a-c", "values": {"delay": "5 ms"}}}, "a-c"),
    ({"set": {"link": "a-b", "values": {"rate": "unlimited", "burst": "16 kB"}}}, "burst"),
    ({"down": {}}, "link"),
    ({"down": {"router": "a"}}, "host"),
    ({"get": {"link": "nothing"}}, "nothing"),
    ({"dance": {}}, "not a request"),
]:
    answer = ask(wrong)
    check(part in answer.get("error", ""), (wrong, answer))

# As docs/control.md has it: a link whose delay changes again and again.
for number in range(10):
    answer = ask({"set": {"link": "a-b", "values": {"delay": f"{number} ms", "loss": "0 %"}}})
    check("set" in answer, answer)
check(ask({"get": {"link": "a>b"}})["get"]["pipes"][0]["delay_ns"] == 9_000_000, "the last one")
print("well")
