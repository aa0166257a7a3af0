#include "common/access/rights.h"

#include <catch2/catch.hpp>

#include <set>
#include <string>

#include "common/access/access_policy.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/worker.pb.h"

namespace millrace {
namespace {

Identity Of(PeerRoles roles) { return {.proved = true, .name = "alice", .roles = roles}; }

/// The methods of the services as the protocol files declare them.
std::set<std::string> DeclaredMethods() {
  // The messages bring the files of their services with them.
  std::set<std::string> methods;
  for (const auto* file :
       {v1::AttachRequest::descriptor()->file(), v1::WantList::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.insert("/" + file->service(s)->full_name() + "/" +
                       file->service(s)->method(m)->name());
      }
    }
  }
  return methods;
}

TEST_CASE("every method stands in the table of rights once, and nothing else but health does",
          "[access]") {
  std::set<std::string> rows{};
  for (const Right& right : RightsTable()) {
    CHECK(rows.insert(std::string(right.method)).second);
  }
  std::set<std::string> expected = DeclaredMethods();
  CHECK(expected.size() == 11);
  expected.insert("/grpc.health.v1.Health/Check");
  expected.insert("/grpc.health.v1.Health/Watch");
  CHECK(rows == expected);
}

TEST_CASE("what stands in no row is refused, whoever asks", "[access]") {
  const PeerRoles all{PeerRole::kDispatcher, PeerRole::kWorker, PeerRole::kTrainer,
                      PeerRole::kOperator, PeerRole::kViewer};
  CHECK(CheckRight("/millrace.v1.Dispatcher/Reboot", Of(all)).code() ==
        StatusCode::kPermissionDenied);
  CHECK(CheckRight("", Of(all)).code() == StatusCode::kPermissionDenied);
}

TEST_CASE("roles reach as far as the documentation says", "[access]") {
  struct Row {
    const char* method;
    Reach trainer, worker, of_operator, viewer;
  };
  using enum Reach;
  const auto row = GENERATE(Row{"Dispatcher/Attach", kOwn, kNone, kNone, kNone},
                            Row{"Worker/StreamBatches", kOwn, kNone, kNone, kNone},
                            Row{"Worker/GetStatic", kOwn, kNone, kNone, kNone},
                            Row{"Dispatcher/Work", kNone, kAll, kNone, kNone},
                            Row{"Dispatcher/GetColumn", kNone, kAll, kNone, kNone},
                            Row{"Dispatcher/GetStatus", kOwn, kNone, kAll, kAllButPipelines},
                            Row{"Dispatcher/WatchStatus", kOwn, kNone, kAll, kAllButPipelines},
                            Row{"Dispatcher/EndJob", kOwn, kNone, kAll, kNone},
                            Row{"Dispatcher/DrainWorker", kNone, kNone, kAll, kNone},
                            Row{"Dispatcher/UndrainWorker", kNone, kNone, kAll, kNone},
                            Row{"Dispatcher/Trace", kNone, kNone, kAll, kNone});
  const std::string method = std::string("/millrace.v1.") + row.method;
  CAPTURE(method);
  CHECK(ReachOf(method, Of({PeerRole::kTrainer})) == row.trainer);
  CHECK(ReachOf(method, Of({PeerRole::kWorker})) == row.worker);
  CHECK(ReachOf(method, Of({PeerRole::kOperator})) == row.of_operator);
  CHECK(ReachOf(method, Of({PeerRole::kViewer})) == row.viewer);
  CHECK(ReachOf(method, Of({PeerRole::kDispatcher})) == kNone);
  CHECK(ReachOf(method, Of({})) == kNone);
  CHECK(ReachOf(method, Identity()) == kAll);  // nobody asked who it is
}

TEST_CASE("several roles reach as far as the furthest of them", "[access]") {
  CHECK(ReachOf("/millrace.v1.Dispatcher/GetStatus", Of({PeerRole::kTrainer, PeerRole::kViewer})) ==
        Reach::kAllButPipelines);
}

TEST_CASE("a refusal names the peer, its roles, the method and who may call it", "[access]") {
  CHECK(
      CheckRight("/millrace.v1.Dispatcher/EndJob", Of({PeerRole::kViewer})) ==
      PermissionDenied("alice (viewer) may not call EndJob: expected the role trainer, operator"));
}

TEST_CASE("anybody may ask whether a server is healthy", "[access]") {
  CHECK(CheckRight("/grpc.health.v1.Health/Check", Of({})).ok());
}

TEST_CASE("a peer reads the datasets that it may read, and names plugins if it may", "[access]") {
  Identity alice = Of({PeerRole::kTrainer});
  CHECK(CheckDataset(alice, "stdlib").ok());
  alice.datasets = {"stdlib"};
  CHECK(CheckDataset(alice, "stdlib").ok());
  CHECK(CheckDataset(alice, "secret") ==
        PermissionDenied("alice (trainer) may not read dataset 'secret': ask whoever keeps the "
                         "access file"));
  CHECK(CheckDataset(alice, "plugin:speech").ok());
  alice.plugins = false;
  CHECK(CheckDataset(alice, "plugin:speech").code() == StatusCode::kPermissionDenied);
}

TEST_CASE("a certificate without a common name is known by its first name that is no role",
          "[access]") {
  Shown shown{.certificate = true, .dns_names = {"trainer.millrace", "gpu7.lab", "gpu8.lab"}};
  CHECK(IdentityOfCertificate(shown).name == "gpu7.lab");
  CHECK(IdentityOfCertificate(shown).roles == PeerRoles{PeerRole::kTrainer});
  shown.common_name = "alice";
  CHECK(IdentityOfCertificate(shown).name == "alice");
}

TEST_CASE("names that only look like a role's give none", "[access]") {
  CHECK(RolesAmong({"worker.millrace.evil.com", "xworker.millrace", "WORKER.millrace", "worker",
                    "*.millrace"})
            .empty());
}

}  // namespace
}  // namespace millrace
