#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <catch2/catch.hpp>

#include "common/system/repeat_limit.h"

namespace millrace {
namespace {

class Lines final : public Logger {
 public:
  void Log(LogLevel, std::string_view event, std::initializer_list<LogField> fields) override {
    std::string line(event);
    for (const LogField& field : fields) line += fmt::format(" {}={}", field.key, field.value);
    lines.push_back(std::move(line));
  }
  std::vector<std::string> lines;
};

TEST_CASE("an event that repeats is one line in ten seconds, with a count", "[log]") {
  const auto to = std::make_shared<Lines>();
  const auto clock = std::make_shared<FakeClock>();
  RepeatLimit log(to, clock);
  for (int i = 0; i <= 80; ++i) {  // 20 seconds
    log.Warning("worker failed", {{"worker", "a:1"}, {"why", "refused"}});
    clock->Advance(std::chrono::milliseconds(250));
  }
  CHECK(to->lines ==
        std::vector<std::string>{
            "worker failed worker=a:1 why=refused",
            "worker failed, 40 times since the last such line worker=a:1 why=refused",
            "worker failed, 40 times since the last such line worker=a:1 why=refused"});
}

TEST_CASE("events that differ in a field or the level are all logged", "[log]") {
  const auto to = std::make_shared<Lines>();
  RepeatLimit log(to, std::make_shared<FakeClock>());
  log.Warning("worker failed", {{"worker", "a:1"}, {"why", "refused"}});
  log.Warning("worker failed", {{"worker", "b:1"}, {"why", "refused"}});
  log.Warning("worker failed", {{"worker", "a:1"}, {"why", "silent"}});
  log.Error("worker failed", {{"worker", "a:1"}, {"why", "refused"}});
  log.Warning("worker drains", {{"worker", "a:1"}, {"why", "refused"}});
  CHECK(to->lines.size() == 5);
}

TEST_CASE("an event that comes again after long is logged as the first time", "[log]") {
  const auto to = std::make_shared<Lines>();
  const auto clock = std::make_shared<FakeClock>();
  RepeatLimit log(to, clock);
  log.Info("dispatcher lost", {{"address", "a:1"}});
  clock->Advance(RepeatLimit::kApart);
  log.Info("dispatcher lost", {{"address", "a:1"}});
  CHECK(to->lines == std::vector<std::string>(2, "dispatcher lost address=a:1"));
}

}  // namespace
}  // namespace millrace
