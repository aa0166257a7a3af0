#include <string>
#include <tuple>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "client/python/src/reader.h"
#include "client/viz/graph_svg.h"

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

std::string DrawGraph(
    const std::string& title, const std::vector<std::string>& names, const std::vector<bool>& roots,
    const std::vector<bool>& definitions,
    const std::vector<std::tuple<std::uint32_t, std::uint32_t, std::string>>& edges) {
  if (roots.size() != names.size() || definitions.size() != names.size()) {
    throw nb::value_error("graph_svg: expected as many names as roots and definitions");
  }
  std::vector<DrawnNode> nodes;
  for (std::size_t n = 0; n < names.size(); ++n) {
    nodes.push_back({names[n], roots[n], definitions[n]});
  }
  std::vector<DrawnEdge> drawn;
  for (const auto& [source, target, name] : edges) {
    if (source >= nodes.size() || target >= nodes.size()) {
      throw nb::value_error("graph_svg: an edge joins a node that does not exist");
    }
    drawn.push_back({source, target, name});
  }
  return GraphSvg(title, nodes, drawn);
}

void BindDescriptions(nb::module_& module) {
  module.def("graph_svg", &DrawGraph, nb::arg("title"), nb::arg("names"), nb::arg("roots"),
             nb::arg("definitions"), nb::arg("edges"));
}

}  // namespace millrace::python
