// `source: proof_states`: one example for each outcome of a proof step whose tactic is known.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/kinds/coq/context_table.h"
#include "server/kinds/coq/coq_columns.h"
#include "server/kinds/coq/coq_parts.h"
#include "server/kinds/coq/coq_tables.h"
#include "server/kinds/coq/example_table.h"
#include "server/kinds/coq/file_prefix_labels.h"
#include "server/source/source.h"

namespace millrace {

/// Numbers of the tensors. If the plan leaves a field out, the number of its tensor has no meaning.
struct ProofStateTensors {
  GraphTensors graph;
  std::size_t root;
  std::size_t local_context;
  std::size_t global_context;
  std::size_t tactic;
  std::size_t local_args;
  std::size_t global_args;
  std::size_t proof_step;
  std::size_t faithful;
  std::size_t example_id;
  std::size_t definition;
  std::size_t state_text;
  std::size_t tactic_text;
};

class ProofStateSource final : public Source, public SourceTables {
 public:
  ProofStateSource(CoqTables tables, const PlanParts& parts);

  const DatasetIndex& index() const { return tables_.index(); }
  const CoqTables& coq_tables() const { return tables_; }
  const ContextTable& contexts() const { return contexts_; }
  const CoqFieldsPart& fields() const { return fields_; }
  const ProofStateTensors& tensor_numbers() const { return numbers_; }

  /// The number of the example's outcome in the index.
  std::uint32_t OutcomeNumber(ExampleId id) const { return examples_.Outcome(id.value()); }
  const OutcomeRecord& Outcome(ExampleId id) const { return index().outcomes()[OutcomeNumber(id)]; }
  const StepRecord& Step(const OutcomeRecord& outcome) const {
    return index().steps()[outcome.step];
  }
  std::span<const NodeRef> Context(const OutcomeRecord& outcome) const {
    return Sub(index().context_nodes(), outcome.first_context, outcome.context_count);
  }
  std::span<const NodeRef> Arguments(const OutcomeRecord& outcome) const {
    return Sub(index().arguments(), outcome.first_argument, outcome.argument_count);
  }
  /// Position of an argument in the local context. If it occurs several times, the last position;
  /// -1 if it does not occur.
  static std::int32_t LocalPosition(std::span<const NodeRef> context, NodeRef argument);
  /// Position of an argument in the global context of a definition, or -1.
  std::int32_t GlobalPosition(std::uint32_t definition, NodeRef argument) const;

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override;
  Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const override {
    return FilePrefixLabels(index(), options);
  }
  ExampleDescription Describe(ExampleId id) const override;

  Status CheckIntact() const override { return tables_.CheckIntact(); }
  std::unique_ptr<ExampleReader> NewReader() const override;
  std::unique_ptr<const ExampleNames> NewNames() const override;

  const SourceTables* tables() const override { return this; }
  std::vector<SourceTableSpec> TableSpecs() const override;
  void WriteTable(std::size_t table, TableWriter& out) const override;

 private:
  /// `definitions`: all with examples; they are used only while the source is made.
  ProofStateSource(CoqTables tables, const PlanParts& parts,
                   std::vector<std::uint32_t> definitions);

  /// Sets numbers_.
  std::vector<TensorSpec> MakeTensors();
  bool HasNoneArgument(const OutcomeRecord& outcome, const StepRecord& step) const;
  std::int64_t Value(std::size_t column, const OutcomeRecord& outcome,
                     const StepRecord& step) const;

  const CoqTables tables_;
  const ExampleTable examples_;
  const ContextTable contexts_;
  const CoqFieldsPart fields_;
  ProofStateTensors numbers_{};
};

}  // namespace millrace
