#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "common/batch/layout/batch_header.h"
#include "common/expand/expand.h"
#include "tests/unit/common/batch/model_batch.h"

namespace millrace {
namespace {

using test::CopyOf;
using test::ModelBatch;
using test::ResealHeader;

/// A batch with every kind of tensor and every list in its header.
ModelBatch Sample() {
  ModelBatch batch = test::RandomBatch(3, 0);
  batch.plan = {};
  batch.plan.branches = {"a/", "b/"};
  batch.plan.expand = {30, Symmetrization::kBidirectional, true};
  test::ModelExample example;
  example.id = 7;
  example.graphs = {{{1, 2}, {{0, 1, 3}, {1, 0, 4}}}, {{3}, {{0, 0, 0}}}};
  example.context = {1, 0};
  example.args = {-1, 0};
  example.text = "goal";
  batch.examples = {example, example};
  batch.dropped = {{ExampleId(9), DropReason::kTooLarge}};
  batch.lost_pieces.clear();
  return batch;
}

/// The same as one graph for both examples.
ModelBatch MergedSample() { return test::Merged(Sample()); }

Status ParseStatus(const std::shared_ptr<Buffer>& bytes) {
  return PackedBatch::Parse(bytes, bytes->size()).status();
}

/// Checks that any bytes give either an error or a batch that is expanded or refused without harm.
/// The header of such a batch must have no other encoding.
void SurviveParsing(const std::shared_ptr<Buffer>& bytes, BufferPool& pool) {
  const auto batch = PackedBatch::Parse(bytes, bytes->size());
  if (!batch.ok()) return;
  static_cast<void>(Expand(**batch, DType::kInt32, pool));
  std::vector<std::byte> again((*batch)->header().size());
  EncodeHeader((*batch)->info(), (*batch)->tensors(), (*batch)->payload().size(), again);
  REQUIRE(std::memcmp(again.data(), bytes->data(), again.size()) == 0);
}

TEST_CASE("a header with any byte changed is refused", "[batch_header]") {
  BufferPool pool;
  const auto batch = test::Pack(GENERATE(false, true) ? MergedSample() : Sample(), pool);
  for (const int flip : {0x01, 0x80, 0xff}) {
    for (std::size_t i = 0; i < batch->header().size(); ++i) {
      const auto bytes = CopyOf(batch->bytes(), pool);
      bytes->data()[i] ^= static_cast<std::byte>(flip);
      const Status status = ParseStatus(bytes);
      INFO("byte " << i);
      REQUIRE((status.code() == StatusCode::kDataLoss ||
               (i >= 8 && i < 12 && status.code() == StatusCode::kUnimplemented)));
    }
  }
}

TEST_CASE("a header with any byte changed and the checksum made right harms nobody",
          "[batch_header]") {
  BufferPool pool;
  const auto batch = test::Pack(GENERATE(false, true) ? MergedSample() : Sample(), pool);
  const std::size_t header_bytes = batch->header().size();
  for (const int value : {0x00, 0x01, 0x02, 0x03, 0x7f, 0x80, 0xff}) {
    for (std::size_t i = 0; i + 8 < header_bytes; ++i) {
      const auto bytes = CopyOf(batch->bytes(), pool);
      bytes->data()[i] = static_cast<std::byte>(value);
      ResealHeader(bytes->bytes().first(header_bytes));
      INFO("byte " << i << " = " << value);
      SurviveParsing(bytes, pool);
    }
  }
}

TEST_CASE("header words of extreme size with a right checksum harm nobody", "[batch_header]") {
  BufferPool pool;
  const auto batch = test::Pack(GENERATE(false, true) ? MergedSample() : Sample(), pool);
  const std::size_t header_bytes = batch->header().size();
  for (const std::uint64_t value :
       {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 47, std::uint64_t{0}}) {
    for (std::size_t i = 12; i + 16 <= header_bytes; i += 4) {
      const auto bytes = CopyOf(batch->bytes(), pool);
      std::memcpy(bytes->data() + i, &value, sizeof(value));
      ResealHeader(bytes->bytes().first(header_bytes));
      INFO("bytes from " << i << " = " << value);
      SurviveParsing(bytes, pool);
    }
  }
}

TEST_CASE("a payload with any byte changed harms nobody", "[batch_header]") {
  BufferPool pool;
  const auto batch = test::Pack(GENERATE(false, true) ? MergedSample() : Sample(), pool);
  for (const int flip : {0x01, 0x80, 0xff}) {
    for (std::size_t i = batch->header().size(); i < batch->bytes().size(); ++i) {
      const auto bytes = CopyOf(batch->bytes(), pool);
      bytes->data()[i] ^= static_cast<std::byte>(flip);
      INFO("byte " << i);
      SurviveParsing(bytes, pool);
    }
  }
}

TEST_CASE("a batch cut at any length or too long is refused", "[batch_header]") {
  BufferPool pool;
  const auto batch = test::Pack(Sample(), pool);
  for (std::size_t size = 0; size < batch->bytes().size(); ++size) {
    // The copy has exactly that size, so that the address sanitizer sees a read beyond it.
    std::unique_ptr<std::byte[]> exact(new (std::align_val_t(64)) std::byte[size]);
    std::memcpy(exact.get(), batch->bytes().data(), size);
    const Status status = PackedBatch::Parse({exact.get(), size}, nullptr).status();
    ::operator delete[](exact.release(), std::align_val_t(64));
    INFO("size " << size);
    REQUIRE(status.code() == StatusCode::kDataLoss);
  }
  const auto longer = *pool.Acquire(batch->bytes().size() + 64);
  std::memset(longer->data(), 0, longer->size());
  std::memcpy(longer->data(), batch->bytes().data(), batch->bytes().size());
  CHECK(ParseStatus(longer).code() == StatusCode::kDataLoss);
}

/// The error of a batch whose header word at `offset` is replaced by `value`, with a right
/// checksum.
template <class T>
std::string ErrorOf(std::size_t offset, T value, const ModelBatch& model = Sample()) {
  BufferPool pool;
  const auto batch = test::Pack(model, pool);
  const auto bytes = CopyOf(batch->bytes(), pool);
  std::memcpy(bytes->data() + offset, &value, sizeof(value));
  ResealHeader(bytes->bytes().first(batch->header().size()));
  return ParseStatus(bytes).message();
}

TEST_CASE("the bound of a batch's class is read from the header", "[batch_header]") {
  BufferPool pool;
  const auto batch = test::Pack(Sample(), pool);
  CHECK_FALSE(batch->info().bound.has_value());
  for (const std::uint32_t bound : {0u, 1u, 250u, kMaxClassBound}) {
    BatchInfo info = batch->info();
    info.bound = bound;
    const auto bytes = CopyOf(batch->bytes(), pool);
    EncodeHeader(info, batch->tensors(), batch->payload().size(),
                 bytes->bytes().first(batch->header().size()));
    const auto back = PackedBatch::Parse(bytes, bytes->size());
    REQUIRE(back.ok());
    CHECK((*back)->info() == info);
  }
  CHECK(ErrorOf(100, kMaxClassBound + 2).find("bound of the class") != std::string::npos);
}

TEST_CASE("whether a batch is merged comes back from the header", "[batch_header]") {
  BufferPool pool;
  const auto batch = test::Pack(MergedSample(), pool);
  CHECK(batch->header()[98] == std::byte{1});
  CHECK(test::Pack(Sample(), pool)->header()[98] == std::byte{0});
  const auto back = PackedBatch::Parse(CopyOf(batch->bytes(), pool), batch->bytes().size());
  REQUIRE(back.ok());
  CHECK((*back)->info() == batch->info());
  CHECK((*back)->info().expand.merged);
  CHECK((*back)->info().graphs() == 1);
  CHECK((*back)->examples() == 2);
  for (const int value : {2, 3, 128, 255}) {
    CHECK(ErrorOf(98, static_cast<std::uint8_t>(value)) ==
          "batch header: merged at offset 98: expected 0 to 1, got " + std::to_string(value));
  }
}

/// A sample with lost pieces; their list is at kLostAt.
ModelBatch SampleWithLoss() {
  ModelBatch batch = Sample();
  batch.lost_pieces = {{DropReason::kTooLarge, 5}, {DropReason::kExcluded, 1}, {DropReason{63}, 7}};
  return batch;
}
constexpr std::size_t kLostAt = 104 + 2 * 8 + 16;

TEST_CASE("lost pieces come back from the header, and take no byte of one without them",
          "[batch_header]") {
  BufferPool pool;
  const auto batch = test::Pack(SampleWithLoss(), pool);
  const auto parsed = PackedBatch::Parse(CopyOf(batch->bytes(), pool), batch->bytes().size());
  REQUIRE(parsed.ok());
  CHECK((*parsed)->info().lost_pieces == SampleWithLoss().lost_pieces);
  CHECK(batch->header()[99] == std::byte{3});

  BatchInfo without = batch->info();
  without.lost_pieces.clear();
  const auto plain = test::Pack(Sample(), pool);
  std::vector<std::byte> header(HeaderBytes(without, batch->tensors()));
  EncodeHeader(without, batch->tensors(), batch->payload().size(), header);
  CHECK(plain->header()[99] == std::byte{0});
  CHECK(std::equal(header.begin(), header.end(), plain->header().begin(), plain->header().end()));
}

TEST_CASE("a header with lost pieces and any byte changed is refused or has no other encoding",
          "[batch_header]") {
  BufferPool pool;
  const auto batch = test::Pack(SampleWithLoss(), pool);
  const std::size_t header_bytes = batch->header().size();
  for (const int value : {0x00, 0x01, 0x02, 0x03, 0x04, 0x3f, 0x40, 0x7f, 0x80, 0xff}) {
    for (std::size_t i = 80; i < kLostAt + 3 * 16; ++i) {
      const auto bytes = CopyOf(batch->bytes(), pool);
      bytes->data()[i] = static_cast<std::byte>(value);
      ResealHeader(bytes->bytes().first(header_bytes));
      INFO("byte " << i << " = " << value);
      SurviveParsing(bytes, pool);
    }
  }
}

TEST_CASE("a list of lost pieces that no writer makes is refused with its place",
          "[batch_header]") {
  const auto error = [](std::size_t offset, auto value) {
    return ErrorOf(offset, value, SampleWithLoss());
  };
  CHECK(error(99, std::uint8_t{64}) ==
        "batch header: number of reasons of lost pieces at offset 99: expected 0 to 63, got 64");
  const std::string reason = "batch header: reason of lost pieces at offset ";
  CHECK(error(kLostAt, std::uint64_t{0}) == reason + "136: expected 1 to 63, got 0");
  CHECK(error(kLostAt + 16, std::uint64_t{2}) == reason + "152: expected 3 to 63, got 2");
  CHECK(error(kLostAt + 32, std::uint64_t{64}) == reason + "168: expected 5 to 63, got 64");
  // The batch has three places, and 5 pieces before.
  const std::string number = "batch header: number of lost pieces at offset ";
  CHECK(error(kLostAt + 8, std::uint64_t{0}) == number + "144: expected 1 to 3145728, got 0");
  CHECK(error(kLostAt + 24, std::uint64_t{3145724}) ==
        number + "160: expected 1 to 3145723, got 3145724");
}

TEST_CASE("a reason that only newer workers know is taken, and keeps its number",
          "[batch_header]") {
  for (const int number : {5, 17, 63}) {
    ModelBatch model = Sample();
    model.dropped[0].reason = static_cast<DropReason>(number);
    BufferPool pool;
    const auto packed = test::Pack(model, pool);
    const auto bytes = CopyOf(packed->bytes(), pool);
    const auto parsed = PackedBatch::Parse(bytes, bytes->size());
    REQUIRE(parsed.ok());
    REQUIRE((*parsed)->info().dropped.size() == 1);
    CHECK((*parsed)->info().dropped[0] ==
          DroppedExample{ExampleId(9), static_cast<DropReason>(number)});
    SurviveParsing(bytes, pool);
  }
}

TEST_CASE("an error of a header says what, where, expected and got", "[batch_header]") {
  CHECK(ErrorOf<std::uint8_t>(0, 'X') ==
        "batch header: magic at offset 0: expected MILLBTCH, got other bytes");
  for (const std::uint32_t version : {1, 3}) {
    CHECK(ErrorOf<std::uint32_t>(8, version) ==
          "batch header: format version " + std::to_string(version) +
              " at offset 8: expected 2; use the same release on both sides");
  }
  CHECK(ErrorOf<std::uint64_t>(24, 64) ==
        "batch header: payload bytes at offset 24: expected 1344, got 64");
  CHECK(ErrorOf<std::uint32_t>(80, 4) ==
        "batch header: planned examples at offset 80: expected 2 examples and 1 dropped, got 4");
  CHECK(ErrorOf<std::uint8_t>(96, 3) ==
        "batch header: symmetrization at offset 96: expected 0 to 2, got 3");
  CHECK(ErrorOf<std::uint64_t>(104 + 2 * 8 + 8, 0) ==
        "batch header: reason of a dropped example at offset 128: expected 1 to 63, got 0");
  CHECK(ErrorOf<std::uint64_t>(104 + 2 * 8 + 8, 64) ==
        "batch header: reason of a dropped example at offset 128: expected 1 to 63, got 64");
  const std::size_t table = 104 + 2 * 8 + 16;
  CHECK(ErrorOf<std::uint8_t>(table + 1, 13) ==
        "batch header: dtype at offset 137: expected 0 to 12, got 13");
  CHECK(ErrorOf<std::uint8_t>(table + 2, 7) ==
        "batch header: expansion at offset 138: expected 0 to 6, got 7");
  CHECK(ErrorOf<std::uint8_t>(table + 3, 8) ==
        "batch header: number of inner extents at offset 139: expected 0 to 7, got 8");
  CHECK(ErrorOf<std::uint32_t>(table + 8, 77) ==
        "batch header: number of a splits tensor at offset 144: expected less than 21, got 77");
  CHECK(ErrorOf<std::uint64_t>(table + 32, 64) ==
        "batch header: offset of tensor a/node_label at offset 168: expected 0, got 64");
  CHECK(ErrorOf<std::uint64_t>(table + 48, 5) ==
        "batch header: tensor bytes at offset 176: expected 10 as the shape says, got 8");
}

/// The header of a batch whose only tensor has rows of 3 × 5 float32.
std::vector<std::byte> FeaturesHeader() {
  std::vector<TensorPlace> places(1);
  places[0].spec.path = "features";
  places[0].spec.dimension = "batch";
  places[0].spec.dtype = DType::kFloat32;
  places[0].spec.expansion = Expansion::kKeep;
  places[0].spec.inner = {3, 5};
  places[0].rows = 2;
  places[0].bytes = 2 * 3 * 5 * 4;
  BatchInfo info;
  info.planned_examples = 2;
  info.example_ids = {ExampleId(1), ExampleId(2)};
  const std::uint64_t payload_bytes = LayOutPayload(places);
  std::vector<std::byte> header(HeaderBytes(info, places));
  EncodeHeader(info, places, payload_bytes, header);
  return header;
}

TEST_CASE("the extents of a row come back from the header", "[batch_header]") {
  const auto header = DecodeHeader(FeaturesHeader());
  REQUIRE(header.ok());
  const TensorPlace& place = header->tensors.at(0);
  CHECK(place.spec.dtype == DType::kFloat32);
  CHECK(place.spec.expansion == Expansion::kKeep);
  CHECK(place.spec.inner == std::vector<std::uint64_t>{3, 5});
  CHECK(place.spec.dimension == "batch");
  CHECK(place.rows == 2);
  CHECK(header->payload_bytes == 128);
}

TEST_CASE("extents that do not fit are refused with their place", "[batch_header]") {
  const auto error = [](std::size_t offset, std::uint64_t value) {
    std::vector<std::byte> header = FeaturesHeader();
    std::memcpy(header.data() + 120 + offset, &value, sizeof(value));
    ResealHeader(header);
    return DecodeHeader(header).status().message();
  };
  CHECK(error(48, 3) ==
        "batch header: tensor bytes at offset 160: expected 180 as the shape says, got 120");
  CHECK(error(48, std::uint64_t{1} << 62) ==
        "batch header: tensor rows at offset 168: expected 0 to 281474976710656, got "
        "4611686018427387904");
  CHECK(error(56, 0) ==
        "batch header: inner extent at offset 176: expected 1 to 1073741824, got 0");
  CHECK(error(64, 6) ==
        "batch header: tensor bytes at offset 160: expected 144 as the shape says, got 120");
  CHECK(error(64, 1 << 30) ==
        "batch header: inner extent at offset 184: expected at most 1073741824 values in a row, "
        "got 3221225472");
  CHECK(error(64, ~std::uint64_t{0}) ==
        "batch header: inner extent at offset 184: expected 1 to 1073741824, got "
        "18446744073709551615");
}

TEST_CASE("a header whose float has bounds is refused", "[batch_header]") {
  std::vector<std::byte> header = FeaturesHeader();
  header[120 + 24] = std::byte{9};
  ResealHeader(header);
  CHECK(DecodeHeader(header).status().message() ==
        "batch header: tensor features: bounds 0 to 9, but float32 has none");
}

/// The error of a batch whose tensor has one value replaced.
std::string ErrorOfSplit(std::string_view path, std::size_t element, std::uint64_t value) {
  BufferPool pool;
  const auto batch = test::Pack(Sample(), pool);
  const auto bytes = CopyOf(batch->bytes(), pool);
  const TensorPlace& place = batch->tensors()[batch->Find(path).value()];
  const std::size_t size = DTypeSize(place.spec.dtype);
  std::memcpy(bytes->data() + batch->header().size() + place.offset + element * size, &value, size);
  return ParseStatus(bytes).message();
}

TEST_CASE("splits that do not cut their values are refused", "[batch_header]") {
  CHECK_THAT(ErrorOfSplit("a/node_splits", 0, 1), Catch::Contains("tensor a/node_splits") &&
                                                      Catch::Contains("begin with 1, expected 0"));
  CHECK_THAT(ErrorOfSplit("a/node_splits", 1, 9), Catch::Contains("fall from 9 to 4 at row 2"));
  CHECK_THAT(ErrorOfSplit("a/node_splits", 2, 5), Catch::Contains("which cuts a/node_label") &&
                                                      Catch::Contains("end with 5, expected 4"));
  CHECK(ErrorOfSplit("a/node_splits", 1, 3).empty());
}

/// The error of the sample's payload behind a header with other tensors; `extra` bytes too long.
std::string ErrorWith(const std::function<void(std::vector<TensorPlace>&)>& change,
                      std::size_t extra = 0) {
  BufferPool pool;
  const auto batch = test::Pack(Sample(), pool);
  std::vector<TensorPlace> tensors = batch->tensors();
  change(tensors);
  const std::size_t header_bytes = HeaderBytes(batch->info(), tensors) + extra;
  const auto bytes = *pool.Acquire(header_bytes + batch->payload().size());
  EncodeHeader(batch->info(), tensors, batch->payload().size(), bytes->bytes().first(header_bytes));
  std::memcpy(bytes->data() + header_bytes, batch->payload().data(), batch->payload().size());
  return ParseStatus(bytes).message();
}

TEST_CASE("tensors have the rows that their kind asks for", "[batch_header]") {
  const auto halve = [](std::string_view path) {
    return [path](std::vector<TensorPlace>& tensors) {
      for (TensorPlace& t : tensors) {
        if (t.spec.path != path) continue;
        t.rows -= 1;
        t.bytes -= t.spec.row_bytes();
      }
    };
  };
  CHECK_THAT(ErrorWith(halve("proof_step")),
             Catch::Contains("rows of tensor proof_step") && Catch::Contains("expected 2, got 1"));
  CHECK_THAT(ErrorWith(halve("a/node_splits")), Catch::Contains("rows of tensor a/node_splits") &&
                                                    Catch::Contains("expected 3, got 2"));
}

/// The error of a merged batch behind a header with other tensors.
std::string MergedErrorWith(const std::string& path,
                            const std::function<void(TensorPlace&)>& change, bool merged = true) {
  BufferPool pool;
  const auto batch = test::Pack(MergedSample(), pool);
  std::vector<TensorPlace> tensors = batch->tensors();
  change(tensors[batch->Find(path).value()]);
  BatchInfo info = batch->info();
  info.expand.merged = merged;
  const std::size_t header_bytes = HeaderBytes(info, tensors);
  const auto bytes = *pool.Acquire(header_bytes + batch->payload().size());
  EncodeHeader(info, tensors, batch->payload().size(), bytes->bytes().first(header_bytes));
  std::memcpy(bytes->data() + header_bytes, batch->payload().data(), batch->payload().size());
  return ParseStatus(bytes).message();
}

TEST_CASE("tensors of a merged batch have the rows of its only graph", "[batch_header]") {
  const auto rows = [](std::int64_t more) {
    return [more](TensorPlace& t) {
      t.rows = static_cast<std::uint64_t>(static_cast<std::int64_t>(t.rows) + more);
      t.bytes = t.rows * t.spec.row_bytes();
    };
  };
  CHECK(MergedErrorWith("graph_size", rows(0)).empty());
  CHECK_THAT(MergedErrorWith("graph_size", rows(1)),
             Catch::Contains("rows of tensor graph_size") && Catch::Contains("expected 1, got 2"));
  CHECK_THAT(MergedErrorWith("graph_size", rows(-1)),
             Catch::Contains("rows of tensor graph_size") && Catch::Contains("expected 1, got 0"));
  CHECK_THAT(
      MergedErrorWith("a/node_splits", rows(1)),
      Catch::Contains("rows of tensor a/node_splits") && Catch::Contains("expected 2, got 3"));
  CHECK_THAT(MergedErrorWith("proof_step", rows(-1)),
             Catch::Contains("rows of tensor proof_step") && Catch::Contains("expected 2, got 1"));
  // The same bytes of a batch that is not merged.
  CHECK_THAT(
      MergedErrorWith("graph_size", rows(0), false),
      Catch::Contains("rows of tensor a/node_splits") && Catch::Contains("expected 3, got 2"));
}

TEST_CASE("nodes and edges of a merged batch are not cut by examples", "[batch_header]") {
  const auto by_examples = [](TensorPlace& t) { t.spec.dimension = "batch+1"; };
  CHECK(MergedErrorWith("a/node_splits", by_examples) ==
        "batch header: tensor a/edge_source: its node_splits a/node_splits are those of examples, "
        "expected those of graphs in a merged batch");
  CHECK(MergedErrorWith("b/edge_splits", by_examples) ==
        "batch header: tensor b/edge_splits: its dimension is batch+1, expected graphs+1 of a "
        "merged batch");
  CHECK_THAT(MergedErrorWith("graph_size", [](TensorPlace& t) { t.spec.dimension = "batch"; }),
             Catch::Contains("rows of tensor graph_size") && Catch::Contains("expected 2, got 1"));
}

TEST_CASE("a header longer than its values is refused", "[batch_header]") {
  const auto nothing = [](std::vector<TensorPlace>&) {};
  CHECK(ErrorWith(nothing).empty());
  CHECK_THAT(ErrorWith(nothing, 64), Catch::Contains("header bytes at offset 16"));
}

TEST_CASE("padding that is not zero is refused", "[batch_header]") {
  BufferPool pool;
  const auto batch = test::Pack(Sample(), pool);
  const auto bytes = CopyOf(batch->bytes(), pool);
  const TensorPlace& place = batch->tensors()[0];
  bytes->data()[batch->header().size() + place.offset + place.bytes] = std::byte{1};
  CHECK_THAT(ParseStatus(bytes).message(),
             Catch::Contains("padding after tensor a/node_label at offset 8"));
}

TEST_CASE("a batch at an address that is not aligned is refused", "[batch_header]") {
  BufferPool pool;
  const auto batch = test::Pack(Sample(), pool);
  const auto buffer = *pool.Acquire(batch->bytes().size() + 8);
  std::memcpy(buffer->data() + 8, batch->bytes().data(), batch->bytes().size());
  CHECK(PackedBatch::Parse(buffer->bytes().subspan(8), buffer).status().code() ==
        StatusCode::kInternal);
}

}  // namespace
}  // namespace millrace
