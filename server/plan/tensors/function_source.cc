#include "server/plan/tensors/function_source.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "common/batch/layout/tensor_table.h"
#include "server/plan/tensors/function_reader.h"
#include "server/source/declared_tensors.h"
#include "server/source/source_decorator.h"

namespace millrace {
namespace {

constexpr std::string_view kDropName = "plugin";

/// The reason of this name, and the names of all reasons: those of the source, with this one.
std::pair<DropReason, DropReasonNames> WithDropReason(const DropReasonNames& own) {
  std::vector<std::string> names;
  std::optional<std::size_t> chosen;
  for (std::size_t number = 1; number < kDropReasons; ++number) {
    names.emplace_back(own.Find(number));
    if (names.back() == kDropName) chosen = number;
  }
  for (std::size_t number = 1; number < kDropReasons && !chosen; ++number) {
    if (!names[number - 1].empty()) continue;
    names[number - 1] = kDropName;
    chosen = number;
  }
  return {static_cast<DropReason>(chosen.value_or(kDropReasons - 1)), DropReasonNames(names)};
}

/// The functions as text, besides the operations of the pipeline.
std::string IdentityOf(std::span<const OpenedCall> calls) {
  std::string text;
  for (const OpenedCall& opened : calls) {
    text += fmt::format("function={} args={} fingerprint={} files={}\n", opened.object.ToString(),
                        opened.object.args, opened.object.chance.fingerprint,
                        opened.pool->facts().files.ToHex());
    if (opened.pool->facts().uses_chance) text += fmt::format("chance {}\n", kChanceVersion);
  }
  return text;
}

/// The names of the source's examples, and what the functions are.
class FunctionNames final : public ExampleNames {
 public:
  FunctionNames(std::unique_ptr<const ExampleNames> names, std::string identity)
      : names_(std::move(names)), identity_(std::move(identity)) {}

  void Name(std::span<const ExampleId> ids, std::span<Digest128> names) const override {
    names_->Name(ids, names);
    for (Digest128& name : names.first(ids.size())) {
      if (name.is_set()) name = Xxh3(name.ToHex() + identity_);
    }
  }

 private:
  const std::unique_ptr<const ExampleNames> names_;
  const std::string identity_;
};

bool AnyPerBatch(std::span<const OpenedCall> calls) {
  return std::any_of(calls.begin(), calls.end(),
                     [](const OpenedCall& opened) { return opened.object.per_batch; });
}

SourceFacts FactsOf(const Source& source, std::span<const OpenedCall> calls,
                    std::vector<TensorSpec> tensors, DropReasonNames reasons,
                    const std::string& probe) {
  SourceFacts facts = source.facts();
  for (std::size_t i = facts.tensors.size();
       i < tensors.size() && facts.max_example_bytes > 0; ++i) {
    const bool dense = tensors[i].kind == TensorKind::kDense;
    facts.max_example_bytes = dense ? facts.max_example_bytes + tensors[i].row_bytes() : 0;
  }
  facts.tensors = std::move(tensors);
  facts.drop_reasons = std::move(reasons);
  if (!facts.code.empty()) facts.code += '\n';
  facts.code += IdentityOf(calls);
  for (const OpenedCall& opened : calls) {
    const PluginFacts& plugin = opened.pool->facts();
    facts.code += plugin.environment;
    facts.varies = facts.varies || plugin.uses_chance;
    facts.draws_by_chunk = facts.draws_by_chunk || plugin.uses_chance;
    facts.pools.insert(opened.pool->number());
  }
  facts.code += probe;
  // A function that is called for a whole batch sees all of its rows.
  facts.whole_batches = facts.whole_batches || AnyPerBatch(calls);
  facts.reading_stage = "python";  // most of the time goes into the functions
  return facts;
}

class FunctionSource final : public SourceDecorator {
 public:
  FunctionSource(const std::shared_ptr<const Source>& source, FunctionPlan plan,
                 std::vector<TensorSpec> tensors, DropReasonNames reasons,
                 const std::string& probe)
      : SourceDecorator(
            source, FactsOf(*source, plan.calls, std::move(tensors), std::move(reasons), probe)),
        plan_(std::move(plan)) {}

  std::unique_ptr<ExampleReader> NewReader() const override {
    return std::make_unique<FunctionReader>(source(), plan_);
  }
  /// The result of a call for a whole batch depends on more than the example.
  std::unique_ptr<const ExampleNames> NewNames() const override {
    if (facts().varies || AnyPerBatch(plan_.calls)) return nullptr;
    auto names = source().NewNames();
    if (names == nullptr) return nullptr;
    return std::make_unique<FunctionNames>(std::move(names), IdentityOf(plan_.calls));
  }

 private:
  const FunctionPlan plan_;
};

}  // namespace

Result<std::shared_ptr<const Source>> MakeFunctionSource(
    const std::shared_ptr<const Source>& source, std::vector<OpenedCall> calls,
    FunctionGraph graph, const std::string& probe, std::stop_token stop) {
  std::vector<TensorSpec> tensors = source->tensors();
  FunctionPlan plan{std::move(calls), std::move(graph), {}, {}, std::move(stop)};
  for (const OpenedCall& opened : plan.calls) {
    std::vector<DeclaredTensor> declared;
    for (std::size_t i = 0; i < opened.call.paths.size(); ++i) {
      declared.push_back({opened.call.paths[i], opened.call.function.outputs[i].type});
    }
    auto numbers = AppendDeclared(declared, tensors);
    if (!numbers.ok()) return numbers.status().WithContext("tensors");
    plan.numbers.push_back(*std::move(numbers));
  }
  auto [reason, names] = WithDropReason(source->facts().drop_reasons);
  plan.dropped = reason;
  return std::shared_ptr<const Source>(std::make_shared<FunctionSource>(
      source, std::move(plan), std::move(tensors), std::move(names), probe));
}

}  // namespace millrace
