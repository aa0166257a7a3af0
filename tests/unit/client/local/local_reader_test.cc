#include "client/local/local_reader.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include <fmt/core.h>

#include "common/epoch/cursor.h"
#include "server/catalog/product_kinds.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

/// A dataset of three proof states, and readers over it.
class World {
 public:
  World() { WriteFixture(dir_.path(), SampleFile("a.bin")); }

  static SessionOptions Options() {
    SessionOptions options;
    options.pipeline =
        "millrace: 1\ndataset: d\nsource: proof_states\nshuffle: {seed: 7}\n"
        "batch: {size: 2, remainder: keep}\n";
    return options;
  }
  Result<std::unique_ptr<LocalReader>> Create(const SessionOptions& options) const {
    return LocalReader::Create(options, {.kinds = ProductKinds(), .folders = {{"", dir_.path()}}});
  }
  std::unique_ptr<LocalReader> Open(const SessionOptions& options = Options()) const {
    auto reader = Create(options).value();
    const Status attached = reader->Attach(nullptr);
    if (!attached.ok()) FAIL(attached.ToString());
    return reader;
  }

 private:
  const TempDir dir_;
};

std::vector<ExampleId> Ids(const Batch& batch) {
  std::vector<ExampleId> ids;
  for (std::uint32_t part = 0; part < batch.parts(); ++part) {
    const std::vector<ExampleId>& of_part = batch.Part(part).info().example_ids;
    ids.insert(ids.end(), of_part.begin(), of_part.end());
  }
  return ids;
}

TEST_CASE("a plan is read epoch by epoch as a session is", "[local]") {
  const World world;
  const auto reader = world.Open();
  for (const std::uint64_t epoch : {0, 1}) {
    CHECK(reader->epoch() == epoch);
    CHECK((*reader->Next(nullptr))->step() == 0);
    CHECK(reader->position() == Position{epoch, 2});
    CHECK(reader->NextEpoch().status().code() == StatusCode::kFailedPrecondition);
    CHECK((*reader->Next(nullptr))->step() == 1);
    CHECK_FALSE(reader->Next(nullptr)->has_value());
    CHECK(reader->position() == Position{epoch + 1, 0});
    CHECK(*reader->NextEpoch());
  }
  CHECK(reader->stats().batches == 4);
  CHECK(reader->stats().examples == 6);
  CHECK(reader->stats().bytes > 0);
}

TEST_CASE("a reader goes on at a cursor of its order, and refuses another one", "[local]") {
  const World world;
  const auto first = world.Open();
  const std::vector<ExampleId> last = Ids(*first->BatchAt(0, 1, nullptr));
  SessionOptions options = World::Options();
  options.cursor = Cursor{{{first->spec().order_fingerprint, {0, 2}}}}.ToString();
  CHECK(Ids(**world.Open(options)->Next(nullptr)) == last);
  options.pipeline += "filter: {exclude_none_arguments: true}\n";
  CHECK((*world.Create(options))->Attach(nullptr).code() == StatusCode::kFailedPrecondition);
  options.cursor = "x";
  CHECK((*world.Create(options))->Attach(nullptr).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("any step of a plan can be had while the reader's place stays", "[local]") {
  const World world;
  const auto reader = world.Open();
  const Result<Batch> batch = reader->BatchAt(5, 1, nullptr);
  CHECK(batch->position() == Position{5, 2});
  CHECK(reader->position() == Position{0, 0});
  CHECK(reader->BatchAt(0, 2, nullptr).status().code() == StatusCode::kOutOfRange);
}

TEST_CASE("parts of a batch of a plan have its examples in order", "[local]") {
  const World world;
  SessionOptions options = World::Options();
  options.micro = 2;
  const Batch parts = **world.Open(options)->Next(nullptr);
  CHECK(parts.parts() == 2);
  CHECK(Ids(parts) == Ids(**world.Open()->Next(nullptr)));
}

TEST_CASE("examples are described, and those that do not exist refused", "[local]") {
  const World world;
  const auto reader = world.Open();
  CHECK((*reader->Describe(ExampleId(0)))->file == "a.bin");
  CHECK(reader->Describe(ExampleId(3)).status() == OutOfRange("example 3: there are 3"));
  const std::vector<ExampleId> ids = {ExampleId(2), ExampleId(0)};
  CHECK(Ids(*reader->BatchOf(ids, 0)) == ids);
  const std::vector<ExampleId> beyond = {ExampleId(3)};
  CHECK(reader->BatchOf(beyond, 0).status().code() == StatusCode::kOutOfRange);
}

TEST_CASE("rows of packed documents are numbered, and have pieces", "[local]") {
  const World world;
  CHECK_FALSE((*world.Open()->PiecesOf(ExampleId(0), 0)).has_value());
  SessionOptions options = World::Options();
  options.pipeline += "fields: {text: true}\npack: {tensor: state_text, size: 4, method: concat}\n";
  const auto reader = world.Open(options);
  const std::uint64_t rows = reader->plan().source()->examples();
  const auto pieces = *reader->PiecesOf(ExampleId(rows - 1), 0);
  REQUIRE(pieces.has_value());
  CHECK(pieces->back().document == ExampleId(2));
  CHECK(reader->PiecesOf(ExampleId(rows), 0).status() ==
        OutOfRange(fmt::format("row {0}: there are {0}", rows)));
}

TEST_CASE("a cancelled reader gives no more batches", "[local]") {
  const World world;
  const auto reader = world.Open();
  reader->Cancel();
  CHECK(reader->Next(nullptr).status().code() == StatusCode::kCancelled);
  CHECK(reader->BatchAt(0, 0, nullptr).status().code() == StatusCode::kCancelled);
  const auto unopened = world.Create(World::Options()).value();
  unopened->Cancel();
  CHECK(unopened->Attach(nullptr).code() == StatusCode::kCancelled);
}

TEST_CASE("options that cannot be are refused as a session refuses them", "[local]") {
  const World world;
  SessionOptions options = World::Options();
  options.micro = 0;
  CHECK(world.Create(options).status() ==
        InvalidArgument("micro: expected an integer from 1 to 4294967295, got 0"));
  options.micro = 1;
  options.rank = 1;
  CHECK(world.Create(options).status() ==
        InvalidArgument("rank 1 of world size 1: expected 0 to 0"));
}

}  // namespace
}  // namespace millrace::test
