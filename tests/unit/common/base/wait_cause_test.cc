#include "common/base/wait_cause.h"

#include <catch2/catch.hpp>

#include <set>
#include <string>

namespace millrace {
namespace {

TEST_CASE("every cause has a name of its own", "[wait]") {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kWaitCauses; ++i) {
    names.emplace(WaitCauseName(static_cast<WaitCause>(i)));
  }
  CHECK(names.size() == kWaitCauses);
  CHECK(WaitCauseName(WaitCause::kPython) == "python");
}

TEST_CASE("causes from connecting to the transfer are of a worker, and Python's is", "[wait]") {
  std::string of_workers;
  for (std::size_t i = 0; i < kWaitCauses; ++i) {
    const auto cause = static_cast<WaitCause>(i);
    if (IsForWorker(cause)) of_workers += std::string(WaitCauseName(cause)) + " ";
  }
  CHECK(of_workers == "connect build queue transfer python ");
}

TEST_CASE("more workers could shorten waits for a worker, and for a member", "[wait]") {
  std::string for_workers;
  for (std::size_t i = 0; i < kWaitCauses; ++i) {
    const auto cause = static_cast<WaitCause>(i);
    if (IsForWorkers(cause)) for_workers += std::string(WaitCauseName(cause)) + " ";
  }
  CHECK(for_workers == "lease connect build queue transfer python ");
}

}  // namespace
}  // namespace millrace
