#include "server/pipeline/text/pipeline.h"

#include <algorithm>

#include "common/transport/convert/tensor_program.h"
#include "millrace/v1/pipeline.pb.h"
#include "server/pipeline/text/canonical.h"
#include "server/pipeline/text/pipeline_parser.h"

namespace millrace {
namespace {

void SetNames(const std::vector<std::string>& from, v1::Names& to) {
  to.mutable_values()->Assign(from.begin(), from.end());
}

/// REQUIRES: the value is not null.
v1::ParameterValue ValueToProto(const ParamValue& value) {
  v1::ParameterValue proto;
  if (const auto* boolean = std::get_if<bool>(&value)) {
    proto.set_boolean(*boolean);
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    proto.set_integer(*integer);
  } else if (const auto* name = std::get_if<std::string>(&value)) {
    proto.set_name(*name);
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    proto.mutable_integers()->mutable_values()->Assign(integers->begin(), integers->end());
  } else if (const auto* names = std::get_if<std::vector<std::string>>(&value)) {
    SetNames(*names, *proto.mutable_names());
  } else if (const auto* tree = std::get_if<ParamTree>(&value)) {
    proto.set_tree(tree->json);
  } else {
    for (const auto& names_of_list : std::get<std::vector<std::vector<std::string>>>(value)) {
      SetNames(names_of_list, *proto.mutable_name_lists()->add_values());
    }
  }
  return proto;
}

void TensorsToProto(const TensorsPart& part, v1::Pipeline& proto) {
  for (const TensorDefinition& definition : part.definitions) {
    v1::PipelineTensor& tensor = *proto.add_tensors();
    ToProto(definition, *part.operations, tensor.mutable_definition());
    tensor.set_at(std::string(RunPlaceName(definition.at)));
  }
  if (part.outputs) proto.mutable_output()->Assign(part.outputs->begin(), part.outputs->end());
  for (const auto& [name, params] : part.all_pads()) {
    v1::PipelinePad& pad = *proto.add_pads();
    pad.set_name(name);
    ToProto(params, pad.mutable_params());
  }
}

void MixToProto(const MixPart& mix, v1::PipelineMix& proto) {
  proto.mutable_weights()->Assign(mix.weights.begin(), mix.weights.end());
  proto.set_seed(mix.seed);
  if (mix.rows) proto.set_examples(*mix.rows);
  if (mix.all_of) proto.set_all_of(static_cast<std::uint32_t>(*mix.all_of));
  if (mix.shortest) proto.set_shortest(true);
  proto.set_joint_tables(mix.joint_tables);
}

}  // namespace

Result<Pipeline> Pipeline::Parse(const PipelineSource& source, const StageTable& table,
                                 const OperationTable& operations) {
  return PipelineParser(source, table, operations).Parse();
}

const StageConfig* Pipeline::Find(std::string_view stage) const {
  const auto found = std::find_if(stages_.begin(), stages_.end(), [&](const StageConfig& config) {
    return config.type->name == stage;
  });
  return found == stages_.end() ? nullptr : &*found;
}

v1::Pipeline Pipeline::ToProto() const {
  v1::Pipeline proto;
  proto.set_semantics(kSemantics);
  proto.set_dataset(dataset());
  for (const StageConfig& config : stages_) {
    const auto place = static_cast<std::uint32_t>(proto.stages_size());
    v1::Stage& stage = *proto.add_stages();
    stage.set_type(config.type->name);
    stage.set_version(config.type->version);
    stage.set_place(std::string(StagePlaceName(config.type->place)));
    stage.set_fingerprint(config.fingerprint);
    if (place > 0) stage.add_inputs(place - 1);
    for (const Parameter& parameter : config.type->parameters) {
      if (!IsCanonical(*config.type, parameter, config.params)) continue;
      const ParamValue& value = config.params.values().at(parameter.name);
      (*stage.mutable_parameters())[parameter.name] = ValueToProto(value);
    }
  }
  TensorsToProto(tensors_, proto);
  for (const PipelineBranch& branch : branches_) {
    v1::PipelineBranch& to = *proto.add_branches();
    to.set_name(branch.name);
    *to.mutable_pipeline() = branch.pipeline->ToProto();
  }
  if (!branches_.empty()) MixToProto(mix_, *proto.mutable_mix());
  proto.set_canonical_text(canonical_text_);
  proto.set_digest(digest_.ToHex());
  proto.set_order_digest(order_digest_.ToHex());
  proto.mutable_unused_keys()->Assign(unused_keys_.begin(), unused_keys_.end());
  return proto;
}

bool IsDatasetId(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

}  // namespace millrace
