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

class FunctionSource final : public SourceDecorator {
 public:
  FunctionSource(std::shared_ptr<const Source> source, FunctionPlan plan,
                 std::vector<TensorSpec> tensors, DropReasonNames reasons, std::string probe)
      : SourceDecorator(std::move(source)),
        plan_(std::move(plan)),
        tensors_(std::move(tensors)),
        reasons_(std::move(reasons)),
        probe_(std::move(probe)) {}

  std::string code() const override {
    std::string code = source().code();
    if (!code.empty()) code += '\n';
    code += IdentityOf(plan_.calls);
    for (const OpenedCall& opened : plan_.calls) code += opened.pool->facts().environment;
    return code + probe_;
  }
  bool varies() const override { return source().varies() || draws(); }
  bool draws_by_chunk() const override { return source().draws_by_chunk() || draws(); }
  /// A function that is called for a whole batch sees all of its rows.
  bool by_row() const override { return source().by_row() && !per_batch(); }
  std::set<std::uint64_t> pools() const override {
    std::set<std::uint64_t> pools = source().pools();
    for (const OpenedCall& opened : plan_.calls) pools.insert(opened.pool->number());
    return pools;
  }
  /// Most of the time goes into the functions.
  std::string_view reading_stage() const override { return "python"; }
  const std::vector<TensorSpec>& tensors() const override { return tensors_; }
  std::unique_ptr<ExampleReader> NewReader() const override {
    return std::make_unique<FunctionReader>(source(), plan_);
  }
  /// The result of a call for a whole batch depends on more than the example.
  std::unique_ptr<const ExampleNames> NewNames() const override {
    if (varies() || per_batch()) return nullptr;
    auto names = source().NewNames();
    if (names == nullptr) return nullptr;
    return std::make_unique<FunctionNames>(std::move(names), IdentityOf(plan_.calls));
  }
  DropReasonNames drop_reasons() const override { return reasons_; }
  std::uint64_t max_example_bytes() const override {
    std::uint64_t bytes = source().max_example_bytes();
    for (std::size_t i = source().tensors().size(); i < tensors_.size() && bytes > 0; ++i) {
      if (tensors_[i].kind != TensorKind::kDense) return 0;
      bytes += tensors_[i].row_bytes();
    }
    return bytes;
  }

 private:
  bool per_batch() const {
    return std::any_of(plan_.calls.begin(), plan_.calls.end(),
                       [](const OpenedCall& opened) { return opened.object.per_batch; });
  }
  bool draws() const {
    return std::any_of(plan_.calls.begin(), plan_.calls.end(), [](const OpenedCall& opened) {
      return opened.pool->facts().uses_chance;
    });
  }

  const FunctionPlan plan_;
  const std::vector<TensorSpec> tensors_;
  const DropReasonNames reasons_;
  const std::string probe_;
};

}  // namespace

Result<std::shared_ptr<const Source>> MakeFunctionSource(std::shared_ptr<const Source> source,
                                                         std::vector<OpenedCall> calls,
                                                         FunctionGraph graph, std::string probe,
                                                         std::stop_token stop) {
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
  auto [reason, names] = WithDropReason(source->drop_reasons());
  plan.dropped = reason;
  return std::shared_ptr<const Source>(std::make_shared<FunctionSource>(
      std::move(source), std::move(plan), std::move(tensors), std::move(names), std::move(probe)));
}

}  // namespace millrace
