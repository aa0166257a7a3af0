// Sources of graph datasets for tests, without plans.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/batch/batch_writer.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/graph_sources.h"
#include "server/sampling/closure_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace::test {

using Numbers = std::vector<std::int64_t>;

/// The parts of a plan over a list, without added edges.
inline PlanParts Parts(const std::string& source, const std::string& list) {
  PlanParts parts;
  parts.Edit<SourcePart>() = {source, list};
  parts.Edit<EdgesPart>() = {Symmetrization::kDirected, false};
  return parts;
}

inline Result<std::shared_ptr<const Source>> Make(const std::filesystem::path& dir,
                                                  const PlanParts& parts) {
  auto dataset = GraphDataset::Open(dir);
  REQUIRE(dataset.ok());
  return GraphSources().Make(parts.Get<SourcePart>().name, *std::move(dataset), parts);
}

inline std::shared_ptr<const Source> MustMake(const std::filesystem::path& dir,
                                              const PlanParts& parts) {
  auto source = Make(dir, parts);
  INFO(source.status().message());
  REQUIRE(source.ok());
  return *std::move(source);
}

/// The batch of some examples, or the error.
inline Result<std::shared_ptr<const PackedBatch>> Build(const Source& source, const Numbers& rows,
                                                        BufferPool& pool) {
  auto writer = BatchWriter::Create(source.tensors(), source.expand(), pool);
  REQUIRE(writer.ok());
  writer->Begin({}, 0, 0, static_cast<std::uint32_t>(rows.size()));
  std::vector<ExampleId> ids;
  for (const std::int64_t row : rows) ids.emplace_back(static_cast<std::uint64_t>(row));
  MILLRACE_RETURN_IF_ERROR(source.NewReader()->Append(ids, *writer));
  return writer->Seal();
}

inline Numbers Values(const PackedBatch& batch, const std::string& path) {
  const auto tensor = batch.Find(path);
  REQUIRE(tensor.has_value());
  Numbers values;
  for (std::size_t i = 0; i < batch.tensors()[*tensor].rows; ++i) {
    values.push_back(batch.ValueAt(*tensor, i));
  }
  return values;
}

inline Numbers Column(const Source& source, const std::string& name) {
  Numbers values(source.examples());
  const ColumnValues wanted{*source.FindColumn(name), values};
  source.ReadColumns(ExampleId(0), {&wanted, 1});
  return values;
}

/// The values of a tensor of any dtype.
template <class T>
std::vector<T> ValuesAs(const PackedBatch& batch, const std::string& path) {
  const auto tensor = batch.Find(path);
  REQUIRE(tensor.has_value());
  const auto bytes = batch.tensor_bytes(*tensor);
  const auto* const begin = reinterpret_cast<const T*>(bytes.data());
  return {begin, begin + bytes.size() / sizeof(T)};
}

}  // namespace millrace::test
