#include "common/transport/convert/tensor_program.h"

#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

namespace millrace {
namespace {

void NumberToProto(const ParamNumber& number, v1::OperationNumber* to) {
  if (const auto* const integer = std::get_if<std::int64_t>(&number)) {
    to->set_integer(*integer);
  } else {
    to->set_real(std::get<double>(number));
  }
}

ParamNumber NumberFromProto(const v1::OperationNumber& number) {
  if (number.has_real()) return number.real();
  return number.integer();
}

/// Sets the value of `to` by its type.
struct ValueToProto {
  v1::OperationParam* to;

  void operator()(bool value) const { to->set_flag(value); }
  void operator()(std::int64_t value) const { to->set_integer(value); }
  void operator()(double value) const { to->set_real(value); }
  void operator()(const std::string& value) const { to->set_text(value); }
  void operator()(const std::vector<std::int64_t>& values) const {
    to->mutable_integers();
    for (const std::int64_t value : values) to->mutable_integers()->add_values(value);
  }
  void operator()(const std::vector<ParamNumber>& values) const {
    to->mutable_numbers();
    for (const ParamNumber& value : values) {
      NumberToProto(value, to->mutable_numbers()->add_values());
    }
  }
  void operator()(const std::map<std::string, ParamNumber>& values) const {
    to->mutable_named();
    for (const auto& [name, value] : values) {
      v1::NamedNumber* const named = to->mutable_named()->add_values();
      named->set_name(name);
      NumberToProto(value, named->mutable_value());
    }
  }
  // Only `python` and stages have others, and these run at workers, so that no program has them.
  template <class T>
  void operator()(const T&) const {}
};

Result<ParamValue> ValueFromProto(const v1::OperationParam& param) {
  switch (param.value_case()) {
    case v1::OperationParam::kFlag:
      return ParamValue(param.flag());
    case v1::OperationParam::kInteger:
      return ParamValue(std::int64_t{param.integer()});
    case v1::OperationParam::kReal:
      return ParamValue(param.real());
    case v1::OperationParam::kText:
      return ParamValue(param.text());
    case v1::OperationParam::kIntegers:
      return ParamValue(std::vector<std::int64_t>(param.integers().values().begin(),
                                                      param.integers().values().end()));
    case v1::OperationParam::kNumbers: {
      std::vector<ParamNumber> numbers;
      for (const auto& number : param.numbers().values()) {
        numbers.push_back(NumberFromProto(number));
      }
      return ParamValue(std::move(numbers));
    }
    case v1::OperationParam::kNamed: {
      std::map<std::string, ParamNumber> named;
      for (const auto& number : param.named().values()) {
        named[number.name()] = NumberFromProto(number.value());
      }
      return ParamValue(std::move(named));
    }
    case v1::OperationParam::VALUE_NOT_SET:
      break;
  }
  return InvalidArgument(fmt::format("parameter {}: it has no value", param.name()));
}

template <class Repeated>
Result<Params> ParamsFromProto(const Repeated& params) {
  std::map<std::string, ParamValue> values;
  for (const v1::OperationParam& param : params) {
    MILLRACE_ASSIGN_OR_RETURN(values[param.name()], ValueFromProto(param));
  }
  return Params(std::move(values));
}

Result<GraphPad> GraphPadFromProto(const v1::GraphPad& pad) {
  // What int64 does not hold becomes negative, and is refused as that.
  const auto count = [](std::uint64_t value) {
    return ParamValue(static_cast<std::int64_t>(value));
  };
  Result<GraphPad> bound = GraphPad::Bind(Params({{"nodes", count(pad.nodes())},
                                                           {"edges", count(pad.edges())},
                                                           {"graphs", count(pad.graphs())}}));
  if (!bound.ok()) return bound.status().WithContext("pad.graph");
  return bound;
}

}  // namespace

void ToProto(const Params& params,
             google::protobuf::RepeatedPtrField<v1::OperationParam>* to) {
  for (const auto& [name, value] : params.values()) {
    v1::OperationParam* const param = to->Add();
    param->set_name(name);
    std::visit(ValueToProto{param}, value);
  }
}

void ToProto(const TensorDefinition& definition, const OperationTable& table,
             v1::TensorDefinition* to) {
  to->set_name(definition.name);
  to->set_operation(definition.operation);
  to->set_version(table.Find(definition.operation)->version);
  for (const std::string& input : definition.inputs) to->add_inputs(input);
  ToProto(definition.params, to->mutable_params());
}

void ToProto(const ConsumerProgram& program, const OperationTable& table, v1::TensorProgram* to) {
  const TensorGraphText& text = program.text;
  to->Clear();
  for (const TensorDefinition& definition : text.definitions) {
    ToProto(definition, table, to->add_definitions());
  }
  for (const std::string& name : *text.outputs) {
    v1::TensorOutput* const output = to->add_outputs();
    output->set_name(name);
    const auto pad = text.pads.find(name);
    if (pad == text.pads.end()) continue;
    output->set_padded(true);
    ToProto(pad->second, output->mutable_pad());
  }
  if (program.source_tensors) to->set_source_tensors(*program.source_tensors);
  if (program.graph_pad) {
    to->mutable_graph()->set_nodes(program.graph_pad->nodes);
    to->mutable_graph()->set_edges(program.graph_pad->edges);
    to->mutable_graph()->set_graphs(program.graph_pad->graphs);
  }
}

Result<ConsumerProgram> FromProto(const v1::TensorProgram& program, const OperationTable& table) {
  ConsumerProgram made;
  TensorGraphText& text = made.text;
  for (const v1::TensorDefinition& message : program.definitions()) {
    const OperationType* const operation = table.Find(message.operation());
    if (operation == nullptr || operation->version != message.version()) {
      return Unimplemented(fmt::format(
          "tensor {}: the dispatcher asks for operation {} of version {}, this client has {}; "
          "update the client",
          message.name(), message.operation(), message.version(),
          operation == nullptr ? "none" : fmt::format("version {}", operation->version)));
    }
    TensorDefinition definition;
    definition.name = message.name();
    definition.operation = message.operation();
    definition.inputs.assign(message.inputs().begin(), message.inputs().end());
    MILLRACE_ASSIGN_OR_RETURN(definition.params, ParamsFromProto(message.params()));
    text.definitions.push_back(std::move(definition));
  }
  text.outputs.emplace();
  for (const v1::TensorOutput& output : program.outputs()) {
    text.outputs->push_back(output.name());
    if (!output.padded()) continue;
    MILLRACE_ASSIGN_OR_RETURN(text.pads[output.name()], ParamsFromProto(output.pad()));
  }
  if (program.has_source_tensors()) made.source_tensors = program.source_tensors();
  if (program.has_graph()) {
    MILLRACE_ASSIGN_OR_RETURN(made.graph_pad, GraphPadFromProto(program.graph()));
  }
  return made;
}

}  // namespace millrace
