#include "server/plan/mix/mixed_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/base/wait_cause.h"
#include "common/transport/convert/table_writer.h"
#include "server/plan/mix/mix_plan.h"
#include "server/plan/mix/mixed_reader.h"
#include "server/plan/mix/mixed_tensors.h"

namespace millrace {
namespace {

/// The table of the branches' names.
constexpr const char* kBranchTable = "branches";

class MixedSource final : public Source {
 public:
  MixedSource(std::vector<SourceBranch> branches, MixPlan plan)
      : branches_(std::move(branches)), plan_(std::move(plan)), tables_(plan_.tables.specs()) {
    std::vector<Digest128> digests;
    for (const SourceBranch& branch : branches_) digests.push_back(branch.source->digest());
    digest_ = JoinDigests(digests);
    tables_.push_back({{kBranchTable, branches_.size(), {{"name", ColumnType::kText}}, {}},
                       {std::string(kBranchTensor)}});
  }

  Digest128 digest() const override { return digest_; }
  std::string code() const override {
    std::string all;
    for (const SourceBranch& branch : branches_) {
      const std::string own = branch.source->code();
      if (!own.empty()) all += branch.name + '\n' + own;
    }
    return all;
  }
  bool varies() const override {
    return std::any_of(branches_.begin(), branches_.end(),
                       [](const SourceBranch& branch) { return branch.source->varies(); });
  }
  bool by_row() const override {
    return std::all_of(branches_.begin(), branches_.end(),
                       [](const SourceBranch& branch) { return branch.source->by_row(); });
  }
  std::set<std::uint64_t> pools() const override {
    std::set<std::uint64_t> pools;
    for (const SourceBranch& branch : branches_) pools.merge(branch.source->pools());
    return pools;
  }
  /// That of a plugin if a branch is one: it takes the most time.
  std::string_view reading_stage() const override {
    const auto plugin = std::find_if(
        branches_.begin(), branches_.end(),
        [](const SourceBranch& branch) { return IsPythonStage(branch.source->reading_stage()); });
    return (plugin == branches_.end() ? branches_.front() : *plugin).source->reading_stage();
  }
  std::string_view name() const override {
    const std::string_view first = branches_.front().source->name();
    const bool same =
        std::all_of(branches_.begin(), branches_.end(),
                    [&](const SourceBranch& branch) { return branch.source->name() == first; });
    return same ? first : "mix";
  }
  std::uint64_t examples() const override {
    return branches_.back().first + branches_.back().source->examples();
  }
  std::span<const SourceBranch> branches() const override { return branches_; }

  const std::vector<std::string>& columns() const override { return columns_; }
  void ReadColumns(ExampleId, std::span<const ColumnValues>) const override {}
  ExampleDescription Describe(ExampleId id) const override {
    const SourceBranch& branch = branches_[BranchOf(branches_, id)];
    const std::uint64_t own = id.value() - branch.first;
    ExampleDescription description = branch.source->Describe(ExampleId(own));
    // First, because branches may have different facts.
    description.facts.insert(description.facts.begin(), {{"branch", branch.name, "branch"},
                                                         {"example_of_branch", own, "its"}});
    return description;
  }

  const std::vector<TensorSpec>& tensors() const override { return plan_.tensors; }
  const ExpandSpec& expand() const override { return plan_.expand; }
  std::unique_ptr<ExampleReader> NewReader() const override {
    return std::make_unique<MixedReader>(plan_, branches_);
  }
  Status CheckIntact() const override {
    for (const SourceBranch& branch : branches_) {
      MILLRACE_RETURN_IF_ERROR(branch.source->CheckIntact());
    }
    return OkStatus();
  }
  DropReasonNames drop_reasons() const override { return plan_.reasons; }
  std::uint64_t max_example_bytes() const override;

  std::vector<SourceTableSpec> tables() const override { return tables_; }
  void WriteTable(std::size_t table, TableWriter& out) const override {
    if (table + 1 < tables_.size()) return plan_.tables.Write(table, out);
    out.Texts([&](const auto& visit) {
      for (const SourceBranch& branch : branches_) visit(std::string_view(branch.name));
    });
  }

 private:
  const std::vector<SourceBranch> branches_;
  const MixPlan plan_;
  std::vector<SourceTableSpec> tables_;
  const std::vector<std::string> columns_;
  Digest128 digest_;
};

std::uint64_t MixedSource::max_example_bytes() const {
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < branches_.size(); ++i) {
    const std::uint64_t own = plan_.programs[i].max_example_bytes();
    if (own == 0) return 0;
    // No tensor is widened by more than this.
    std::uint64_t factor = 1;
    for (const CopiedTensor& tensor : plan_.copies[i].tensors) {
      factor = std::max<std::uint64_t>(
          factor, DTypeSize(plan_.tensors[tensor.to].dtype) / DTypeSize(tensor.from_type));
    }
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(own, factor, &bytes)) return 0;
    most = std::max(most, bytes);
  }
  return most + kTensorAlignment;
}

}  // namespace

Digest128 JoinDigests(std::span<const Digest128> digests) {
  std::string text;
  for (const Digest128& digest : digests) text += digest.ToHex() + '\n';
  return Xxh3(text);
}

Result<std::shared_ptr<const Source>> MakeMixedSource(std::vector<MixedBranch> branches,
                                                      const TensorsPart& outside,
                                                      bool joint_tables) {
  std::vector<SourceBranch> sources;
  std::vector<BranchProgram> programs;
  std::vector<JoinedTables::Branch> with_tables;
  std::uint64_t first = 0;
  const auto read = ReadOfBranches(outside);
  for (MixedBranch& branch : branches) {
    auto program = BranchProgram::Make(branch.source, std::move(branch.tensors), read);
    if (!program.ok()) {
      return program.status().WithContext(fmt::format("branch {}", branch.name));
    }
    programs.push_back(*std::move(program));
    with_tables.push_back({branch.name, branch.source});
    const std::uint64_t examples = branch.source->examples();
    sources.push_back(
        {std::move(branch.name), std::move(branch.dataset), std::move(branch.source), first});
    first += examples;
  }
  MILLRACE_ASSIGN_OR_RETURN(JoinedTables joined,
                            JoinedTables::Make(std::move(with_tables), joint_tables));
  for (const SourceTableSpec& table : joined.specs()) {
    if (table.table.name != kBranchTable) continue;
    return InvalidArgument(fmt::format(
        "branches: their sources have a table {0}, and the mix has another {0}", kBranchTable));
  }
  MILLRACE_ASSIGN_OR_RETURN(MixPlan plan,
                            MixPlan::Make(sources, std::move(programs), std::move(joined)));
  return std::shared_ptr<const Source>(
      std::make_shared<MixedSource>(std::move(sources), std::move(plan)));
}

}  // namespace millrace
