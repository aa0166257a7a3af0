// Runs graphs of tensors on values that a test writes down.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/operations/program.h"

namespace millrace::test {

/// A tensor with its memory.
struct Tensor {
  TensorType type;
  std::uint64_t rows = 0;
  std::vector<std::uint64_t> words = {};  // so that values are aligned
  std::size_t bytes = 0;
  std::vector<std::int64_t> splits = {};

  std::byte* data() { return reinterpret_cast<std::byte*>(words.data()); }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(words.data()); }
  TensorView View() const { return {&type, rows, {data(), bytes}, splits}; }
  void Resize(std::size_t size) {
    bytes = size;
    words.resize(size / 8 + 1);
  }
  template <class T>
  std::vector<T> Values() const {
    std::vector<T> values(bytes / sizeof(T));
    if (bytes != 0) std::memcpy(values.data(), data(), bytes);
    return values;
  }
  std::string TypeText() const { return DescribeTensorType(type); }
};

/// A dense tensor of the type that `text` says.
template <class T>
Tensor Dense(const std::string& text, std::uint64_t rows, const std::vector<T>& values) {
  Tensor tensor{ParseTensorType(text).value(), rows};
  tensor.Resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(tensor.data(), values.data(), tensor.bytes);
  return tensor;
}

/// A ragged tensor whose rows have these values.
template <class T>
Tensor Ragged(const std::string& text, const std::vector<std::vector<T>>& rows) {
  std::vector<T> values;
  for (const std::vector<T>& row : rows) values.insert(values.end(), row.begin(), row.end());
  Tensor tensor = Dense(text, rows.size(), values);
  const std::size_t unit = tensor.type.UnitElements();
  tensor.splits.push_back(0);
  for (const std::vector<T>& row : rows) {
    tensor.splits.push_back(tensor.splits.back() + static_cast<std::int64_t>(row.size() / unit));
  }
  return tensor;
}

using NamedTensors = std::map<std::string, Tensor>;

/// Memory that begins at a multiple of 64 bytes, as tensors of a delivered batch do.
class AlignedRoom {
 public:
  std::span<std::byte> Take(std::size_t bytes) {
    words_.resize(bytes / 8 + 9);
    return {data(), bytes};
  }
  std::byte* data() {
    const auto at = reinterpret_cast<std::uintptr_t>(words_.data());
    return reinterpret_cast<std::byte*>((at + 63) / 64 * 64);
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// Runs a whole graph; gives its outputs.
inline Result<NamedTensors> RunGraph(TensorGraphText text, const NamedTensors& sources,
                                     const LookupTables& tables = {},
                                     std::optional<std::uint32_t> bound = std::nullopt) {
  for (const auto& [name, tensor] : sources) text.sources.push_back({name, tensor.type});
  MILLRACE_ASSIGN_OR_RETURN(const TensorGraph graph,
                            TensorGraph::Bind(text, OperationTable::Default(), tables));
  std::vector<std::size_t> inputs;
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].operation != nullptr) continue;
    inputs.push_back(i);
    views.push_back(sources.at(graph.nodes()[i].name).View());
  }
  std::vector<ProgramOutput> outputs;
  for (const TensorOutput& output : graph.outputs()) outputs.push_back({output.node, output.pad});
  const Program program = Program::Compile(graph, inputs, outputs);
  NamedTensors made;
  std::map<std::string, AlignedRoom> rooms;
  ProgramRun run;
  run.bound = bound;
  run.read_soon = false;
  run.room = [&](std::size_t output, const TensorView& view) -> Result<std::span<std::byte>> {
    const std::string& name = graph.outputs()[output].name;
    Tensor& tensor = made[name];
    tensor.type = *view.type;
    tensor.rows = view.rows;
    tensor.splits.assign(view.splits.begin(), view.splits.end());
    tensor.Resize(view.units() * view.type->UnitBytes());
    return rooms[name].Take(tensor.bytes);
  };
  ProgramMemory memory;
  MILLRACE_RETURN_IF_ERROR(program.Run(views, run, memory));
  for (auto& [name, tensor] : made) {
    if (tensor.bytes != 0) std::memcpy(tensor.data(), rooms.at(name).data(), tensor.bytes);
  }
  return made;
}

/// One operation on the inputs "a", "b", …; gives its output.
inline Result<Tensor> RunOperation(const std::string& operation, const std::vector<Tensor>& inputs,
                                   std::map<std::string, ParamValue> params = {},
                                   const LookupTables& tables = {}) {
  TensorGraphText text;
  TensorDefinition definition{"out", operation, {}, Params(std::move(params))};
  NamedTensors sources;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    definition.inputs.push_back(name);
    sources.emplace(name, inputs[i]);
  }
  text.definitions.push_back(definition);
  text.outputs = {{"out"}};
  MILLRACE_ASSIGN_OR_RETURN(NamedTensors made, RunGraph(text, sources, tables));
  return made.at("out");
}

inline std::string ErrorOf(const std::string& operation, const std::vector<Tensor>& inputs,
                           std::map<std::string, ParamValue> params = {}) {
  const Result<Tensor> result = RunOperation(operation, inputs, std::move(params));
  return result.ok() ? "no error" : result.status().message();
}

using Ints = std::vector<std::int64_t>;

}  // namespace millrace::test
