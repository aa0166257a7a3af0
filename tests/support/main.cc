#define CATCH_CONFIG_MAIN
#include <errno.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <string>

namespace {

/// Programs that a test starts say which test it was (leftovers.py).
struct NameForPrograms : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    const std::string name = std::string(program_invocation_short_name) + ": " + test.name;
    setenv("MILLRACE_TEST", name.c_str(), 1);
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(NameForPrograms)
