// The scratch of a compiled plan.
//
// Belongs to one thread, except stage().
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/batch/batch_writer.h"
#include "server/plan/plan.h"
#include "server/plan/stage_clock.h"
#include "server/plan/tensors/tensor_plan.h"
#include "server/source/order.h"
#include "server/source/source.h"

namespace millrace {

/// Memory that a thread reuses between batches of one plan.
class PlanScratch final : public BatchScratch {
 public:
  PlanScratch(const Plan* plan, std::unique_ptr<OrderReader> order, BatchWriter writer,
              std::unique_ptr<ExampleReader> reader, std::unique_ptr<TensorPlan::Scratch> tensors,
              std::span<const std::string> phases, std::string_view reading)
      : clock_(phases, reading),
        plan_(plan),
        order_(std::move(order)),
        writer_(std::move(writer)),
        reader_(std::move(reader)),
        tensors_(std::move(tensors)) {}

  const Plan* plan() const { return plan_; }
  OrderReader& order() { return *order_; }
  BatchWriter& writer() { return writer_; }
  ExampleReader& reader() { return *reader_; }
  TensorPlan::Scratch& tensors() { return *tensors_; }
  std::vector<OrderRow>& rows() { return rows_; }
  std::vector<ExampleId>& examples() { return examples_; }
  StageClock& clock() { return clock_; }

  std::vector<StageTime> stage_times() const override { return clock_.times(); }
  std::string_view stage() const override { return clock_.stage(); }

 private:
  StageClock clock_;
  const Plan* plan_;
  std::unique_ptr<OrderReader> order_;
  BatchWriter writer_;
  std::unique_ptr<ExampleReader> reader_;
  std::unique_ptr<TensorPlan::Scratch> tensors_;  // null if the plan computes no tensors
  std::vector<OrderRow> rows_;
  std::vector<ExampleId> examples_;
};

}  // namespace millrace
