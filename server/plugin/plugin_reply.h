// A request to a pool, and its reply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/tensor/tensor_view.h"
#include "server/plugin/process/shared_memory.h"
#include "server/plugin/reply/plugin_failure.h"
#include "server/plugin/reply/reply_table.h"

namespace millrace {

/// Examples to be built. Values; the data behind the views have to live during the call.
struct PluginRequest {
  std::vector<std::uint64_t> ids;
  /// The pass that each example is built for; empty: 0 for all.
  std::vector<std::uint64_t> epochs = {};
  /// The number of the chunk, within its example, that each row is built for; empty: examples are
  /// not cut.
  std::vector<std::uint64_t> chunks = {};
  /// The inputs of a function, in the order of PluginObject::inputs, with one row per example.
  std::vector<TensorView> inputs = {};
};

/// A pool's answer to a request. As long as it lives, its process builds nothing else, so it should
/// be copied and dropped soon, and before its holder asks the same pool again: a holder of the
/// replies of all processes waits for itself. Rows are the rows of the request.
///
/// Thread-compatible. Values may be changed by code of the plugin that runs on (in a thread of it),
/// but they stay readable.
class PluginReply {
 public:
  std::size_t rows() const { return rows_.size(); }
  /// kDone, kDropped or kFailed.
  RowOutcome outcome(std::size_t row) const { return rows_[row].outcome; }
  /// Why a row failed. REQUIRES: its outcome is kFailed.
  const PluginFailure& failure(std::size_t row) const { return failures_[rows_[row].number]; }

  /// The bytes of one row of a tensor. REQUIRES: the outcome is kDone.
  std::span<const std::byte> values(std::size_t tensor, std::size_t row) const;
  /// The first extent of a row of a ragged tensor. REQUIRES: the outcome is kDone.
  std::uint64_t extent(std::size_t tensor, std::size_t row) const;
  /// All rows of a dense tensor one after another. nullopt if some were not built, or not by one
  /// process at once.
  std::optional<std::span<const std::byte>> column(std::size_t tensor) const;

  std::size_t dropped() const { return Count(RowOutcome::kDropped); }
  std::size_t failed() const { return Count(RowOutcome::kFailed); }

 private:
  friend class ReplyAssembly;

  /// Rows that one process has built at once.
  struct Attempt {
    std::shared_ptr<const MappedBytes> memory;
    ReplyTable table;
  };
  struct Row {
    RowOutcome outcome = RowOutcome::kUnknown;
    std::size_t attempt = 0;
    std::size_t number = 0;  // of the row in its attempt, or of the failure
  };

  std::size_t Count(RowOutcome outcome) const;

  std::vector<Attempt> attempts_;
  std::vector<Row> rows_;
  std::vector<PluginFailure> failures_;
  std::shared_ptr<const void> process_;  // keeps the process from building anything else
};

}  // namespace millrace
