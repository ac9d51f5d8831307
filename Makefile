# Aliases only: everything is in run.py.
.PHONY: setup verify test docs
setup verify test docs:
	python3 run.py $@
