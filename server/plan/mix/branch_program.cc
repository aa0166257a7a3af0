#include "server/plan/mix/branch_program.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/tensor/tensor_word.h"
#include "server/plan/mix/mixed_tensors.h"
#include "server/plan/tensors/pack_outputs.h"

namespace millrace {
namespace {

constexpr std::string_view kLength = ".length";

}  // namespace

std::optional<std::set<std::string>> ReadOfBranches(const TensorsPart& mix) {
  if (!mix.outputs || mix.graph_pad) return std::nullopt;
  std::set<std::string> read;
  const auto add = [&](const std::string& name) {
    const bool defined =
        std::any_of(mix.definitions.begin(), mix.definitions.end(),
                    [&](const TensorDefinition& tensor) { return tensor.name == name; });
    if (defined || name == kBranchTensor) return;
    std::string dotted = DottedName(name);
    read.insert(dotted);
    if (dotted.ends_with(kLength)) dotted.resize(dotted.size() - kLength.size());
    read.insert(dotted);
  };
  for (const std::string& name : *mix.outputs) add(name);
  for (const std::string& name : PackReads(mix)) add(name);
  for (const TensorDefinition& definition : mix.definitions) {
    for (const std::string& name : definition.inputs) add(name);
  }
  return read;
}

Result<BranchProgram> BranchProgram::Make(std::shared_ptr<const Source> source, TensorsPart part,
                                          const std::optional<std::set<std::string>>& read) {
  BranchProgram program;
  program.source_ = std::move(source);
  for (TensorDefinition& definition : part.definitions) {
    if (definition.at == RunPlace::kConsumer) {
      return AtOrigin(part, InvalidArgument(definition.name +
                                            ": at: a tensor of a branch is made at the worker; "
                                            "define it outside the branches"));
    }
    definition.at = RunPlace::kWorker;
  }
  if (read) {
    std::vector<std::string>& outputs = part.outputs.emplace();
    part.read_by_mix = true;
    for (const TensorSpec& tensor : program.source_->tensors()) {
      if (read->contains(DottedName(tensor.path))) outputs.push_back(tensor.path);
    }
    for (const TensorDefinition& definition : part.definitions) {
      if (read->contains(definition.name)) outputs.push_back(definition.name);
    }
  }
  if (part.empty()) return program;
  MILLRACE_ASSIGN_OR_RETURN(
      program.plan_, TensorPlan::Compile(part, program.source_->tensors(),
                                         program.source_->expand(), program.source_->arrays()));
  // All definitions run at the worker, so the consumer could only be left with second names.
  if (const auto& consumer = program.plan_->consumer()) {
    for (const TensorDefinition& definition : consumer->text.definitions) {
      return AtOrigin(part, InvalidArgument(fmt::format(
                                "{}: it is what another tensor of the branch is; define it once",
                                definition.name)));
    }
  }
  return program;
}

Result<BranchBuilder> BranchBuilder::Make(const BranchProgram& program, BufferPool& pool) {
  MILLRACE_ASSIGN_OR_RETURN(
      BatchWriter writer,
      BatchWriter::Create(program.source_->tensors(), program.source_->expand(), pool));
  return BranchBuilder(program, std::move(writer));
}

BranchBuilder::BranchBuilder(const BranchProgram& program, BatchWriter writer)
    : program_(&program),
      writer_(std::move(writer)),
      reader_(program.source_->NewReader()),
      scratch_(program.plan_ == nullptr ? nullptr : program.plan_->NewScratch()) {}

Status BranchBuilder::Build(std::span<const ExampleId> ids, std::uint64_t epoch,
                            std::span<const std::uint64_t> passes) {
  writer_.Begin({}, epoch, 0, static_cast<std::uint32_t>(ids.size()));
  writer_.SetPasses({passes.begin(), passes.end()});
  MILLRACE_RETURN_IF_ERROR(reader_->Append(ids, writer_));
  if (scratch_ == nullptr) return writer_.CheckComplete();
  return program_->plan_->Compute(writer_, *scratch_);
}

std::span<const std::byte> BranchBuilder::values(std::size_t tensor) const {
  if (scratch_ == nullptr) return writer_.values(tensor);
  return program_->plan_->ValuesOf(tensor, writer_, *scratch_);
}

}  // namespace millrace
