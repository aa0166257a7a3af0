#include "client/session.h"

#include <catch2/catch.hpp>

#include <string>

#include "common/base/protocol_limits.h"
#include "tests/unit/client/session/run/fake_service.h"

namespace millrace::client {
namespace {

std::unique_ptr<Session> Open(FakeWorld& world, const SessionOptions& options) {
  SessionEnvironment environment;
  environment.connector = world.network.MakeConnector("trainer:1");
  environment.random = [] { return 0.0; };
  auto reader = Session::Create(options, environment).value();
  REQUIRE(reader->Attach(nullptr).ok());
  return reader;
}

std::int64_t FirstNumber(const Batch& batch) { return batch.Find("number")->ValueAt(0); }

TEST_CASE("any step can be had while the reader's own place stays", "[session][batch_at]") {
  FakeWorld world;
  const auto reader = Open(world, world.Options());
  CHECK(FirstNumber(**reader->Next(nullptr)) == 0);
  const Result<Batch> batch = reader->BatchAt(1, 7, nullptr);
  REQUIRE(batch.ok());
  CHECK(FirstNumber(*batch) == 35);
  CHECK(batch->epoch() == 1);
  CHECK(batch->step() == 7);
  CHECK(reader->position() == Position{0, 5});
  CHECK(FirstNumber(**reader->Next(nullptr)) == 5);
}

TEST_CASE("a step that no epoch has is refused", "[session][batch_at]") {
  FakeWorld world;
  const auto reader = Open(world, world.Options());
  CHECK(reader->BatchAt(0, 12, nullptr).status() ==
        OutOfRange("step 12: an epoch has the steps 0 to 11"));
}

TEST_CASE("a single step is fetched by a job of its own, whose name fits", "[session][batch_at]") {
  FakeWorld world;
  SessionOptions options = world.Options();
  for (int i = 0; i < 64; ++i) options.job += "\u00e4";
  options.job.resize(kMaxNameBytes - 1);
  const auto reader = Open(world, options);
  REQUIRE(reader->BatchAt(0, 0, nullptr).ok());
  MutexLock lock(world.service->mutex);
  REQUIRE(world.service->hellos.size() == 2);
  const std::string& job = world.service->hellos[1].job();
  CHECK(job.size() <= kMaxNameBytes);
  const std::size_t own = job.find("/peek-");
  REQUIRE(own != std::string::npos);
  CHECK(options.job.starts_with(job.substr(0, own)));
  CHECK(own % 2 == 1);  // "j", and whole characters of two bytes
}

TEST_CASE("cancelling ends the wait for a single step", "[session][batch_at]") {
  FakeWorld world;
  const auto reader = Open(world, world.Options());
  reader->Cancel();
  CHECK(reader->BatchAt(0, 0, nullptr).status().code() == StatusCode::kCancelled);
  CHECK(reader->Next(nullptr).status().code() == StatusCode::kCancelled);
}

}  // namespace
}  // namespace millrace::client
