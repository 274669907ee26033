# `make demo` and `make test` are all that a newcomer needs; CONTRIBUTING.md has the rest.
CARGO ?= cargo
BIN := target/release/longhaul
FUZZ_SECONDS ?= 60
EXPERIMENT ?= *
# Tests that skip write a line here; see tests/skip.rs.
SKIPS ?= $(CURDIR)/target/skips
FAULTS ?= --times 1

.PHONY: help build demo test faults lint gallery bench links fuzz clean

help:           ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: tools    ## the binary, target/release/longhaul
	$(CARGO) build --release --locked

demo: build     ## two clusters over a wide-area path, with real programs (about 15 s)
	@command -v python3 >/dev/null || { echo "make demo: python3 is missing: install the package python3"; exit 1; }
	@sh experiments/two-clusters/demo.sh $(BIN)

test: tools     ## every test, live ones included (needs user namespaces, not root)
	@mkdir -p $(dir $(SKIPS)) && : >$(SKIPS)
	@echo $(CARGO) test --locked --workspace
	@LONGHAUL_SKIPS=$(SKIPS) $(CARGO) test --locked --workspace; code=$$?; \
		sort -u -o $(SKIPS) $(SKIPS); count=$$(wc -l <$(SKIPS)); \
		if [ $$count = 0 ]; then echo "no test skipped"; \
		else echo "$$count tests skipped:"; cat $(SKIPS); fi; \
		exit $$code

faults: tools   ## planted faults fail the live tests about them (FAULTS: options of tests/faults.sh)
	CARGO=$(CARGO) tests/faults.sh $(FAULTS)

lint: tools     ## formatting, clippy, dependency licences where cargo-deny is installed
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny check; else echo "lint: cargo-deny is missing, so licences are not checked: cargo install cargo-deny"; fi

gallery: build  ## every experiment of experiments/ at full size, with its figure (EXPERIMENT=name: only that one; BLESS=1 renews tables)
	@command -v python3 >/dev/null || { echo "make gallery: python3 is missing: install the package python3"; exit 1; }
	@for file in experiments/$(EXPERIMENT)/experiment.yaml; do \
		folder=$$(dirname $$file); name=$$(basename $$folder); run=longhaul-runs/gallery-$$name; \
		$(BIN) run $$file --out $$run --force; \
		code=$$?; [ $$code = 0 ] || [ $$code = 3 ] || exit $$code; \
		for script in reference figure; do \
			[ ! -e $$folder/$$script.py ] || LONGHAUL=$(BIN) python3 -B $$folder/$$script.py $$run || [ $$script = reference ] || exit 1; \
		done; \
		python3 -B experiments/tables.py $$name $$run || exit 1; \
	done

bench: build    ## every figure of docs/benchmarks.md, on a machine that does nothing else
	$(CARGO) build --release --locked -p longhaul-bench
	target/release/longhaul-bench suite --write-docs docs/benchmarks.md

links: tools    ## the tables of docs/links.md, the same on every machine
	$(CARGO) run --release --locked -p longhaul-core --example links -- --write-docs docs/links.md

fuzz: tools     ## each fuzz target for FUZZ_SECONDS (60)
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	@for target in packet file trace topology segment capture connections names; do \
		RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -print_final_stats=1 || exit 1; \
	done

clean:          ## what builds leave behind
	$(CARGO) clean

.PHONY: tools
tools:
	@command -v $(CARGO) >/dev/null || { echo "Rust is missing: see https://rustup.rs, or install the packages cargo and rustc (1.89 or later)"; exit 1; }
	@command -v cc >/dev/null || { echo "a linker is missing: install the package gcc"; exit 1; }
