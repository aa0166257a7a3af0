"""What tests/bench/run is made of. Python's standard library only."""
