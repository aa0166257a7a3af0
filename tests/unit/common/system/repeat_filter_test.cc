#include "common/system/repeat_filter.h"
#include "tests/support/fake_clock.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace millrace {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::seconds;

class Lister final : public Logger {
 public:
  void Log(LogLevel, std::string_view event, std::initializer_list<LogField> fields) override {
    std::string line(event);
    for (const LogField& field : fields) line += " " + std::string(field.key) + "=" + field.value;
    lines.push_back(line);
  }

  Lines lines;
};

struct Filtered {
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>();
  std::shared_ptr<Lister> to = std::make_shared<Lister>();
  RepeatFilter log{to, clock};

  void Pass(int time) {
    for (int i = 0; i < time; ++i) {
      clock->Advance(seconds(1));
      log.Tick();
    }
  }
};

TEST_CASE("a warning that is repeated is a line at once, and one with a count after ten seconds",
          "[repeat_filter]") {
  Filtered f;
  for (int i = 0; i < 20; ++i) {
    f.log.Warning("store failed", {{"why", "disk full"}, {"code", 7}});
    f.Pass(1);
  }
  CHECK(f.to->lines == Lines{"store failed why=disk full code=7",
                             "store failed why=disk full code=7 repeated=9",
                             "store failed why=disk full code=7 repeated=10"});
  f.Pass(30);
  CHECK(f.to->lines.size() == 3);
  f.log.Warning("store failed", {{"why", "disk full"}, {"code", 7}});
  CHECK(f.to->lines.size() == 4);
}

TEST_CASE("a warning that came once has no count", "[repeat_filter]") {
  Filtered f;
  f.log.Warning("paused");
  f.Pass(60);
  CHECK(f.to->lines == Lines{"paused"});
}

TEST_CASE("lines that differ in level, event or a field are told apart", "[repeat_filter]") {
  Filtered f;
  f.log.Warning("a", {{"x", 1}});
  f.log.Error("a", {{"x", 1}});
  f.log.Warning("b", {{"x", 1}});
  f.log.Warning("a", {{"x", 2}});
  f.log.Warning("a", {{"y", 1}});
  CHECK(f.to->lines.size() == 5);
}

TEST_CASE("what is no warning is passed on as it is", "[repeat_filter]") {
  Filtered f;
  f.log.Info("plugin says", {{"line", "a\nb"}});
  f.log.Info("plugin says", {{"line", "a\nb"}});
  CHECK(f.to->lines == Lines{"plugin says line=a\nb", "plugin says line=a\nb"});
}

TEST_CASE("a traceback is logged once, by whatever lines tell it", "[repeat_filter]") {
  Filtered f;
  const std::string rest = "\nTraceback\n  in f\nIndexError";
  f.log.Error("batch cannot be built", {{"error", "batch 3: IndexError" + rest}});
  f.log.Warning("session ended", {{"why", "no worker is left: batch 3: IndexError" + rest}});
  f.log.Warning("session ended", {{"why", "another error\nTraceback\n  in g"}});
  CHECK(
      f.to->lines ==
      Lines{"batch cannot be built error=batch 3: IndexError" + rest,
            "session ended why=no worker is left: batch 3: IndexError (the rest was logged before)",
            "session ended why=another error\nTraceback\n  in g"});
  f.clock->Advance(RepeatFilter::kToldFor);
  f.log.Warning("session ended", {{"why", "batch 3: IndexError" + rest}});
  CHECK(f.to->lines.back() == "session ended why=batch 3: IndexError" + rest);
}

TEST_CASE("the count of a line with a traceback has its first line", "[repeat_filter]") {
  Filtered f;
  for (int i = 0; i < 3; ++i) f.log.Error("failed", {{"error", "a\nTraceback"}});
  f.Pass(10);
  CHECK(f.to->lines == Lines{"failed error=a\nTraceback", "failed error=a repeated=2"});
}

TEST_CASE("more lines than are told apart are logged without being remembered", "[repeat_filter]") {
  Filtered f;
  const auto log_all = [&] {
    for (std::size_t i = 0; i < RepeatFilter::kMostLines + 10; ++i) {
      f.log.Warning("a", {{"number", i}});
    }
  };
  log_all();
  log_all();
  CHECK(f.to->lines.size() == RepeatFilter::kMostLines + 20);
}

}  // namespace
}  // namespace millrace
