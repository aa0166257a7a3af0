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

/// An upper estimate of the packed bytes of an example of the mix; 0: unknown.
std::uint64_t MostBytes(const MixPlan& plan) {
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < plan.programs.size(); ++i) {
    const std::uint64_t own = plan.programs[i].max_example_bytes();
    if (own == 0) return 0;
    // No tensor is widened by more than this.
    std::uint64_t factor = 1;
    for (const CopiedTensor& tensor : plan.copies[i].tensors) {
      factor = std::max<std::uint64_t>(
          factor, DTypeSize(plan.tensors[tensor.to].dtype) / DTypeSize(tensor.from_type));
    }
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(own, factor, &bytes)) return 0;
    most = std::max(most, bytes);
  }
  return most + kTensorAlignment;
}

SourceFacts FactsOf(std::vector<SourceBranch> branches, const MixPlan& plan) {
  const SourceFacts& first = branches.front().source->facts();
  SourceFacts facts;
  facts.name = first.name;
  facts.reading_stage = first.reading_stage;
  std::vector<Digest128> digests;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const SourceBranch& branch = branches[i];
    const SourceFacts& own = branch.source->facts();
    digests.push_back(own.digest);
    if (own.name != first.name) facts.name = "mix";
    facts.examples += own.examples;
    if (!own.code.empty()) facts.code += branch.name + '\n' + own.code;
    facts.varies = facts.varies || own.varies;
    facts.whole_batches = facts.whole_batches || !own.by_row();
    facts.pools.insert(own.pools.begin(), own.pools.end());
    if (own.packed && (!facts.packed || facts.packed->size < own.packed->size)) {
      facts.packed = own.packed;
    }
    // Branches deliver the same tensors.
    if (facts.token_tensor.empty()) facts.token_tensor = plan.programs[i].token_tensor();
    // That of a plugin if a branch is one: it takes the most time.
    if (IsPythonStage(own.reading_stage) && !IsPythonStage(facts.reading_stage)) {
      facts.reading_stage = own.reading_stage;
    }
  }
  facts.digest = JoinDigests(digests);
  facts.tensors = plan.tensors;
  facts.expand = plan.expand;
  facts.drop_reasons = plan.reasons;
  facts.max_example_bytes = MostBytes(plan);
  facts.branches = std::move(branches);
  return facts;
}

class MixedSource final : public Source, public SourceTables {
 public:
  MixedSource(std::vector<SourceBranch> branches, MixPlan plan)
      : Source(FactsOf(std::move(branches), plan)), plan_(std::move(plan)) {}

  void ReadColumns(ExampleId, std::span<const ColumnValues>) const override {}
  ExampleDescription Describe(ExampleId id) const override {
    const SourceBranch& branch = branches()[BranchOf(branches(), id)];
    const std::uint64_t own = id.value() - branch.first;
    ExampleDescription description = branch.source->Describe(ExampleId(own));
    // First, because branches may have different facts.
    description.facts.insert(description.facts.begin(), {{"branch", branch.name, "branch"},
                                                         {"example_of_branch", own, "its"}});
    return description;
  }

  std::unique_ptr<ExampleReader> NewReader() const override {
    return std::make_unique<MixedReader>(plan_, branches());
  }
  Status CheckIntact() const override {
    for (const SourceBranch& branch : branches()) {
      MILLRACE_RETURN_IF_ERROR(branch.source->CheckIntact());
    }
    return OkStatus();
  }

  const SourceTables* tables() const override { return this; }
  std::vector<SourceTableSpec> TableSpecs() const override {
    std::vector<SourceTableSpec> specs = plan_.tables.specs();
    specs.push_back({{kBranchTable, branches().size(), {{"name", ColumnType::kText}}, {}},
                     {std::string(kBranchTensor)}});
    return specs;
  }
  void WriteTable(std::size_t table, TableWriter& out) const override {
    if (table < plan_.tables.specs().size()) return plan_.tables.Write(table, out);
    out.Texts([&](const auto& visit) {
      for (const SourceBranch& branch : branches()) visit(std::string_view(branch.name));
    });
  }

 private:
  const MixPlan plan_;
};

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
