#include <string>
#include <tuple>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "client/python/src/reader.h"
#include "client/viz/named_graph.h"

namespace nb = nanobind;

namespace millrace::python {

nb::dict SpecDict(const BatchSpec& spec) {
  nb::list tensors;
  for (const DeliveredTensorSpec& tensor : spec.tensors) {
    nb::dict one;
    one["path"] = tensor.path;
    one["kind"] = std::string(TensorKindName(tensor.kind));
    one["dtype"] = std::string(DTypeName(tensor.dtype));
    one["packed_dtype"] = std::string(DTypeName(tensor.packed_dtype));
    one["dimensions"] = nb::tuple(nb::cast(tensor.dimensions));
    one["splits"] = tensor.splits;
    one["expansion"] = tensor.expansion;
    one["min"] = tensor.min;
    one["max"] = tensor.max;
    tensors.append(one);
  }
  nb::dict dict;
  dict["tensors"] = tensors;
  dict["source"] = spec.source;
  dict["examples_per_epoch"] = spec.steps.examples;
  dict["batch_size"] =
      spec.steps.size != 0 ? spec.steps.size : spec.steps.global_size / spec.steps.world_size;
  dict["global_batch_size"] =
      spec.steps.size != 0 ? spec.steps.size * spec.steps.world_size : spec.steps.global_size;
  dict["remainder"] = spec.steps.keep ? "keep" : "drop";
  dict["world_size"] = spec.steps.world_size;
  dict["steps_per_epoch"] = spec.steps_per_epoch;
  dict["left_out_per_epoch"] = spec.left_out_per_epoch;
  dict["symmetrization"] = std::string(SymmetrizationName(spec.expand.symmetrization));
  dict["add_self_edges"] = spec.expand.add_self_edges;
  dict["base_edge_labels"] = spec.expand.base_edge_labels;
  dict["edge_labels"] = spec.edge_labels;
  dict["node_labels"] = spec.node_labels;
  dict["base_node_labels"] = spec.base_node_labels;
  dict["tactics"] = spec.tactics;
  dict["contexts"] = spec.contexts;
  dict["max_batch_bytes"] = spec.max_batch_bytes;
  dict["fingerprint"] = spec.fingerprint.ToString();
  dict["order_fingerprint"] = spec.order_fingerprint.ToString();
  dict["start"] = nb::make_tuple(spec.start.epoch, spec.start.example);
  return dict;
}

nb::dict VocabularyDict(const VocabularyTable& vocabulary) {
  nb::list tactics;
  for (const TacticEntry& tactic : vocabulary.tactics) {
    nb::dict one;
    one["ident"] = tactic.ident;
    one["base_text"] = nb::steal<nb::str>(PyUnicode_DecodeUTF8(
        tactic.base_text.data(), static_cast<Py_ssize_t>(tactic.base_text.size()), "replace"));
    one["arguments"] = tactic.arguments;
    one["count"] = tactic.count;
    tactics.append(one);
  }
  nb::dict dict;
  dict["node_label_names"] = nb::cast(vocabulary.node_label_names);
  dict["node_label_idents"] = nb::cast(vocabulary.node_label_idents);
  dict["edge_label_names"] = nb::cast(vocabulary.edge_label_names);
  dict["tactics"] = tactics;
  dict["files"] = nb::cast(vocabulary.files);
  dict["labels_of_file"] = nb::cast(vocabulary.labels_of_file);
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
