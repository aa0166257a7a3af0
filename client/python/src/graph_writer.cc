#include "client/python/src/graph_writer.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "client/python/src/calls.h"
#include "client/python/src/errors.h"
#include "common/base/quoted.h"
#include "server/kinds/graph/writer/graph_sealer.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

using Shape = std::vector<std::uint64_t>;
using Labels = std::optional<std::vector<std::string>>;
/// Path, type, shape, offset, and name in a safetensors file.
using File = std::tuple<std::string, std::optional<std::string>, std::optional<Shape>,
                        std::uint64_t, std::string>;

Result<ArrayFile> ToArrayFile(const File& given) {
  ArrayFile file{.path = std::get<0>(given),
                 .type = {},
                 .offset = std::get<3>(given),
                 .tensor = std::get<4>(given)};
  const auto& name = std::get<1>(given);
  if (!name) return file;
  const std::optional<DType> dtype = DTypeFromName(*name);
  if (!dtype) return InvalidArgument("dtype: no array may have " + Quoted(*name));
  file.type = ArrayType{*dtype, std::get<2>(given).value_or(Shape())};
  return file;
}

nb::tuple FindArrayIn(const File& given) {
  const ArrayFile file = ValueOrRaise(ToArrayFile(given));
  const Result<StoredArray> found = WithoutGil([&] { return FindArray("/", file); });
  if (!found.ok()) Raise(found.status().WithContext(file.path));
  return nb::make_tuple(std::string(DTypeName(found->type.dtype)), found->type.shape,
                        found->offset);
}

Result<Digest128> Seal(const std::string& folder, GraphDescription description,
                       const std::map<std::string, File>& arrays) {
  GraphSealer sealer(folder, std::move(description));
  for (const auto& entry : arrays) {
    MILLRACE_ASSIGN_OR_RETURN(const ArrayFile file, ToArrayFile(entry.second));
    MILLRACE_RETURN_IF_ERROR(sealer.Add(entry.first, file));
  }
  return sealer.Seal(SealCheck::kNumbers);
}

std::string SealGraph(const std::string& folder, std::uint64_t nodes, std::uint64_t edges,
                      bool rows_are_targets, const Labels& edge_labels, const Labels& node_labels,
                      const std::map<std::string, File>& arrays) {
  GraphDescription description;
  description.nodes = nodes;
  description.edges = edges;
  description.rows = rows_are_targets ? GraphRows::kTarget : GraphRows::kSource;
  description.edge_labels = edge_labels;
  description.node_labels = node_labels;
  auto digest = WithoutGil([&] { return Seal(folder, std::move(description), arrays); });
  return ValueOrRaise(std::move(digest)).ToHex();
}

}  // namespace

void BindGraphWriter(nb::module_& module) {
  module.def(
      "find_array", &FindArrayIn, nb::arg("file"),
      "The dtype, shape and offset of an array. `file`: absolute path, dtype, shape, offset, "
      "and name in a safetensors file.");
  module.def("seal_graph", &SealGraph, nb::arg("folder"), nb::arg("nodes"), nb::arg("edges"),
             nb::arg("rows_are_targets"), nb::arg("edge_labels").none(),
             nb::arg("node_labels").none(), nb::arg("arrays"),
             "Hashes the files of a graph dataset's arrays, checks all their numbers, writes "
             "graph.json, and gives the dataset's digest.");
}

}  // namespace millrace::python
