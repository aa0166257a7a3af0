"""The parts of tests/bench/run. They need only Python's standard library."""
