#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "client/python/src/reader.h"
#include "client/viz/named_graph.h"

namespace nb = nanobind;

namespace millrace::python {

namespace {

/// None if graphs are not padded.
nb::object GraphPadDict(const std::optional<GraphPad>& pad) {
  if (!pad) return nb::none();
  nb::dict dict;
  dict["nodes"] = pad->nodes;
  dict["edges"] = pad->edges;
  dict["graphs"] = pad->graphs;
  return dict;
}

/// None stands for an extent that differs between batches.
nb::tuple InnerExtents(const std::vector<std::uint64_t>& inner) {
  nb::list extents;
  for (const std::uint64_t extent : inner) {
    extents.append(extent == 0 ? nb::none() : nb::object(nb::int_(extent)));
  }
  return nb::tuple(extents);
}

}  // namespace

nb::dict SpecDict(const BatchSpec& spec) {
  nb::list tensors;
  for (const DeliveryTensor& tensor : spec.tensors) {
    nb::dict one;
    const TensorSpec& packed = tensor.packed;
    one["path"] = packed.path;
    one["kind"] = std::string(TensorKindName(packed.kind));
    one["dtype"] = std::string(DTypeName(tensor.dtype));
    one["packed_dtype"] = std::string(DTypeName(packed.dtype));
    one["dimension"] = packed.dimension;
    one["inner"] = InnerExtents(packed.inner);
    one["splits"] = packed.splits;
    one["node_splits"] = packed.node_splits;
    one["expansion"] = std::string(ExpansionName(packed.expansion));
    one["min"] = packed.min;
    one["max"] = packed.max;
    one["computed"] = tensor.computed;
    one["rows"] = tensor.rows ? nb::object(nb::int_(*tensor.rows)) : nb::none();
    one["table"] = tensor.table;
    tensors.append(one);
  }
  nb::dict dict;
  dict["tensors"] = tensors;
  dict["graph_pad"] = GraphPadDict(spec.graph_pad);
  dict["source"] = spec.source;
  nb::list branches;
  for (const BranchSpec& branch : spec.branches) {
    nb::dict one;
    one["name"] = branch.name;
    one["dataset"] = branch.dataset;
    one["weight"] = branch.weight;
    one["examples"] = branch.examples;
    one["rows_per_epoch"] = branch.rows_per_epoch;
    one["first_example"] = branch.first_example;
    one["source_examples"] = branch.source_examples;
    branches.append(one);
  }
  dict["branches"] = branches;
  const std::uint64_t units =
      spec.steps.size != 0 ? spec.steps.size : spec.steps.global_size / spec.steps.world_size;
  const bool whole_batches = spec.steps.unit_rows > 0;
  const std::uint64_t batch_size = whole_batches ? spec.steps.unit_rows : units;
  dict["unit"] = whole_batches ? "batch" : "example";
  dict["units_per_epoch"] = spec.steps.examples;
  dict["stride"] = units * spec.steps.world_size;
  dict["examples_per_epoch"] = spec.examples_per_epoch;
  dict["batch_size"] = batch_size;
  dict["global_batch_size"] = batch_size * spec.steps.world_size;
  dict["remainder"] = spec.steps.keep ? "keep" : "drop";
  dict["world_size"] = spec.steps.world_size;
  dict["steps_per_epoch"] = spec.steps_per_epoch;
  dict["left_out_per_epoch"] = spec.left_out_per_epoch;
  dict["symmetrization"] = std::string(SymmetrizationName(spec.expand.symmetrization));
  dict["add_self_edges"] = spec.expand.add_self_edges;
  dict["base_edge_labels"] = spec.expand.base_edge_labels;
  dict["edge_labels"] = spec.expand.edge_labels();
  dict["merged"] = spec.expand.merged;
  nb::list tables;
  for (const TableSpec& table : spec.tables) {
    nb::dict columns;
    for (const ColumnSpec& column : table.columns) {
      columns[nb::str(column.name.c_str())] = std::string(ColumnTypeName(column.type));
    }
    nb::dict one;
    one["name"] = table.name;
    one["rows"] = table.rows;
    one["columns"] = columns;
    one["digest"] = table.digest;
    tables.append(one);
  }
  dict["tables"] = tables;
  dict["max_batch_bytes"] = spec.max_batch_bytes;
  dict["fingerprint"] = spec.fingerprint.ToString();
  dict["order_fingerprint"] = spec.order_fingerprint.ToString();
  dict["start"] = nb::make_tuple(spec.start.epoch, spec.start.example);
  return dict;
}

nb::str TableText(std::string_view text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::list TableTexts(const TextColumn& texts) {
  nb::list list;
  for (std::size_t i = 0; i < texts.size(); ++i) list.append(TableText(texts[i]));
  return list;
}

nb::dict TableDict(const NamedTable& table) {
  nb::dict dict;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    nb::list values;
    if (const auto* const texts = std::get_if<TextColumn>(&table.columns[i])) {
      values = TableTexts(*texts);
    } else if (const auto* const n = std::get_if<std::vector<std::int64_t>>(&table.columns[i])) {
      values = TableNumbers(std::span<const std::int64_t>(*n));
    } else {
      values = TableNumbers(
          std::span<const std::uint64_t>(std::get<std::vector<std::uint64_t>>(table.columns[i])));
    }
    dict[nb::str(table.spec.columns[i].name.c_str())] = values;
  }
  return dict;
}

std::string DrawExample(
    std::uint64_t example, const std::vector<std::uint64_t>& labels, const std::vector<bool>& roots,
    const std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>>& edges,
    const nb::sequence& node_names, const nb::sequence& edge_names, std::uint64_t node_classes) {
  if (roots.size() != labels.size()) {
    throw nb::value_error("example_svg: expected as many roots as nodes");
  }
  LabelledGraph graph{.example = example, .node_labels = labels, .roots = roots, .edges = {}};
  for (const auto& [source, target, label] : edges) {
    if (source >= labels.size() || target >= labels.size()) {
      throw nb::value_error("example_svg: an edge joins a node that does not exist");
    }
    graph.edges.push_back({source, target, label});
  }
  LabelNames names;
  names.node_labels = nb::len(node_names);
  names.edge_labels = nb::len(edge_names);
  names.node = [&](std::uint64_t label) { return nb::cast<std::string>(node_names[label]); };
  names.edge = [&](std::uint64_t label) { return nb::cast<std::string>(edge_names[label]); };
  names.node_classes = node_classes;
  return GraphSvg(NameGraph(graph, names));
}

void BindDescriptions(nb::module_& module) {
  module.def("example_svg", &DrawExample, nb::arg("example"), nb::arg("labels"), nb::arg("roots"),
             nb::arg("edges"), nb::arg("node_names"), nb::arg("edge_names"),
             nb::arg("node_classes"));
}

}  // namespace millrace::python
