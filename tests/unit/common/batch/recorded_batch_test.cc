// Compares the writer's output with the bytes in docs/formats/batch.md.
#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/core.h>

#include "common/batch/batch_writer.h"

namespace millrace {
namespace {

TensorSpec Make(std::string path, TensorKind kind, DType dtype, std::string dimension,
                std::uint64_t max, std::string splits, Expansion expansion = Expansion::kWiden,
                std::string node_splits = "") {
  TensorSpec spec;
  spec.path = std::move(path);
  spec.kind = kind;
  spec.dtype = dtype;
  spec.dimension = std::move(dimension);
  spec.splits = std::move(splits);
  spec.node_splits = std::move(node_splits);
  spec.max = max;
  spec.expansion = expansion;
  return spec;
}

std::shared_ptr<const PackedBatch> Recorded(BufferPool& pool) {
  using K = TensorKind;
  using D = DType;
  std::vector<TensorSpec> tensors = {
      Make("node_label", K::kDense, D::kUint16, "nodes", 1000, "node_splits"),
      Make("edge_source", K::kDense, D::kUint16, "edges", 1023, "edge_splits",
           Expansion::kEdgeSource, "node_splits"),
      Make("edge_target", K::kDense, D::kUint16, "edges", 1023, "edge_splits",
           Expansion::kEdgeTarget, "node_splits"),
      Make("edge_label", K::kDense, D::kUint8, "edges", 29, "edge_splits", Expansion::kEdgeLabel),
      Make("node_splits", K::kSplits, D::kUint32, "batch+1", 1 << 20, ""),
      Make("edge_splits", K::kSplits, D::kUint32, "batch+1", 1 << 21, "", Expansion::kEdgeSplits),
      Make("example_id", K::kDense, D::kUint64, "batch", std::uint64_t{1} << 40, ""),
      Make("position", K::kDense, D::kFloat32, "batch", 0, "", Expansion::kKeep)};
  tensors.back().inner = {2};
  auto writer = BatchWriter::Create(tensors, {30, Symmetrization::kBidirectional, true}, pool);
  REQUIRE(writer.ok());
  const auto fingerprint =
      Fingerprint::FromString("00112233445566778899aabbccddeeff-0123456789abcdeffedcba9876543210");
  REQUIRE(fingerprint.ok());
  writer->Begin(*fingerprint, 1, 512, 3);
  const std::vector<std::uint32_t> labels = {26, 3, 3}, sources = {0, 0}, targets = {1, 2},
                                   edge_labels = {2, 5}, other = {27};
  writer->Append(0, labels);
  writer->Append(1, sources);
  writer->Append(2, targets);
  writer->Append(3, edge_labels);
  writer->AppendOne(6, 7);
  const std::array<float, 2> first = {0.5F, -2}, second = {1, 0};
  writer->AppendBytes(7, std::as_bytes(std::span(first)));
  writer->EndExample(ExampleId(7));
  writer->AddDropped(ExampleId(9), DropReason{1});
  writer->Append(0, other);
  writer->AppendOne(6, 4'294'967'304);
  writer->AppendBytes(7, std::as_bytes(std::span(second)));
  writer->EndExample(ExampleId(4'294'967'304));
  auto batch = writer->Seal();
  REQUIRE(batch.ok());
  return *batch;
}

/// The bytes as lines of 16, such as "0010  4d 49 …".
std::string HexDump(std::span<const std::byte> bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 16 == 0) text += fmt::format("{}{:04x} ", i == 0 ? "" : "\n", i);
    text += fmt::format(" {:02x}", std::to_integer<int>(bytes[i]));
  }
  return text;
}

TEST_CASE("the page on the layout shows the bytes that are written", "[batch_header]") {
  BufferPool pool;
  const auto batch = Recorded(pool);
  std::ifstream file(std::string(MILLRACE_SOURCE_DIR) + "/docs/formats/batch.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  const std::string expected = fmt::format(
      "Header:\n\n```\n{}\n```\n\nPayload:\n\n```\n{}\n```\n\nPayload hash `{}`, digest `{}`.\n",
      HexDump(batch->header()), HexDump(batch->payload()), batch->payload_hash().ToHex(),
      batch->digest().ToHex());
  INFO("the page should end with:\n" << expected);
  const bool ends_so = text.ends_with("\n" + expected);
  CHECK(ends_so);
}

}  // namespace
}  // namespace millrace
