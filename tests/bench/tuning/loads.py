"""The loads: what is built, how fast the loop goes, and what else happens meanwhile."""

import dataclasses

CLOSURE = {"millrace": 1, "source": "proof_states",
           "closure": {"max_subgraph_size": 1024, "stop_at_definitions": True},
           "edges": {"symmetrization": "none", "add_self_edges": False}}

_SIGNS = [1] * 6 + [-1] * 6 + [1] * 6 + [-1] * 6
_PLANES = [4 * (i % 6) + i // 6 for i in range(24)]
_CHESS = {
    "millrace": 1, "source": {"records": {"d": "bytes[194]", "s": "int64"}},
    "tensors": {
        "bits": {"bits": "d", "order": "msb"},
        "planes": {"slice": "bits", "range": [0, 1536], "shape": [8, 8, 24]},
        "board": {"take": "planes", "axis": -1, "index": _PLANES, "scale": _SIGNS,
                  "dtype": "float32"},
        "flags": {"slice": "bits", "range": [1536, 1546], "dtype": "float32"},
        "mate": {"slice": "bits", "range": [1546, 1547], "squeeze": True},
        "sf": {"cast": "s", "dtype": "float64"},
        "score": {"expr": "mate ? sign(sf) * (A + (1 - A) / (B - 1) * max(0, B - abs(sf))) : "
                          "A * tanh(sf / K)", "with": {"A": 0.9, "B": 50, "K": 400},
                  "dtype": "float32"}},
    "output": ["board", "flags", "score"]}


@dataclasses.dataclass(frozen=True)
class Load:
    name: str
    title: str
    source: str         # closures, records or python
    batch: int
    steps: tuple        # seconds of a step, one for each part of the run
    milliseconds: float = 5  # CPU time of a batch of the Python operation
    neighbour: bool = False  # in the middle of the run
    memory_limit: int = 0    # of the daemon; 0: its default
    rivals: bool = True
    rounds: bool = True      # tuned and fixed in turns, several times
    steady: bool = False     # a long run, in which settings may change hardly ever

    def pipeline(self):
        """As a dict; the dataset's id is `data`."""
        common = {"shuffle": {"seed": 0}, "batch": {"size": self.batch, "remainder": "drop"}}
        if self.source == "python":
            return {"millrace": 1, "source": {"python": "busy:Busy",
                                              "args": {"milliseconds": self.milliseconds}}, **common}
        return {**(CLOSURE if self.source == "closures" else _CHESS), "dataset": "data", **common}


LOADS = (
    Load("closures", "closures, 256 a batch, steps of 25 ms", "closures", 256, (0.025,)),
    Load("fast", "closures, 512 a batch, steps of 0 ms: the loader is the limit", "closures", 512,
         (0.0,), rivals=False),
    Load("records", "records with decoding, 2048 a batch, steps of 50 ms", "records", 2048, (0.05,)),
    Load("python", "5 ms of CPU in Python a batch, steps of 8 ms", "python", 32, (0.008,)),
    Load("steps", "4 ms of CPU in Python a batch, steps of 5, then 50, then 5 ms", "python", 32,
         (0.005, 0.05, 0.005), milliseconds=4, rounds=False),
    Load("neighbour", "5 ms of CPU in Python a batch, steps of 12 ms; a neighbour takes half the CPU",
         "python", 32, (0.012,), neighbour=True, rounds=False),
    Load("memory", "records with decoding, 2048 a batch, steps of 20 ms, memory_limit 48 MiB",
         "records", 2048, (0.02,), memory_limit=48 << 20, rounds=False),
    Load("steady", "5 ms of CPU in Python a batch, steps of 12 ms, for ten minutes", "python", 32,
         (0.012,), rivals=False, rounds=False, steady=True),
)


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds of the parts of a measurement."""
    warm: float = 30        # of tuning, before it counts
    fixed_warm: float = 5   # of settings that do not change
    measured: float = 15
    search: float = 10      # of each candidate, its warm-up included
    part: float = 40        # of a step's length
    neighbour: float = 60
    steady: float = 600     # steady minutes, after the warm-up
    rounds: int = 2


QUICK = Times(warm=3, fixed_warm=1, measured=2, search=2, part=4, neighbour=4, steady=6, rounds=1)
