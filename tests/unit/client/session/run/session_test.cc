#include <catch2/catch.hpp>

#include <algorithm>
#include <future>
#include <set>
#include <string>

#include "common/epoch/cursor.h"
#include "common/transport/convert/tables.h"
#include "tests/support/static_tables.h"
#include "tests/unit/client/session/run/fake_service.h"

namespace millrace::client {
namespace {

/// Reads batches until the end of an epoch, and returns their numbers.
std::vector<std::int64_t> ReadEpoch(Session& session) {
  std::vector<std::int64_t> numbers;
  for (;;) {
    Result<std::optional<Batch>> next = session.Next();
    if (!next.ok()) FAIL(next.status().ToString());
    if (!next->has_value()) return numbers;
    const DeliveredTensor* tensor = (**next).Find("number");
    REQUIRE(tensor != nullptr);
    for (std::size_t i = 0; i < (**next).examples(); ++i) numbers.push_back(tensor->ValueAt(i));
  }
}

std::vector<std::int64_t> Count(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = from; i < to; ++i) numbers.push_back(i);
  return numbers;
}

TEST_CASE("a session gives the batches of each epoch in order and ends with the last one",
          "[session]") {
  FakeWorld world;
  auto session = world.Create();
  REQUIRE(session->Attach().ok());
  CHECK(ReadEpoch(*session) == Count(0, 60));
  CHECK_FALSE(session->Next().value().has_value());  // again and again
  CHECK(session->epoch() == 0);
  CHECK(session->NextEpoch().value());
  CHECK(session->epoch() == 1);
  CHECK(ReadEpoch(*session) == Count(0, 60));
  CHECK_FALSE(session->NextEpoch().value());
  CHECK(session->stats().batches == 24);
  CHECK(session->stats().examples == 120);
}

TEST_CASE("a worker that compresses nothing serves a session that asks for it",
          "[session][compression]") {
  FakeWorld world;
  SessionOptions options = world.Options();
  options.compression = "zstd";
  auto session = world.Create(options);
  REQUIRE(session->Attach().ok());
  CHECK(ReadEpoch(*session) == Count(0, 60));
  CHECK(session->stats().wire_bytes == session->stats().bytes);
  MutexLock lock(world.service->mutex);
  CHECK(world.service->wants.compression() == v1::COMPRESSION_ZSTD);
}

TEST_CASE("a session that asks for no compression does not say so", "[session][compression]") {
  FakeWorld world;
  auto session = world.Create();
  REQUIRE(session->Attach().ok());
  CHECK(ReadEpoch(*session) == Count(0, 60));
  MutexLock lock(world.service->mutex);
  v1::WantList wants = world.service->wants;
  CHECK(wants.compression() == v1::COMPRESSION_OFF);
  const std::string bytes = wants.SerializeAsString();
  wants.clear_compression();
  CHECK(wants.SerializeAsString() == bytes);
}

TEST_CASE("a session with a compression that does not exist is refused with the list",
          "[session][compression]") {
  FakeWorld world;
  SessionOptions options = world.Options();
  options.compression = "gzip";
  const auto session = Session::Create(options, {});
  CHECK(session.status().message() == "compression: expected one of zstd, lz4, off, got 'gzip'");
}

TEST_CASE("the spec is there before any batch", "[session]") {
  FakeWorld world;
  SessionOptions options = world.Options();
  options.index_dtype = DType::kInt64;
  auto session = world.Create(options);
  REQUIRE(session->Attach().ok());
  CHECK(session->spec().steps.examples == 60);
  REQUIRE(session->spec().tensors.size() == 1);
  CHECK(session->spec().tensors[0].dtype == DType::kInt64);
  CHECK(session->spec().tensors[0].packed.dtype == DType::kUint32);
  const auto batch = session->Next();
  CHECK((**batch).Find("number")->dtype == DType::kInt64);
}

/// Makes the service's consumers deliver `x`, the number by one operation.
v1::TensorDefinition& Compute(FakeService& service, const char* operation) {
  v1::TensorDefinition& definition = *service.program.add_definitions();
  definition.set_name("x");
  definition.set_operation(operation);
  definition.set_version(1);
  definition.add_inputs("number");
  service.program.add_outputs()->set_name("x");
  return definition;
}

TEST_CASE("a session computes tensors after the wire, in every part of a batch", "[session]") {
  FakeWorld world;
  v1::OperationParam& dtype = *Compute(*world.service, "cast").add_params();
  dtype.set_name("dtype");
  dtype.set_text("float64");
  SessionOptions options = world.Options();
  options.micro = 2;
  auto session = world.Create(options);
  REQUIRE(session->Attach().ok());
  REQUIRE(session->spec().tensors.size() == 1);
  CHECK(session->spec().tensors[0].packed.path == "x");
  CHECK(session->spec().tensors[0].computed);
  std::vector<double> numbers;
  for (;;) {
    const auto batch = session->Next().value();
    if (!batch) break;
    CHECK(batch->Find("number") == nullptr);
    for (std::uint32_t part = 0; part < batch->parts(); ++part) {
      const Batch rows = batch->Part(part);
      for (const double number : rows.Find("x")->values<double>()) numbers.push_back(number);
    }
  }
  const std::vector<std::int64_t> expected = Count(0, 60);
  CHECK(numbers == std::vector<double>(expected.begin(), expected.end()));
}

TEST_CASE("a value that cannot be computed ends the session with the tensor's name", "[session]") {
  FakeWorld world;
  v1::OperationParam& depth = *Compute(*world.service, "one_hot").add_params();
  depth.set_name("depth");
  depth.set_integer(7);
  auto session = world.Create();
  REQUIRE(session->Attach().ok());
  CHECK(session->Next().ok());
  const Status failed = session->Next().status();
  CHECK(failed.code() == StatusCode::kDataLoss);
  CHECK_THAT(failed.message(),
             Catch::StartsWith("tensor x: one_hot: expected numbers from -1 to 6"));
  CHECK(session->Next().status() == failed);
}

TEST_CASE("a session with an operation that the client does not know ends at once", "[session]") {
  FakeWorld world;
  Compute(*world.service, "wish");
  const Status failed = world.Create()->Attach();
  CHECK(failed.code() == StatusCode::kUnimplemented);
  CHECK_THAT(failed.message(), Catch::EndsWith("update the client"));
}

TEST_CASE("a batch says where it is from, and keeps its packed form on request", "[session]") {
  FakeWorld world;
  SessionOptions options = world.Options();
  options.world_size = 3;
  options.rank = 2;
  options.packed = true;
  auto session = world.Create(options);
  session->Next().value();
  const Batch batch = *session->Next().value();
  CHECK(batch.position() == Position{0, 15});
  CHECK(batch.step() == 1);
  CHECK(batch.ordinal() == 5);
  CHECK(batch.info().first_example == 25);
  REQUIRE(batch.packed() != nullptr);
  CHECK(batch.packed()->digest() == NumbersBatch(0, {25, 5})->digest());
  CHECK(world.Create()->Next().value()->packed() == nullptr);
}

TEST_CASE("a batch of a newer worker drops for a reason that the spec names", "[session]") {
  FakeWorld world;
  world.service->drops_first_as = DropReason{17};
  SECTION("of a dispatcher that knows it") {
    world.service->drop_reasons = std::vector<std::string>(16);
    world.service->drop_reasons.push_back("too_old");
    auto session = world.Create();
    const Batch batch = *session->Next().value();
    CHECK(batch.info().dropped == std::vector{DroppedExample{ExampleId(0), DropReason{17}}});
    CHECK(session->spec().drop_reasons.NameOf(batch.info().dropped[0].reason) == "too_old");
    CHECK(session->stats().dropped[17] == 1);
    CHECK(session->stats().drop_reasons.NameOf(DropReason{17}) == "too_old");
  }
  SECTION("or has a number, of one that does not") {
    auto session = world.Create();
    const Batch batch = *session->Next().value();
    CHECK(batch.examples() == 4);
    CHECK(session->spec().drop_reasons.NameOf(batch.info().dropped[0].reason) == "reason 17");
    CHECK(session->spec().drop_reasons.NameOf(DropReason::kTooLarge) == "too_large");
  }
}

TEST_CASE("a batch in parts is the batch, and counts once", "[session]") {
  FakeWorld world;
  SessionOptions options = world.Options();
  options.micro = 2;
  auto session = world.Create(options);
  const Batch batch = *session->Next().value();
  REQUIRE(batch.parts() == 2);
  CHECK(batch.Part(0).examples() == 3);
  CHECK(batch.Part(1).examples() == 2);
  CHECK(batch.Part(0).Find("number")->ValueAt(2) == 2);
  CHECK(batch.Part(1).Find("number")->ValueAt(0) == 3);
  CHECK(batch.Part(1).position() == batch.position());
  CHECK(session->stats().batches == 1);
  CHECK(session->position() == Position{0, 5});
  options.micro = 0;
  CHECK(Session::Create(options).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("job and priority of a session are told to dispatcher and workers", "[session]") {
  FakeWorld world;
  SessionOptions options = world.Options();
  const std::uint32_t given = GENERATE(0u, 1u, 1000u);  // 0: no priority is given
  options.job = "heavy";
  if (given != 0) options.priority = given;
  auto session = world.Create(options);
  REQUIRE(session->Next().value().has_value());
  MutexLock lock(world.service->mutex);
  CHECK(world.service->hellos.at(0).job() == "heavy");
  CHECK(world.service->hellos[0].priority() == std::max(1u, given));
  CHECK(world.service->wants.job() == "heavy");
  CHECK(world.service->wants.priority() == std::max(1u, given));
}

TEST_CASE("a priority out of its range is refused with the range", "[session]") {
  FakeWorld world;
  SessionOptions options = world.Options();
  options.priority = GENERATE(0u, 1001u);
  const Status status = Session::Create(options).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message() == "priority: expected an integer from 1 to 1000, got " +
                                std::to_string(options.priority));
}

TEST_CASE("a blocked call is ended by its interrupt, and the session goes on", "[session]") {
  FakeWorld world;
  const auto let = [&world](bool admit, bool serve) {
    MutexLock lock(world.service->mutex);
    world.service->admit = admit;
    world.service->serve = serve;
  };
  int asked = 0;
  const Interrupt at_second = [&asked] { return ++asked == 2; };
  let(false, false);
  auto waits = world.Create();
  CHECK(waits->Attach(at_second).code() == StatusCode::kCancelled);
  CHECK(asked == 2);
  let(true, false);
  auto session = world.Create();
  REQUIRE(session->Attach().ok());
  asked = 0;
  CHECK(session->Next(at_second).status().code() == StatusCode::kCancelled);
  CHECK(asked == 2);
  let(true, true);
  // A worker that sent nothing does not begin by itself. Another session shows that the world
  // works.
  auto other = world.Create();
  CHECK(other->Next([] { return false; }).value().has_value());

  // The session asks an interrupt without holding its mutex, so the interrupt may call the session.
  let(true, false);
  auto asking = world.Create();
  REQUIRE(asking->Attach().ok());
  CHECK(asking->Next([&asking] { return asking->stats().batches == 0; }).status().code() ==
        StatusCode::kCancelled);
}

TEST_CASE("the cursor moves when the loop takes a batch, and a session goes on from it",
          "[session][cursor]") {
  FakeWorld world;
  std::string cursor;
  {
    auto session = world.Create();
    REQUIRE(session->Attach().ok());
    CHECK(Cursor::Parse(session->cursor())->entries[0].position == Position{0, 0});
    for (int i = 0; i < 7; ++i) REQUIRE(session->Next().value().has_value());
    cursor = session->cursor();
    CHECK(Cursor::Parse(cursor)->entries[0].position == Position{0, 35});
  }
  SessionOptions options = world.Options();
  options.cursor = cursor;
  auto session = world.Create(options);
  CHECK(ReadEpoch(*session) == Count(35, 60));
  CHECK(Cursor::Parse(session->cursor())->entries[0].position == Position{1, 0});
  MutexLock lock(world.service->mutex);
  CHECK(world.service->hellos.back().cursor_fingerprint().size() == 65);
}

TEST_CASE("the next epoch does not begin while batches of this one are left", "[session]") {
  FakeWorld world;
  auto session = world.Create();
  REQUIRE(session->Next().value().has_value());
  CHECK(session->NextEpoch().status().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("cancel ends a blocked Next at once, and every later one", "[session][cancel]") {
  FakeWorld world;
  {
    MutexLock lock(world.service->mutex);
    world.service->serve = false;
  }
  auto session = world.Create();
  REQUIRE(session->Attach().ok());
  auto next = std::async(std::launch::async, [&] { return session->Next().status(); });
  session->Cancel();
  CHECK(next.get().code() == StatusCode::kCancelled);
  CHECK(session->Next().status().code() == StatusCode::kCancelled);
}

TEST_CASE("cancel ends an Attach that waits, which says what for", "[session][cancel]") {
  FakeWorld world;
  {
    MutexLock lock(world.service->mutex);
    world.service->admit = false;
  }
  auto session = world.Create();
  auto attach = std::async(std::launch::async, [&] { return session->Attach(); });
  while (session->waiting_why().empty()) std::this_thread::yield();
  CHECK(session->waiting_why() == "job held by host7:4121");
  session->Cancel();
  CHECK(attach.get().code() == StatusCode::kCancelled);
}

TEST_CASE("what the dispatcher ends a session with reaches a blocked Next", "[session]") {
  FakeWorld world;
  {
    MutexLock lock(world.service->mutex);
    world.service->serve = false;
  }
  auto session = world.Create();
  REQUIRE(session->Attach().ok());
  auto next = std::async(std::launch::async, [&] { return session->Next().status(); });
  {
    MutexLock lock(world.service->mutex);
    world.service->streams.back()->Close(Aborted("rank 0 of j was taken over by host7:4121"));
  }
  CHECK(next.get() == Aborted("rank 0 of j was taken over by host7:4121"));
}

TEST_CASE("an error at first contact is Attach's answer", "[session]") {
  FakeWorld world;
  {
    MutexLock lock(world.service->mutex);
    world.service->refuse = InvalidArgument("line 3, column 7: unknown key 'btach'");
  }
  auto session = world.Create();
  CHECK(session->Attach() == InvalidArgument("line 3, column 7: unknown key 'btach'"));
}

TEST_CASE("a dispatcher that comes back is said hello to again, while batches go on", "[session]") {
  FakeWorld world;
  auto session = world.Create();
  REQUIRE(session->Next().value().has_value());
  MutexLock lock(world.service->mutex);
  world.service->streams.back()->Close(Unavailable("restarting"));
  while (world.service->attaches < 2) world.service->changed.Wait(world.service->mutex);
  CHECK(world.service->hellos[1].admitted());
  CHECK(world.service->hellos[1].nonce() == world.service->hellos[0].nonce());
  lock.Unlock();
  CHECK(ReadEpoch(*session) == Count(5, 60));
}

TEST_CASE("a session that goes says good-bye", "[session]") {
  FakeWorld world;
  {
    auto session = world.Create();
    REQUIRE(session->Attach().ok());
  }
  MutexLock lock(world.service->mutex);
  CHECK(world.service->byes == 1);
}

TEST_CASE("batches outlive their session, and their memory is used again once they are gone",
          "[session][memory]") {
  FakeWorld world;
  // With more room, all batches of the epoch could be there before the first one is gone.
  SessionOptions options = world.Options();
  options.prefetch_bytes = 1000;
  auto session = world.Create(options);
  // Which free buffer the next batch gets depends on what else is free by then.
  std::set<const std::byte*> places;
  std::size_t batches = 0;
  std::shared_ptr<const void> owner;
  const std::byte* kept = nullptr;
  while (const std::optional<Batch> batch = session->Next().value()) {
    ++batches;
    owner = batch->owner();
    kept = batch->Find("number")->data;
    places.insert(kept);
  }
  CHECK(batches == 12);
  CHECK(places.size() < batches);
  session.reset();
  CHECK(*reinterpret_cast<const std::int32_t*>(kept) == 55);
}

TEST_CASE("a loop that keeps every batch still gets the next one", "[session][memory]") {
  FakeWorld world;
  SessionOptions options = world.Options();
  options.prefetch_bytes = 1000;
  auto session = world.Create(options);
  std::vector<Batch> kept;
  while (std::optional<Batch> batch = session->Next().value()) kept.push_back(std::move(*batch));
  CHECK(kept.size() == 12);
}

TEST_CASE("a damaged batch is never delivered", "[session]") {
  FakeWorld world;
  {
    MutexLock lock(world.service->mutex);
    world.service->damage = true;
  }
  auto session = world.Create();
  auto next = std::async(std::launch::async, [&] { return session->Next().status(); });
  {
    MutexLock lock(world.service->mutex);
    while (world.service->sent < 2) world.service->changed.Wait(world.service->mutex);
  }
  while (session->stats().moved_failed == 0) std::this_thread::yield();
  session->Cancel();
  CHECK(next.get().code() == StatusCode::kCancelled);
  CHECK(session->stats().batches == 0);
}

TEST_CASE("tables are fetched by their digest", "[session][static]") {
  FakeWorld world;
  world.service->static_bytes = test::CoqStatic().SerializeAsString();
  const NamedTables served = *DecodeTables(world.service->static_bytes);
  for (const NamedTable& table : served.all()) world.service->tables.push_back(table.spec);
  auto session = world.Create();
  const auto tables = *session->tables();
  CHECK((**tables->Texts("node_labels", "name"))[2] == "a");
  CHECK(*session->tables() == tables);
  CHECK(session->spec().tables == world.service->tables);
}

TEST_CASE("tables that the spec does not have are refused", "[session][static][hostile]") {
  FakeWorld world;
  world.service->static_bytes = test::CoqStatic().SerializeAsString();
  world.service->tables = {{"node_labels", 7, {{"name", ColumnType::kText}}, {}}};
  auto session = world.Create();
  CHECK(session->tables().status().code() == StatusCode::kDataLoss);
}

TEST_CASE("options that cannot be are refused before anything is opened", "[session]") {
  const auto refused = [](const std::function<void(SessionOptions&)>& change) {
    FakeWorld world;
    SessionOptions options = world.Options();
    change(options);
    return Session::Create(options).status();
  };
  CHECK(refused([](SessionOptions& o) { o.job.clear(); }).code() == StatusCode::kInvalidArgument);
  CHECK(refused([](SessionOptions& o) { o.rank = 1; }).code() == StatusCode::kInvalidArgument);
  CHECK(refused([](SessionOptions& o) { o.pipeline.clear(); }).code() ==
        StatusCode::kInvalidArgument);
  CHECK(refused([](SessionOptions& o) { o.cursor = "x"; }).code() == StatusCode::kInvalidArgument);
  CHECK(refused([](SessionOptions& o) { o.index_dtype = DType::kUint8; }).code() ==
        StatusCode::kInvalidArgument);
  CHECK(refused([](SessionOptions& o) {
          o.pipeline.clear();
          o.pipeline_file = "no/such/file.yaml";
        }).code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace::client
