// Tensors that are delivered with types and extents of their own.
#include <catch2/catch.hpp>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "common/batch/batch_writer.h"
#include "common/expand/expand.h"
#include "tests/unit/common/batch/model_batch.h"

namespace millrace {
namespace {

/// Data without nodes: two images of 2 × 3 bytes that are widened, ragged halves, and flags.
std::shared_ptr<const PackedBatch> Images(BufferPool& pool, int flag) {
  std::vector<TensorSpec> tensors(4);
  tensors[0].path = "image";
  tensors[0].dimension = "batch";
  tensors[0].inner = {2, 3};
  tensors[0].max = 255;
  tensors[1].path = "sound";
  tensors[1].kind = TensorKind::kRaggedValues;
  tensors[1].dtype = DType::kFloat16;
  tensors[1].dimension = "sound";
  tensors[1].splits = "sound_splits";
  tensors[1].expansion = Expansion::kKeep;
  tensors[2].path = "sound_splits";
  tensors[2].kind = TensorKind::kSplits;
  tensors[2].dimension = "batch+1";
  tensors[2].max = 255;
  tensors[3].path = "flags";
  tensors[3].dtype = DType::kBool;
  tensors[3].dimension = "batch";
  tensors[3].inner = {2};
  tensors[3].expansion = Expansion::kKeep;
  auto writer = BatchWriter::Create(tensors, {}, pool);
  REQUIRE(writer.ok());
  writer->Begin({}, 0, 0, 2);
  const std::array<std::uint16_t, 3> sound = {0x3c00, 0xfe01, 0x8000};  // 1, a NaN, -0
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::int64_t i = 0; i < 6; ++i) {
      writer->AppendOne(0, static_cast<std::int64_t>(10 * row) + i);
    }
    writer->AppendBytes(1, std::as_bytes(std::span(sound).subspan(row, 1 + row)));
    const std::array flags = {std::byte{1}, static_cast<std::byte>(row == 0 ? 0 : flag)};
    writer->AppendBytes(3, flags);
    writer->EndExample(ExampleId(row));
  }
  auto packed = writer->Seal();
  REQUIRE(packed.ok());
  auto parsed =
      PackedBatch::Parse(test::CopyOf((*packed)->bytes(), pool), (*packed)->bytes().size());
  REQUIRE(parsed.ok());
  return *parsed;
}

TEST_CASE("data without nodes is expanded, row by row too", "[expand]") {
  BufferPool pool;
  const auto packed = Images(pool, 1);
  const auto delivered = Expand(*packed, DType::kInt64, pool);
  REQUIRE(delivered.ok());
  const DeliveredTensor& image = (*delivered)->tensors()[0];
  CHECK(image.shape == std::vector<std::uint64_t>{2, 2, 3});
  CHECK(image.dimensions == std::vector<std::string>{"batch", "2", "3"});
  CHECK(image.bytes == 96);
  CHECK(image.ValueAt(11) == 15);
  const auto second = Expand(*packed, DType::kInt32, pool, RowRange{1, 1});
  REQUIRE(second.ok());
  CHECK(test::Values(**second, "sound_splits") == std::vector<std::int64_t>{0, 2});
  const auto sound = (*second)->Find("sound")->values<std::uint16_t>();
  CHECK(std::vector(sound.begin(), sound.end()) == std::vector<std::uint16_t>{0xfe01, 0x8000});
  CHECK((*second)->Find("sound")->dtype == DType::kFloat16);
  CHECK((*second)->Find("image")->ValueAt(0) == 10);
}

TEST_CASE("a bool that is neither 0 nor 1 is data loss", "[expand]") {
  BufferPool pool;
  const auto packed = Images(pool, 0x80);
  const auto delivered = Expand(*packed, DType::kInt32, pool);
  REQUIRE_FALSE(delivered.ok());
  CHECK(delivered.status().code() == StatusCode::kDataLoss);
  CHECK(delivered.status().message() ==
        "tensor flags: value 128 at element 3 of a bool: expected 0 or 1");
  CHECK(Expand(*packed, DType::kInt32, pool, RowRange{0, 1}).ok());
}

}  // namespace
}  // namespace millrace
