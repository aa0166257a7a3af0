#include "server/daemon/daemon.h"

#include "server/daemon/shutdown_limit.h"
#include "tests/support/dataset_fixture.h"
#include "tests/unit/server/daemon/options_fixture.h"

namespace millrace::test {
namespace {

/// Options of a daemon that listens on free ports of this host.
DaemonOptions Options(const TempDir& state, Role role) {
  OptionTexts texts;
  texts.values["listen"] = texts.values["batch_listen"] = {"127.0.0.1:0", ""};
  texts.values["state"] = {state.path(), ""};
  texts.values["grace"] = {"0", ""};
  texts.values["threads"] = {"1", ""};
  texts.values["memory_limit"] = {"64MiB", ""};
  texts.datasets["data"] = {{state.path(), ""}, ""};
  return MakeOptions(role, texts, SomeHost(), ProductKinds()).value();
}

Result<std::unique_ptr<Daemon>> Start(const DaemonOptions& options) {
  return Daemon::Start(options, MakeNullLogger(), [](const Status&) {});
}

TEST_CASE("each role listens, says where, and stops", "[daemon]") {
  for (const Role role : {Role::kDispatcher, Role::kWorker, Role::kServe}) {
    CAPTURE(RoleName(role));
    const TempDir state;
    const auto daemon = Start(Options(state, role));
    REQUIRE(daemon.ok());
    const std::string address = (*daemon)->address();
    CHECK(address.find("127.0.0.1:") == 0);
    CHECK(address != "127.0.0.1:0");
    (*daemon)->DrainAndStop();
    (*daemon)->DrainAndStop();  // a second call does nothing
  }
}

TEST_CASE("a daemon that cannot start leaves nothing behind", "[daemon]") {
  const TempDir state;
  const TempDir other;
  const auto first = Start(Options(state, Role::kServe));
  REQUIRE(first.ok());
  CHECK(Start(Options(state, Role::kServe)).status().code() == StatusCode::kFailedPrecondition);
  DaemonOptions busy = Options(other, Role::kServe);
  busy.listen = (*first)->address();
  CHECK(Start(busy).status().code() == StatusCode::kAlreadyExists);
  busy = Options(other, Role::kServe);
  busy.health_listen = (*first)->address();  // this listener is started last
  CHECK(Start(busy).status().code() == StatusCode::kAlreadyExists);
  CHECK(Start(Options(other, Role::kServe)).ok());
}

TEST_CASE("datasets can be replaced while a daemon runs", "[daemon]") {
  const TempDir state;
  DaemonOptions options = Options(state, Role::kServe);
  const auto daemon = Start(options);
  REQUIRE(daemon.ok());
  options.datasets = {{"other", {state.path(), ""}}};
  (*daemon)->ReloadDatasets(options);
  (*daemon)->ReloadDatasets(options);
}

TEST_CASE("a stop in time is not cut short", "[daemon]") {
  sigset_t none;
  sigemptyset(&none);
  const ShutdownLimit limit(none, 3600, MakeNullLogger());
}

}  // namespace
}  // namespace millrace::test
