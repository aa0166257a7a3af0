// Sources in Python that do what they should.
#include <catch2/catch.hpp>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "tests/support/plugin_fixture.h"

namespace millrace {
namespace {

using test::PluginFixture;
using test::RowText;

constexpr std::string_view kSource = R"(
    __all__ = ["Source"]

    class Source:
        def __init__(self, scale=1):
            self.scale = scale

        def __len__(self):
            return 100

        def spec(self):
            return {"x": "float32[*, 2]", "n": "int64", "d": "bytes[3]", "t": "str"}

        def __getitem__(self, i):
            return {"x": np.full((i % 4, 2), i * self.scale, np.float32), "n": i,
                    "d": bytes([i, 1, 2]), "t": "number %d" % i}
)";

std::string Text(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST_CASE("a source gives the examples that are asked for", "[plugin]") {
  PluginFixture fixture(kSource);
  fixture.options().object.args = R"({"scale": 3})";
  const auto pool = fixture.Start();
  const PluginFacts& facts = pool->facts();
  CHECK(facts.length == 100);
  REQUIRE(facts.tensors.size() == 4);
  CHECK(TensorTypeText(facts.tensors[0].type) == "float32[*, 2]");
  const auto reply = pool->Build({{7, 4, 99}});
  REQUIRE(reply.ok());
  REQUIRE(reply->rows() == 3);
  CHECK(reply->outcome(0) == RowOutcome::kDone);
  CHECK(reply->extent(0, 0) == 3);
  CHECK(RowText(*reply, facts.tensors, 0, 0) == "21 21 21 21 21 21");
  CHECK(reply->extent(0, 1) == 0);
  CHECK(reply->values(0, 1).empty());
  CHECK(RowText(*reply, facts.tensors, 1, 2) == "99");
  CHECK(RowText(*reply, facts.tensors, 2, 0) == "7 1 2");
  CHECK(Text(reply->values(3, 2)) == "number 99");
  REQUIRE(reply->column(1).has_value());
  CHECK(reply->column(1)->size() == 24);
  CHECK_FALSE(reply->column(0).has_value());
}

TEST_CASE("one process builds one request after another in the same memory", "[plugin]") {
  PluginFixture fixture(R"(
      __all__ = ["Source"]

      class Source:
          def __len__(self): return 1000
          def spec(self): return {"x": "float64[*]", "y": "int32[300]"}
          def __getitem__(self, i):
              return {"x": np.full(i, i, np.float64), "y": np.full(300, i, np.int32)}
  )");
  const auto pool = fixture.Start();
  const pid_t process = pool->Stats()[0].process;
  for (const std::uint64_t most : {3u, 900u, 20u}) {
    PluginRequest request;
    for (std::uint64_t id = 0; id <= most; ++id) request.ids.push_back(id);
    const auto reply = pool->Build(request);
    REQUIRE(reply.ok());
    for (std::uint64_t id = 0; id <= most; ++id) {
      REQUIRE(reply->extent(0, id) == id);
      double x = static_cast<double>(id);
      if (id > 0) std::memcpy(&x, reply->values(0, id).data() + 8 * (id - 1), sizeof x);
      REQUIRE(x == static_cast<double>(id));
      std::int32_t y = 0;
      std::memcpy(&y, reply->values(1, id).data() + 4 * 299, sizeof y);
      REQUIRE(y == static_cast<std::int32_t>(id));
    }
  }
  CHECK(pool->Stats()[0].process == process);
  CHECK(pool->Stats()[0].examples == 4 + 901 + 21);
  CHECK(pool->Stats()[0].restarts == 0);
}

TEST_CASE("an array that a source uses again does not change earlier rows", "[plugin]") {
  PluginFixture fixture(R"(
      __all__ = ["Source"]

      class Source:
          def __init__(self): self.x = np.zeros(5000, np.float32)
          def __len__(self): return 10
          def spec(self): return {"x": "float32[*]", "y": "float32[5000]"}
          def __getitem__(self, i):
              self.x[:] = i
              return {"x": self.x, "y": self.x}
  )");
  const auto pool = fixture.Start();
  const auto reply = pool->Build({{1, 2, 3}});
  REQUIRE(reply.ok());
  for (std::size_t row = 0; row < 3; ++row) {
    for (const std::size_t tensor : {0u, 1u}) {
      float last = 0;
      std::memcpy(&last, reply->values(tensor, row).data() + 4 * 4999, sizeof last);
      CHECK(last == static_cast<float>(row + 1));
    }
  }
}

TEST_CASE("a request without examples has an empty reply", "[plugin]") {
  PluginFixture fixture(kSource);
  const auto pool = fixture.Start();
  const auto reply = pool->Build({});
  REQUIRE(reply.ok());
  CHECK(reply->rows() == 0);
}

TEST_CASE("an example that the source does not have is refused", "[plugin]") {
  PluginFixture fixture(kSource);
  const auto pool = fixture.Start();
  CHECK(pool->Build({{3, 100}}).status().message() ==
        "plugin:Source: example 100, and the source has 100");
}

TEST_CASE("__getitems__ builds all examples with one call", "[plugin]") {
  PluginFixture fixture(R"(
      __all__ = ["Source"]

      class Source:
          calls = 0
          def __len__(self): return 100
          def spec(self): return {"n": "int64", "calls": "int64"}
          def __getitem__(self, i): raise RuntimeError("one by one")
          def __getitems__(self, ids):
              self.calls += 1
              return [{"n": i, "calls": self.calls} for i in ids]
  )");
  const auto pool = fixture.Start();
  const auto reply = pool->Build({{5, 6}});
  REQUIRE(reply.ok());
  CHECK(RowText(*reply, pool->facts().tensors, 0, 1) == "6");
  CHECK(RowText(*reply, pool->facts().tensors, 1, 1) == "1");
}

TEST_CASE("an example that makes __getitems__ fail is found", "[plugin]") {
  PluginFixture fixture(R"(
      import os
      __all__ = ["Source"]

      class Source:
          def __init__(self, how): self.how = how
          def __len__(self): return 100
          def spec(self): return {"n": "int64"}
          def __getitem__(self, i):
              if i == 6:
                  if self.how == "raise": raise ValueError("six")
                  os._exit(3)
              return {"n": i}
          def __getitems__(self, ids): return [self[i] for i in ids]
  )");
  const std::string how = GENERATE("raise", "exit");
  fixture.options().object.args = "{\"how\": \"" + how + "\"}";
  const auto pool = fixture.Start();
  const auto reply = pool->Build({{5, 6, 7}});
  REQUIRE(reply.ok());
  CHECK(reply->outcome(0) == RowOutcome::kDone);
  REQUIRE(reply->outcome(1) == RowOutcome::kFailed);
  CHECK(FailureLine(reply->failure(1)) ==
        (how == "raise" ? "ValueError: six" : "the process ended with exit code 3"));
  CHECK(RowText(*reply, pool->facts().tensors, 0, 2) == "7");
}

TEST_CASE("facts of a source", "[plugin]") {
  PluginFixture fixture(R"(
      __all__ = ["Source"]

      class Source:
          def __len__(self): return 3
          def spec(self): return {"x": "int64[*]", "s/y": "float32"}
          def __getitem__(self, i):
              return {"x": [1] * (i + 1), "s/y": np.float32(i / 2)}
          def columns(self):
              return {"x.length": [1, 2, 3], "s.y": np.array([0, 0.5, 1]), "later": None}
          def digest(self): return b"\x01\xff"
          def version(self, i): return "v%d" % i
  )");
  const auto pool = fixture.Start();
  const PluginFacts& facts = pool->facts();
  REQUIRE(facts.columns.size() == 3);
  CHECK(facts.columns[0].name == "x.length");
  CHECK(facts.columns[0].dtype == DType::kInt64);
  CHECK(facts.columns[1].dtype == DType::kFloat64);
  CHECK_FALSE(facts.columns[2].dtype.has_value());
  CHECK(facts.digest == "01ff");
  CHECK(facts.has_version);
  CHECK_FALSE(facts.uses_chance);
  CHECK(facts.environment.starts_with("python " + facts.python.substr(0, facts.python.rfind('.'))));
  CHECK(facts.environment.find("\nnumpy " + facts.numpy + "\n") != std::string::npos);
  const auto lengths = pool->Column("x.length");
  REQUIRE(lengths.ok());
  CHECK((*lengths)->integers == std::vector<std::int64_t>{1, 2, 3});
  const auto floats = pool->Column("s.y");
  REQUIRE(floats.ok());
  CHECK((*floats)->floats == std::vector<double>{0, 0.5, 1});
  CHECK(pool->Column("later").status().code() == StatusCode::kNotFound);
  const std::vector<std::uint64_t> ids{2, 0};
  const auto versions = pool->Versions(ids);
  REQUIRE(versions.ok());
  CHECK(*versions == std::vector<std::string>{"v2", "v0"});
  const auto reply = pool->Build({{0, 1, 2}});
  REQUIRE(reply.ok());
  CHECK(reply->failed() == 0);
}

TEST_CASE("an example that contradicts a column fails", "[plugin]") {
  PluginFixture fixture(R"(
      __all__ = ["Source"]

      class Source:
          def __len__(self): return 3
          def spec(self): return {"x": "int64[*]", "y": "float32"}
          def __getitem__(self, i):
              return {"x": [1] * (i + (i == 1)), "y": np.float32(i if i < 2 else 9)}
          def columns(self): return {"x.length": [0, 1, 2], "y": [0, 1, 2]}
  )");
  const auto pool = fixture.Start();
  const auto reply = pool->Build({{0, 1, 2}});
  REQUIRE(reply.ok());
  CHECK(reply->outcome(0) == RowOutcome::kDone);
  REQUIRE(reply->failed() == 2);
  CHECK(reply->failure(1).message == "the example has x.length 2, and columns() says 1");
  CHECK(reply->failure(2).message == "the example has y 9, and columns() says 2");
}

TEST_CASE("two requests at the same time are built by two processes", "[plugin]") {
  PluginFixture fixture(R"(
      import os
      __all__ = ["Source"]

      class Source:
          def __len__(self): return 3
          def spec(self): return {"pid": "int64"}
          def __getitem__(self, i): return {"pid": os.getpid()}
  )");
  fixture.options().plugin.processes = 2;
  const auto pool = fixture.Start();
  auto first = pool->Build({{0}});
  REQUIRE(first.ok());
  const auto second = pool->Build({{0}});  // the first reply is still held
  REQUIRE(second.ok());
  const auto& tensors = pool->facts().tensors;
  CHECK(RowText(*first, tensors, 0, 0) != RowText(*second, tensors, 0, 0));
  SECTION("and a third one waits until it can be stopped") {
    std::stop_source stop;
    stop.request_stop();
    CHECK(pool->Build({{0}}, stop.get_token()).status().code() == StatusCode::kCancelled);
  }
  SECTION("and a third one takes the process of a reply that is dropped") {
    const std::string process = RowText(*first, tensors, 0, 0);
    first = Cancelled("");
    const auto third = pool->Build({{0}});
    REQUIRE(third.ok());
    CHECK(RowText(*third, tensors, 0, 0) == process);
  }
}

TEST_CASE("a source is constructed after the fork, in every process", "[plugin]") {
  PluginFixture fixture(R"(
      import os
      __all__ = ["Source"]
      imported = os.getpid()

      class Source:
          def __init__(self): self.made = os.getpid()
          def __len__(self): return 3
          def spec(self): return {"imported": "int64", "made": "int64", "built": "int64"}
          def __getitem__(self, i):
              return {"imported": imported, "made": self.made, "built": os.getpid()}
  )");
  const auto pool = fixture.Start();
  const auto reply = pool->Build({{0}});
  REQUIRE(reply.ok());
  const auto& tensors = pool->facts().tensors;
  CHECK(RowText(*reply, tensors, 0, 0) == std::to_string(pool->fork_server_process()));
  CHECK(RowText(*reply, tensors, 1, 0) == RowText(*reply, tensors, 2, 0));
  CHECK(RowText(*reply, tensors, 2, 0) == std::to_string(pool->Stats()[0].process));
}

TEST_CASE("a module whose import starts a thread is imported by each process", "[plugin]") {
  PluginFixture fixture(R"(
      import os, threading, time
      __all__ = ["Source"]
      imported = os.getpid()
      threading.Thread(target=lambda: time.sleep(1e6), daemon=True).start()

      class Source:
          def __len__(self): return 3
          def spec(self): return {"imported": "int64", "threads": "int64"}
          def __getitem__(self, i):
              return {"imported": imported, "threads": threading.active_count()}
  )");
  fixture.options().plugin.processes = 2;
  const auto pool = fixture.Start();
  CHECK(pool->fork_server_process() == 0);
  const auto first = pool->Build({{0}});
  const auto second = pool->Build({{0}});
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  const auto& tensors = pool->facts().tensors;
  CHECK(RowText(*first, tensors, 0, 0) == std::to_string(pool->Stats()[0].process));
  CHECK(RowText(*second, tensors, 0, 0) == std::to_string(pool->Stats()[1].process));
  CHECK(RowText(*first, tensors, 1, 0) == "2");
}

TEST_CASE("a folder is given as `folder`", "[plugin]") {
  PluginFixture fixture(R"(
      __all__ = ["Source"]

      class Source:
          def __init__(self, folder, n): self.folder, self.n = folder, n
          def __len__(self): return self.n
          def spec(self): return {"x": "str"}
          def __getitem__(self, i): return {"x": self.folder}
  )");
  fixture.options().object.args = R"({"n": 2})";
  fixture.options().object.folder = "/data/speech";
  const auto pool = fixture.Start();
  const auto reply = pool->Build({{1}});
  REQUIRE(reply.ok());
  CHECK(Text(reply->values(0, 0)) == "/data/speech");
}

TEST_CASE("generators have the keys that the daemon gives", "[plugin]") {
  PluginFixture fixture(R"(
      import random
      __all__ = ["Source"]

      class Source:
          def __len__(self): return 20
          def spec(self): return {"same": "bool", "x": "uint64[2]", "epoch": "int64", "legacy": "float64[2]"}
          def example(self, i, epoch, rng):
              key = rng.bit_generator.state["state"]["key"]
              other = np.random.Generator(np.random.Philox(key=key, counter=0))
              same = True
              for _ in range(5):
                  same &= rng.integers(1 << 40) == other.integers(1 << 40)
                  same &= rng.standard_normal() == other.standard_normal()
                  same &= bool((rng.random(3, np.float32) == other.random(3, np.float32)).all())
              rng.integers(3, dtype=np.int32)
              return {"same": bool(same), "x": key, "epoch": epoch,
                      "legacy": [random.random(), np.random.random()]}
  )");
  fixture.options().object.chance = {5, "00ff", ""};
  fixture.options().object.random = true;
  fixture.options().plugin.processes = 2;
  const auto pool = fixture.Start();
  CHECK(pool->facts().uses_chance);
  const auto reply = pool->Build({{17, 3}, {2, 0}});
  const auto again = pool->Build({{3, 17}, {0, 2}});  // in another process and order
  REQUIRE(reply.ok());
  REQUIRE(again.ok());
  const auto& tensors = pool->facts().tensors;
  CHECK(RowText(*reply, tensors, 0, 0) == "1");
  CHECK(RowText(*reply, tensors, 2, 0) == "2");
  const Digest128 key = Xxh3("5/2/17/00ff");
  std::uint64_t words[2];
  std::memcpy(words, reply->values(1, 0).data(), sizeof words);
  CHECK(words[0] == key.low);
  CHECK(words[1] == key.high);
  CHECK(RowText(*reply, tensors, 3, 0) == RowText(*again, tensors, 3, 1));
  CHECK(RowText(*reply, tensors, 3, 1) == RowText(*again, tensors, 3, 0));
  CHECK(RowText(*reply, tensors, 3, 0) != RowText(*reply, tensors, 3, 1));
  // Python's and numpy's own: random.Random(R).random() and numpy.random.RandomState(N)
  // .random_sample(), with R and the four words N of XXH3-128 of KEY/random and KEY/numpy.
  double drawn[2];
  std::memcpy(drawn, reply->values(3, 0).data(), sizeof drawn);
  CHECK(drawn[0] == 0.26114967456586535);
  CHECK(drawn[1] == 0.6156037221803637);
}

}  // namespace
}  // namespace millrace
