# kpybroker, from a fresh checkout. A machine needs Python 3.11 or newer; for the comparison with Apache Kafka and for
# Spark also a JDK and Maven. Nothing is installed outside .venv, but by make kerberos; only jars and results are in build/.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
SLOW := slow or java or spark
SLOWEST := --durations=20 --durations-min=5
# A busy machine may make one test late; what fails twice is a failure, and each rerun is named before the last summary.
TESTS := $(PYTEST) --reruns 1 $(SLOWEST)
COMPAT := $(PYTEST) --target kpybroker --reruns 2 $(SLOWEST)
TIERED_SUITES := admin fetch groups produce protocol streams transactions
GROUPS := compat-tests/groups compat-tests/security
HOSTILE := tests/hostile tests/disks
# The modules with tests of some marks. A process that collects all others too takes half a minute of a core for it.
marked = $(shell grep -rlE --include='test_*.py' 'mark\.($(1))\b' $(2) | sort)
# The folders of tests/ by their first letters. Long parts are in halves, so that no core waits long for the last part.
HALVES := a-l m-z
folders = $(filter-out tests/project,$(patsubst %/,%,$(wildcard tests/[$(1)]*/)))
PARTS := test-slow-m-z test-slow-a-l test-project test-fast-a-l compat-java test-hostile compat-rest compat-groups compat-spark
LOGS := $(PARTS:%=build/%.log)
# The tests of `make check`, below tests/.
QUICK := project/test_tidy.py project/test_language.py project/test_documents.py broker/test_plain_start.py \
    remote_log/test_bad_stores.py \
    authorization calls config controller coordination fairness fetch groups guards journal metadata partition quotas raft \
    sasl share share_coordinator telemetry transactions transcripts
# What each stage of a run took; .ci/run names another file, with the stages before the tests.
export KPYBROKER_STAGES ?= $(CURDIR)/build/stages.txt
LISTED = /^\#\# / { print "\n" substr($$0, 4) } /^[a-z-]+:.*\#\# / { printf "  make %-22s %s\n", $$1, $$2 }
CHECKED := kpybroker pyspark_kpybroker wire storage compat-tests benchmarks tests examples docker release conftest.py hatch_build.py
SHIPPED := pyproject.toml hatch_build.py $(shell find kpybroker pyspark_kpybroker wire storage -name '*.py')
COMPILED := KPYBROKER_COMPILE=1 $(BIN)/python -m build --wheel
BENCHED := build/bench-venv

DATA ?= ./data
LISTEN ?= 127.0.0.1:9092
HTTP ?=
TARGET ?= kpybroker
PROGRAM ?= kpybroker
SECONDS ?= 3600
OPTIONS ?=
SEEDS ?= 0-999
UPGRADES ?= 5
KILLS ?= 200
ROUNDS ?= 100
SPARK ?= 4.0.0
SPARKS := 3.5.1 4.0.0 4.2.0

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Hundreds of processes are started by tests, and without bytecode each of them compiles its modules again.
unexport PYTHONDONTWRITEBYTECODE

## Using it

.PHONY: help
help:
	@awk -F ':.*## ' '/^## More/ { exit } $(LISTED)' $(MAKEFILE_LIST)

.PHONY: run
run: $(VENV)/.runs ## set up and start the broker (DATA=./data LISTEN=127.0.0.1:9092 HTTP=127.0.0.1:9404)
	@exec $(BIN)/kpybroker start --data $(DATA) --listen $(LISTEN) $(if $(HTTP),--http $(HTTP))

.PHONY: demo
demo: setup ## 336 776 real flights through kafka-python, the broker and Spark, checked against their CSV
	@$(BIN)/kpybroker demo

.PHONY: setup
setup: $(VENV)/.tests ## set up .venv with everything that tests, demo and benchmarks use

## Working on it

# The inner loop: the rules of the house, and the tests of what is pure and of the bytes. Under two minutes on two cores.
.PHONY: check quick
check: setup ## before every commit: lint and the quick tests, in two minutes
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint quick

quick: setup
	$(PYTEST) -q $(QUICK:%=tests/%) -m "not ($(SLOW))"

.PHONY: test
test: export KPYBROKER_RERUNS = $(CURDIR)/build/reruns.txt
test: setup ## all tests: what continuous integration runs, with what each part took
	@mkdir -p build; rm -f $(LOGS) $$KPYBROKER_RERUNS $(if $(filter file,$(origin KPYBROKER_STAGES)),$$KPYBROKER_STAGES)
	@$(if $(LINTED),,.ci/stage lint $(MAKE) --no-print-directory lint)
	@$(MAKE) --no-print-directory --keep-going --jobs=4 test-fast-m-z $(PARTS); failed=$$?; \
	cat $(LOGS) > build/tests.log; touch $$KPYBROKER_RERUNS; \
	sed '$$d' build/tests.log; cat $$KPYBROKER_RERUNS; .ci/stage; tail --lines=1 build/tests.log; exit $$failed

.PHONY: test-fast
test-fast: setup ## the tests that take seconds and need no Java
	$(TESTS) tests -m "not ($(SLOW))"

# `test` runs these, four at a time, the longest first. One shows its progress; each other writes a log, printed when all
# are over.

.PHONY: test-fast-m-z $(PARTS)
test-fast-m-z: setup
	@.ci/stage $@ $(TESTS) $(call folders,m-z) tests/project -m "not ($(SLOW))"

test-fast-a-l: setup
	@echo "The other fast tests run too: build/$@.log"
	@exec .ci/stage $@ $(TESTS) $(filter-out $(HOSTILE),$(call folders,a-l)) -m "not ($(SLOW))" > build/$@.log 2>&1

test-hostile: setup
	@echo "Attacks and failing disks are tried too: build/$@.log"
	@exec .ci/stage $@ $(TESTS) $(HOSTILE) -m "not ($(SLOW))" > build/$@.log 2>&1

$(HALVES:%=test-slow-%): test-slow-%: setup
	@echo "Slow tests run too: build/$@.log"
	@exec .ci/stage $@ $(TESTS) $(call marked,slow|java|spark,$(call folders,$*)) -m "$(SLOW)" > build/$@.log 2>&1

test-project: setup
	@echo "Wheels, installations and demos are tried too: build/$@.log"
	@exec .ci/stage $@ $(TESTS) $(filter tests/project/%,$(call marked,slow|java|spark,tests)) -m "$(SLOW)" > build/$@.log 2>&1

compat-java: setup
	@echo "Clients in Java run too: build/$@.log"
	@exec .ci/stage $@ $(COMPAT) $(call marked,java,compat-tests) -m "not slow and java and not spark" > build/$@.log 2>&1

compat-groups: setup
	@echo "Clients in groups and with logins run too: build/$@.log"
	@exec .ci/stage $@ $(COMPAT) $(GROUPS) -m "not ($(SLOW))" > build/$@.log 2>&1

compat-rest: setup
	@echo "All other clients run too: build/$@.log"
	@exec .ci/stage $@ $(COMPAT) compat-tests $(GROUPS:%=--ignore=%) -m "not ($(SLOW))" > build/$@.log 2>&1

compat-spark: setup
	@echo "Spark runs too: build/$@.log"
	@exec .ci/stage $@ $(COMPAT) $(call marked,spark,compat-tests) -m "not slow and spark" > build/$@.log 2>&1

.PHONY: lint
lint: setup ## ruff, mypy, import rules
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.PHONY: format
format: setup ## bring every file into the house style
	$(BIN)/ruff check --fix $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

.PHONY: compat
compat: setup ## the suites of real clients (TARGET=kpybroker or apache-kafka)
	$(PYTEST) compat-tests --target $(TARGET)

.PHONY: wheel
wheel: setup ## a wheel with compiled modules, for this platform, in dist/ (needs a C compiler)
	$(COMPILED) --outdir dist

.PHONY: bench-quick
bench-quick: setup $(BENCHED)/bin/kpybroker ## kpybroker and Apache Kafka in alternating rounds, in five minutes
	$(BIN)/python -m benchmarks --kpybroker $(BENCHED)/bin/kpybroker --quick $(OPTIONS)

.PHONY: tables
tables: setup ## write the documents that are made from the code
	$(BIN)/python -m release.documents
	PYTHONPATH=.:compat-tests $(BIN)/python -m support.parity
	$(BIN)/python -m benchmarks.readme

.PHONY: clean
clean: ## remove caches and what was built; .venv and data stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

.PHONY: more
more: ## show the other targets
	@awk -F ':.*## ' '/^## More/ { more = 1 } !more { next } $(LISTED)' $(MAKEFILE_LIST)

## More: examples

.PHONY: payments
payments: setup ## transactions, Spark with a checkpoint, exact totals while all is killed at random (OPTIONS=--seconds 600)
	@$(BIN)/python -m examples.payments $(OPTIONS)

.PHONY: pipeline
pipeline: setup ## the flights live: producers, Spark, an exactly-once sink, Delta and Iceberg, DuckDB, an audit, a page with plots (OPTIONS=--limit 50000)
	@$(BIN)/python -m examples.pipeline $(OPTIONS)

.PHONY: zookeeper
zookeeper: setup ## Apache ZooKeeper and three brokers in ZooKeeper mode on this machine, until Ctrl-C (OPTIONS='--kafka 1')
	@PYTHONPATH=.:compat-tests exec $(BIN)/python -m examples.zookeeper $(OPTIONS)

## More: programs that tests ask where they are there

# Tests of GSSAPI need a KDC and the headers of Kerberos. Without them they are skipped, and say so. Not optimised, the module
# is compiled in half the time.

KERBEROS := krb5-kdc krb5-admin-server krb5-user libkrb5-dev kcat libsasl2-modules-gssapi-mit

.PHONY: kerberos
kerberos: setup ## install what the tests of Kerberos need: Debian's packages (as root, with apt-get), and the extra
	@if ! { command -v krb5kdc && command -v kadmin.local && command -v krb5-config && command -v kcat; } > /dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; \
	then echo "Installing $(KERBEROS)"; apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $(KERBEROS) > /dev/null; fi; \
	if command -v krb5-config > /dev/null; then CFLAGS='-O0 -g0' $(BIN)/python -m pip install --quiet --editable '.[kerberos]'; \
	else echo "Kerberos is not installed: its tests are skipped"; fi

# Prometheus checks the alert rules and answers the dashboards' queries. Without it those tests are skipped, and say so.

.PHONY: prometheus
prometheus: ## fetch Debian's Prometheus, with its promtool, into build/ (as root, with apt-get); nothing is installed
	@if command -v prometheus > /dev/null || [ -x build/prometheus/usr/bin/prometheus ]; then exit 0; fi; \
	command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || { echo "no apt-get: Prometheus is not asked"; exit 0; }; \
	mkdir -p build/prometheus && cd build/prometheus && apt-get -qq update && apt-get -qq download prometheus && \
	dpkg-deb --extract prometheus_*.deb . && rm -f prometheus_*.deb

.PHONY: grafana
grafana: ## fetch the components that Grafana draws panels with, and what they need, into build/ with npm; nothing is installed
	@if cmp -s tests/metrics/grafana/package-lock.json build/grafana/node_modules/fetched.json; then exit 0; fi; \
	command -v npm > /dev/null || { echo "no npm: Grafana's components are not fetched"; exit 0; }; \
	mkdir -p build/grafana && cp tests/metrics/grafana/package*.json build/grafana/ && cd build/grafana && \
	npm ci --ignore-scripts --no-audit --no-fund && cp package-lock.json node_modules/fetched.json

# The chart is rendered by helm itself. It is built once, in minutes, without optimising, and stays in build/helm. In continuous
# integration kfake is compiled with the same options: both take Go's library from the cache.

HELM := helm.sh/helm/v3/cmd/helm@v3.16.4

.PHONY: helm
helm: ## build helm with Go into build/, which the tests of the chart render it with
	@if command -v helm > /dev/null || [ -x build/helm/helm ]; then exit 0; fi; \
	command -v go > /dev/null || { echo "no Go, no helm: the tests of the chart are skipped"; exit 0; }; \
	echo "Building $(HELM): some minutes"; GOBIN=$(CURDIR)/build/helm go install -trimpath -gcflags 'all=-N -l' -ldflags '-s -w' $(HELM)

# The third side of the benchmarks, which a test plays a row on: it finds all compiled that `go build` has kept.

.PHONY: kfake
kfake: ## compile kfake, the broker in Go that benchmarks play beside, into the cache of Go
	@command -v go > /dev/null || { echo "no Go, no kfake"; exit 0; }; \
	cd benchmarks/kfake && go build -trimpath -o /dev/null .

.PHONY: kubernetes
kubernetes: setup ## install kubernetes-validate (100 MB): the tests of the chart then ask Kubernetes' own definitions
	@$(BIN)/python -m pip install --quiet kubernetes-validate

.PHONY: browser
browser: setup ## install what the tests of the console need: Debian's Chromium (as root, with apt-get)
	@if ! command -v chromium > /dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; \
	then echo "Installing Chromium"; apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends chromium fonts-dejavu-core > /dev/null; fi; \
	command -v chromium > /dev/null || echo "Chromium is not installed: its tests are skipped"

## More: suites of clients

.PHONY: compat-zookeeper
compat-zookeeper: setup ## the suites of real clients on a broker in ZooKeeper mode (OPTIONS='-k produce')
	$(PYTEST) compat-tests --target kpybroker-zookeeper -m "not slow and not spark" --reruns 1 $(OPTIONS)

.PHONY: spark
spark: setup ## all of Spark's suite, with one of its versions (SPARK=3.5.1, 4.0.0 or 4.2.0; TARGET as above)
	$(PYTEST) compat-tests/spark/test_spark_*.py --target $(TARGET) --spark $(SPARK)

.PHONY: spark-all
spark-all: setup ## the same with every version, each against both brokers
	failed=0; for target in kpybroker apache-kafka; do for spark in $(SPARKS); do \
	    $(PYTEST) compat-tests/spark/test_spark_*.py --target $$target --spark $$spark || failed=1; \
	done; done; exit $$failed

# Spark gives a Python process ten seconds to start, which is little on a busy machine: that alone is tried again.
.PHONY: spark-source
spark-source: setup ## the same suite with format("kpybroker") in place of Spark's own source (SPARK=4.0.0, 4.2.0 or 4.3.0)
	$(PYTEST) compat-tests/spark/test_spark_*.py compat-tests/spark/test_cluster_spark.py --target $(TARGET) --spark $(SPARK) \
	    --spark-format kpybroker --reruns 2 --only-rerun "failed to connect back"

.PHONY: foreign
foreign: setup ## test suites of public clients at pinned versions (SUITE=librdkafka, TARGET=apache-kafka)
	PYTHONPATH=.:compat-tests $(BIN)/python -m foreign $(SUITE) --target $(TARGET)

.PHONY: consoles
consoles: setup ## consoles that others made, built elsewhere, at a cluster (KAFDROP=kafdrop.jar REDPANDA_CONSOLE=program TARGET=…)
	$(PYTEST) compat-tests/tools/test_console_programs.py -rs --target $(TARGET) $(KAFDROP:%=--kafdrop %) $(REDPANDA_CONSOLE:%=--redpanda-console %)

## More: beside Apache Kafka

.PHONY: parity
parity: setup ## record again what Java's tools and Admin do on Apache Kafka and here, in both modes; docs/parity.md says what differs
	$(PYTEST) compat-tests -k "java_commands or java_admin" --record --target apache-kafka -m "not slow" || true
	$(PYTEST) compat-tests -k "java_commands or java_admin" --record --target kpybroker -m "not slow" || true
	$(PYTEST) compat-tests -k "java_commands or java_admin" --record --target apache-kafka-zookeeper -m "not slow" || true
	$(PYTEST) compat-tests -k "java_commands or java_admin" --record --target kpybroker-zookeeper -m "not slow" || true
	$(MAKE) --no-print-directory tables

.PHONY: tiered
tiered: setup ## tiered storage beside Apache Kafka: answers, directories that move both ways, clusters replaced under load (TARGET=…)
	$(PYTEST) compat-tests/tiered --target $(TARGET) -o timeout=0

.PHONY: tiered-suites
tiered-suites: setup ## the suites of real clients on a broker that has all but the newest batch of each log in a store (OPTIONS='-k fetch')
	$(PYTEST) $(TIERED_SUITES:%=compat-tests/%) --target kpybroker-tiered -m "not ($(SLOW))" --reruns 1 -rs $(OPTIONS)

.PHONY: kafka
kafka: setup ## write all that is generated from Apache Kafka's jars, of the version in compat-tests/oracle/jars.py (CONTRIBUTING.md)
	PYTHONPATH=compat-tests $(BIN)/python -m oracle.regenerate
	$(MAKE) --no-print-directory tables

.PHONY: differential
differential: setup ## random requests to Apache Kafka and kpybroker, other ones each time; what they answer differently (OPTIONS=--secured)
	PYTHONPATH=.:compat-tests $(BIN)/python -m differential --seconds $(SECONDS) $(OPTIONS)

.PHONY: permissions
permissions: setup ## every API, version and user with one permission or without one, on Apache Kafka and here
	KPYBROKER_EVERY_PERMISSION=1 $(PYTEST) compat-tests/security/test_permissions.py

.PHONY: acls
acls: setup ## a million decisions on random ACLs, here and by Kafka's own authorizer (DECISIONS=…)
	$(PYTEST) tests/authorization/test_authorizer_beside_kafka.py -s -o timeout=0 --acl-decisions $(or $(DECISIONS),1000000)

.PHONY: compaction
compaction: setup ## compact many more random logs beside Kafka's own cleaner
	$(PYTEST) tests/storage/test_cleaner_oracle.py -o timeout=0 --cleaner-histories 100 --cleaner-seed $$(date +%s)

.PHONY: transactions
transactions: setup ## many more random transactions: beside Kafka's coordinator, and in the simulation with its crashes
	$(PYTEST) tests/transactions -o timeout=0 --transaction-seeds 4000 --transaction-histories 300

.PHONY: mixed
mixed: setup ## one cluster of both programs, at every level that Kafka 4.3.1 and 4.4.0 know: who leads, follows, raises levels
	$(BIN)/python -m pytest compat-tests/cluster/test_mixed_quorum.py -q --every-level

.PHONY: replace
replace: setup ## live clusters of Apache Kafka become kpybroker's node by node, and back, under load (OPTIONS='--kind zookeeper')
	PYTHONPATH=.:compat-tests $(BIN)/python -m replacement $(OPTIONS)

.PHONY: upgrade
upgrade: setup ## clusters of the last versions are upgraded under load, and back, and again (UPGRADES=5); then clusters of older levels
	$(BIN)/python -m pytest compat-tests/cluster/test_rolling_upgrade.py compat-tests/cluster/test_cluster_levels.py -q --upgrades $(UPGRADES)

.PHONY: earlier
earlier: setup ## write again the data directories of earlier versions that tests open, with these versions (tests/moving/left)
	PYTHONPATH=.:compat-tests:tests/moving $(BIN)/python tests/moving/earlier.py

## More: failures and load

.PHONY: exactly-once
exactly-once: setup ## 100 000 transactions of several clients through kills, pauses and zombies; anomalies in what they saw (TARGET=…, OPTIONS='--brokers 3 --secured --members')
	PYTHONPATH=.:compat-tests $(BIN)/python -m exactly_once --target $(TARGET) $(OPTIONS)

.PHONY: sink-kills
sink-kills: setup ## a Spark query writes exactly once while its driver, workers and the broker are killed 200 times (KILLS=200 TARGET=…)
	PYTHONPATH=.:compat-tests $(BIN)/python -m sink_kills --target $(TARGET) --kills $(KILLS) $(OPTIONS)

.PHONY: failover
failover: setup ## a million acknowledged records for each way in which nodes of a cluster fail: none lost, doubled or out of order (PROGRAM=…, OPTIONS=--secured or '--zookeeper --pause-s 7')
	PYTHONPATH=.:compat-tests $(BIN)/python -m failover --program $(PROGRAM) $(OPTIONS)

.PHONY: tiered-kills
tiered-kills: setup ## a million records while nodes are killed in copies, deletions, takeovers; then all local logs are deleted (OPTIONS='--store s3')
	PYTHONPATH=.:compat-tests $(BIN)/python -m tiered --program $(PROGRAM) $(OPTIONS)

.PHONY: secured
secured: setup ## security in use: a cluster moves to SASL_SSL and exchanges certificates under load; then failover with both (TARGET=…)
	$(PYTEST) compat-tests/security/test_rolling_security.py compat-tests/security/test_certificates_exchanged.py --target $(TARGET)
	PYTHONPATH=.:compat-tests $(BIN)/python -m failover --program $(TARGET) --secured $(OPTIONS)

.PHONY: rounds
rounds: setup ## a client's loop of transactions through restarts and deaths of all nodes, round by round: does it go on? (ROUNDS=100, PROGRAM=…)
	PYTHONPATH=.:compat-tests $(BIN)/python -m failover.rounds --program $(PROGRAM) --rounds $(ROUNDS)

.PHONY: hostile
hostile: setup $(BENCHED)/bin/kpybroker ## attack the compiled wheel for long, with other requests each time; what an honest client notices
	$(PYTEST) tests/hostile --hostile-rounds 20 --hostile-seed $$(date +%s) --hostile-kpybroker $(BENCHED)/bin/kpybroker
	PYTHONPATH=.:compat-tests $(BIN)/python tests/hostile/figures.py --kpybroker $(BENCHED)/bin/kpybroker

.PHONY: durability
durability: setup ## cut the recorded disk of a whole broker at every point; then brokers whose fsync takes 200 ms (SECONDS=120)
	$(PYTEST) tests/disks/test_durability.py -o timeout=0 --durability-cuts 0
	$(PYTEST) tests/disks/test_slow_fsync.py -o timeout=0 -s --slow-disk-s $(if $(filter file,$(origin SECONDS)),120,$(SECONDS))

.PHONY: lake
lake: setup ## lake tables whose writers are killed a hundred times while the topic grows: table = topic, row by row
	$(PYTEST) tests/lake -s -o timeout=0 --lake-kills 100
	$(BIN)/python -m benchmarks.micro lake

.PHONY: flips
flips: setup ## thousands of flipped bits in every kind of file: kpybroker check finds them, and a broker survives them
	$(PYTEST) tests/moving/test_bit_flips.py -o timeout=0 --flips 2000 --flip-seed $$(date +%s)

.PHONY: audit
audit: setup ## planted faults in generated logs of 1 TB and in many small clusters: the audit finds all, and nothing else
	$(PYTEST) tests/audit -o timeout=0 -m "not java" --audit-gib $(or $(GIB),1024) --more-seeds 40

.PHONY: soak
soak: setup ## an hour of mixed load (SECONDS=3600) that must not grow memory, descriptors or pauses
	$(BIN)/python -m benchmarks.soak --seconds $(SECONDS)

## More: simulation, and planted bugs

.PHONY: sim
sim: setup ## whole nodes on a simulated clock, network and disk (SEEDS=0-999, OPTIONS='--nodes 3 --trace')
	$(PYTEST) tests/sim -o timeout=0 -k once_failed --kept-seeds 1
	$(PYTEST) tests/raft tests/replication -o timeout=0 -k whatever_happens --more-seeds 5
	$(BIN)/python -m tests.sim run --seeds=$(SEEDS) $(if $(filter file,$(origin SEEDS)),--lending 0-99 --beating 0-99 --streaming 0-99 --sharing 0-99 --flushing 0-99 --levelling 0-99 --tiering 0-99 --zookeeper 0-99 --suspicion 0-119) $(OPTIONS)

.PHONY: sim-zookeeper
sim-zookeeper: setup ## the same with brokers in ZooKeeper mode at a simulated ensemble of three servers (SEEDS=0-1999)
	$(BIN)/python -m tests.sim run --seeds= --zookeeper $(if $(filter file,$(origin SEEDS)),0-1999,$(SEEDS)) $(OPTIONS)

.PHONY: sim-tiers
sim-tiers: setup ## three nodes of a tiered partition and a store that is slow, fails, tears and lists stale (SEEDS=0-9999)
	$(BIN)/python -m tests.sim run --seeds= --tiers $(if $(filter file,$(origin SEEDS)),0-9999,$(SEEDS)) $(OPTIONS)

.PHONY: sim-mutants
sim-mutants: setup ## the same with planted bugs: which are found, and by which seed (OPTIONS='--only fsync,vote --write')
	$(BIN)/python -m tests.sim mutants $(OPTIONS)

.PHONY: mutants
mutants: setup ## small changes to the code of pure packages, and how many of them the quick tests find (OPTIONS='--only share,quotas --sample 25')
	$(BIN)/python -m tests.mutation $(OPTIONS)

## More: figures and documents

.PHONY: bench
bench: setup $(BENCHED)/bin/kpybroker ## all rows: the compiled wheel beside Apache Kafka, in alternating rounds (hours; OPTIONS=--resume)
	$(BIN)/python -m benchmarks --kpybroker $(BENCHED)/bin/kpybroker --sides ceiling $(OPTIONS)

.PHONY: readme-figures
readme-figures: setup $(BENCHED)/bin/kpybroker ## play the rows that README.md shows, and write its table and pictures (half an hour, a quiet machine)
	rm -rf build/bench/readme
	-$(BIN)/python -m benchmarks --kpybroker $(BENCHED)/bin/kpybroker --minutes 30 $(OPTIONS) \
	    --rows $$($(BIN)/python -m benchmarks.readme --rows) --output build/bench/readme
	$(BIN)/python -m benchmarks.readme --take build/bench/readme

.PHONY: scale
scale: setup ## hundreds of thin brokers and a real controller on virtual time (OPTIONS='--nodes 300 --partitions 200000 --write FILE')
	$(BIN)/python -m tests.scale $(OPTIONS)

.PHONY: budget
budget: setup ## what a request costs in calls and memory, and the longest step of each page of the console, beside the budget
	$(BIN)/python -m tests.budget
	PYTHONPATH=compat-tests $(BIN)/python tests/console/steps.py

.PHONY: pictures
pictures: setup prometheus grafana ## takes the pictures of docs/console.md and of the dashboards again, with Chromium
	PYTHONPATH=compat-tests $(BIN)/python tests/console/pictures.py
	PYTHONPATH=.:compat-tests $(BIN)/python tests/metrics/dashboard_pictures.py

.PHONY: clicks
clicks: setup ## counts the clicks of docs/console.md again, with Chromium
	PYTHONPATH=compat-tests $(BIN)/python tests/console/jobs.py

.PHONY: recording
recording: setup ## records a terminal for README.md again, while real commands run on the usual ports
	$(BIN)/python release/recording.py

.PHONY: site
site: setup ## the documents as a site, with its links checked, into build/site
	$(BIN)/python release/site.py build/site-pages && $(BIN)/python -m mkdocs build --strict

## More: a release (docs/releasing.md has the order)

.PHONY: wheels
wheels: setup ## compiled wheels for Linux (in containers) or macOS, CPython 3.11 to 3.14, into dist/; `make wheel` builds this machine's
	$(BIN)/python -m cibuildwheel --output-dir dist

# The Pythons that the wheels are tried with: this environment's, and those of pyenv. INTERPRETERS=/path/to/python names others.
INTERPRETERS ?= $(CURDIR)/$(BIN)/python $(wildcard $(HOME)/.pyenv/versions/3.1[2-9].*/bin/python)

.PHONY: wheels-here
wheels-here: setup ## build the wheels with every Python of this machine, and try each: its tests, its broker with real clients
	$(PYTEST) tests/project/test_packaging.py tests/project/test_compiled_wheel.py $(INTERPRETERS:%=--interpreter %)

# Wheels for other platforms, compiled by zig and tried by a Python of the platform; all of it is fetched into build/cross.
# PYTHONS="3.12 3.13 3.14" takes other versions of CPython than this environment's.
ELSEWHERE ?= manylinux-x86_64 manylinux-aarch64 musllinux-x86_64 musllinux-aarch64
PYTHONS ?=

.PHONY: wheels-elsewhere
wheels-elsewhere: setup ## compile wheels for Linux on x86-64 and arm64, glibc and musl, and try each with a Python of its own
	$(PYTEST) tests/project/test_cross_wheels.py -o timeout=0 -rs $(ELSEWHERE:%=--cross %) $(PYTHONS:%=--cross-python %)

.PHONY: wheels-elsewhere-short
wheels-elsewhere-short: setup ## the short form: compile the wheel for arm64 with musl, which is least like this machine, and import all of it
	$(PYTEST) tests/project/test_cross_wheels.py --cross musllinux-aarch64 -q -rs -k compiled

.PHONY: modules-for-macos
modules-for-macos: setup ## compile the modules for macOS, and link them with its CPython; nothing of macOS runs here
	$(PYTEST) tests/project/test_cross_wheels.py -o timeout=0 -rs -k linked --cross macosx-arm64 --cross macosx-x86_64 \
	    $(PYTHONS:%=--cross-python %)

# Of all files of each version, so that the lock serves every platform and Python.
.PHONY: lock
lock: ## pin what the container image and the Debian package install to the newest versions, with hashes: release/requirements.lock
	test -x build/lock/bin/pip-compile || { python3 -m venv build/lock && build/lock/bin/python -m pip install --quiet 'pip-tools>=7.5'; }
	build/lock/bin/pip-compile --quiet --upgrade --extra security --extra schemas --extra remote --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate --no-emit-options \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file release/requirements.lock pyproject.toml

.PHONY: deb
deb: setup ## the Debian package, with wheels of all dependencies for this machine, into dist/
	rm -rf build/deb && $(BIN)/python -m pip wheel --quiet --no-deps --require-hashes --wheel-dir build/deb --requirement release/requirements.lock
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/deb . && $(BIN)/python release/debian.py --wheels build/deb --output dist

.PHONY: deb-installed
deb-installed: deb ## the life of the Debian package in a throwaway root: installed, used, upgraded, removed, purged (as root)
	$(PYTEST) tests/project/test_debian_installed.py --deb $$(ls -t dist/kpybroker_*.deb | head -1)

.PHONY: sbom
sbom: setup ## the bill of materials of a plain installation and of the wheels in dist/, as CycloneDX
	mkdir -p dist && $(BIN)/python release/sbom.py $(wildcard dist/*.whl) > dist/kpybroker.cdx.json

# What is measured: the compiled wheel of the present sources, in an environment of its own.

$(BENCHED)/bin/kpybroker: $(SHIPPED) | $(VENV)/.tests
	@echo "Compiling the wheel that is measured: some minutes"
	rm -rf $(BENCHED)
	$(BIN)/python -m venv $(BENCHED)
	$(COMPILED) --outdir $(BENCHED)
	$(BENCHED)/bin/python -m pip install --quiet $(BENCHED)/*.whl

# The environment: one for running, which `make run` is content with, and one with everything. uv installs the 130 packages of
# the latter in a third of pip's time; where a machine's settings for pip are not uv's, pip does it. The jars of PySpark, of which
# uv makes a wheel, are compressed already.
UV_INSTALL = $(BIN)/python -m pip install --quiet uv && $(BIN)/uv pip install --quiet --python $(BIN)/python \
    --config-setting=--build-option=--compression=stored

$(BIN)/python:
	@for name in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
	    $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    echo "Setting up $(VENV) with $$name"; \
	    $$name -m venv $(VENV) && exit 0; \
	    rm -rf $(VENV); exit 1; \
	done; \
	echo "kpybroker needs Python 3.11 or newer, and none was found (make PYTHON=/path/to/python3 names one)." >&2; exit 1

$(VENV)/.runs: pyproject.toml | $(BIN)/python
	@echo "Installing kpybroker and what it needs into $(VENV)"
	@$(BIN)/python -m pip install --editable .
	@touch $@

$(VENV)/.tests: pyproject.toml | $(BIN)/python
	@echo "Installing what tests, demos and benchmarks need into $(VENV): some minutes, PySpark alone is 400 MB"
	@$(UV_INSTALL) --editable '.[test,demo]' || $(BIN)/python -m pip install --editable '.[test,demo]'
	@touch $(VENV)/.runs $@
