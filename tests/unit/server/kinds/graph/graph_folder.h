// Small graph datasets for tests, and ways to damage them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/writer/array_writer.h"
#include "server/kinds/graph/writer/graph_sealer.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {

inline std::string ReadText(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
inline void WriteText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}
/// Overwrites bytes of a file in place.
inline void Overwrite(const std::filesystem::path& path, std::uint64_t offset,
                      std::span<const std::byte> bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}
template <class T>
void OverwriteValue(const std::filesystem::path& path, std::uint64_t place, T value,
                    std::uint64_t header = 128) {
  Overwrite(path, header + place * sizeof(T), std::as_bytes(std::span(&value, 1)));
}

/// A dataset in a temporary folder. Arrays are added and then sealed.
class GraphFolder {
 public:
  GraphFolder(std::uint64_t nodes, std::uint64_t edges) {
    description.nodes = nodes;
    description.edges = edges;
  }

  template <class T>
  GraphFolder& Add(const std::string& name, DType dtype, const std::vector<T>& values,
                   std::vector<std::uint64_t> shape = {}) {
    if (shape.empty()) shape = {values.size()};
    auto writer = ArrayWriter::Create(dir.path(), name + ".npy", {dtype, std::move(shape)});
    REQUIRE(writer.ok());
    REQUIRE(writer->AppendBytes(std::as_bytes(std::span(values))).ok());
    auto record = std::move(*writer).Finish();
    REQUIRE(record.ok());
    description.arrays[name] = *std::move(record);
    return *this;
  }
  Result<Digest128> Seal() const { return GraphSealer(dir.path(), description).Seal(); }
  Result<std::shared_ptr<const GraphDataset>> Open() const {
    return GraphDataset::Open(dir.path());
  }

  TempDir dir;
  GraphDescription description;
};

/// Four nodes: 0 -> 1, 2, 1; 1 -> 3; 2 -> 2; 3 has no edges. Edge labels 0, 0, 1; 1; 0. Node labels
/// 0, 1, 2, 1. The list `some` has the nodes 2, 0, 2; `parts` has the graphs {0, 1}, {}, {2, 3}.
class SmallGraphFolder : public GraphFolder {
 public:
  SmallGraphFolder() : GraphFolder(4, 5) {
    description.edge_labels = {"a", "b"};
    description.node_labels = {"x", "y", "z"};
    Add<std::int64_t>("indptr", DType::kInt64, {0, 3, 4, 5, 5});
    Add<std::int32_t>("indices", DType::kInt32, {1, 2, 1, 3, 2});
    Add<std::uint8_t>("edge_label", DType::kUint8, {0, 0, 1, 1, 0});
    Add<std::int16_t>("node_label", DType::kInt16, {0, 1, 2, 1});
    Add<std::uint32_t>("roots/some", DType::kUint32, {2, 0, 2});
    Add<std::int64_t>("graphs/parts", DType::kInt64, {0, 2, 2, 4});
    Add<float>("node_feature/x", DType::kFloat32, {0, 1, 2, 3, 4, 5, 6, 7}, {4, 2});
    Add<std::int64_t>("targets/some/y", DType::kInt64, {7, 8, 9});
  }
};

}  // namespace millrace::test
