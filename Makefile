# Sluice on one machine. `make` alone lists what there is.
# Everything goes through devstack/, which needs Python 3.11 and no package.

PYTHON ?= $(shell for found in python3.11 python3.12 python3.13 python3.14 python3; do \
	if command -v $$found >/dev/null 2>&1 && \
	$$found -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$found; break; fi; done)
OURS := .venv/bin/python
# So many processes test side by side, each on servers of its own: about 3 GB each. Twice as many
# as a small machine has processors, since tests of crashes and outages mostly wait.
TESTERS ?= 4
# Whatever the shell says of it: a process that has to compile its modules begins two seconds later.
export PYTHONDONTWRITEBYTECODE :=
# No suitable Python: let the one there is say so in a sentence.
STARTER = $(or $(PYTHON),python3)

.DEFAULT_GOAL := help
.PHONY: help setup run servers stop status test smoke payments bridges chaos soak fuzz drill check bench docs pictures monitoring-check lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## fetch and build what is missing: packages, jars, the console's files, a browser
	@$(STARTER) -m devstack setup --spark --beside

run: ## start everything and print the console's address and login (SAMPLE=0, SPARK=0: without these; SECURED=1: Kafka also with logins and certificates; REGISTRY=1: with a schema registry; JMS=1: with a JMS broker; PAYMENTS=1: with the payment example, PAYMENTS=0: no longer)
	@$(STARTER) -m devstack up

servers: ## start PostgreSQL, Valkey and Kafka alone and print where they are, for a project of your own
	@$(STARTER) -m devstack up --servers

stop: ## stop what `make run` or `make servers` started; the data stay
	@$(STARTER) -m devstack down

status: ## tell what runs
	@$(STARTER) -m devstack status || true

test: setup ## every test, on real servers of their own (FAST=0: without those of `make check`)
	@$(OURS) -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 $(if $(filter 0,$(FAST)),-m "not fast")

smoke: setup ## 10,000 messages through two queues and three SIGKILLs; prints one JSON line
	@$(OURS) -m bench.smoke

payments: setup ## COUNT=20000 payments by Kafka and by JMS amid SIGKILLs of processes and servers, by SEED=1: charged twice or not at all; prints one JSON line
	@$(OURS) -m bench.payments --count $(or $(COUNT),20000) --seed $(or $(SEED),1)

bridges: setup ## COUNT=20000 messages of a Java JMS client to Kafka and back to JMS amid KILLS=50 SIGKILLs, by SEED=1: each once, as it was sent; prints one JSON line
	@$(OURS) -m bench.bridges --count $(or $(COUNT),20000) --kills $(or $(KILLS),50) --seed $(or $(SEED),1)

chaos: setup ## kills, stops and cuts off whatever runs, for SECONDS=600, by SEED=1; prints one JSON line
	@$(OURS) -m bench.chaos --seconds $(or $(SECONDS),600) --seed $(or $(SEED),1)

soak: setup ## half of what this machine can do, for SECONDS=3600: what is lost, what grows; prints one JSON line
	@$(OURS) -m bench.soak --seconds $(or $(SECONDS),3600)

fuzz: setup ## any bytes to all that reads bytes from outside, SECONDS=600 for each target (NAME=x for one); one JSON line each
	@$(OURS) -m tests.fuzz --seconds $(or $(SECONDS),600) $(NAME)

drill: setup ## what operators fear, tried on what `SLUICE_INTEGRATIONS=sample,bench.app make run` started; one JSON line each (NAME=x for one of them)
	@$(OURS) -m bench.drill $(NAME)

check: setup ## format, lint, types, imports, migrations, fast tests; needs no server
	@$(OURS) -m devstack.check

bench: setup ## the benchmarks, one JSON object a line (NAME=x for one of them)
	@$(OURS) -m bench $(NAME)

docs: setup ## the documentation as a site, in site/: every link checked, nothing fetched
	@NO_MKDOCS_2_WARNING=1 $(OURS) -m mkdocs build
	@echo "To read it: $(OURS) -m http.server --bind 127.0.0.1 --directory site"

monitoring-check: ## the alert rules and the dashboard's expressions, by promtool (Debian's package prometheus)
	@promtool check rules deploy/monitoring/alerts.yml
	@$(OURS) deploy/monitoring/expressions.py | promtool check rules /dev/stdin

pictures: run ## take the pictures of the documentation anew, from what `make run` starts and from the tutorial's project
	@$(OURS) -m tests.support.pictures $(NAME)

lock: setup ## compile the pinned, hashed requirements anew from the *.in files
	@$(OURS) -m devstack lock
