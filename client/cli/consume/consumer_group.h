// The ranks that one `millrace consume` reads. Each rank has a session and a thread; all share one
// log.
//
// Not thread-safe, except Cancel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/session.h"
#include "common/base/result.h"

namespace millrace::cli {

struct ConsumeOptions {
  SessionOptions session;  // for every rank; `rank` itself is ignored
  std::vector<std::uint32_t> ranks;
  std::uint64_t steps = 0;   // for each rank; 0: all
  double delay_seconds = 0;  // pause after each batch, in place of a training step
  bool lockstep = false;     // no rank goes on before all ranks have their batch
  std::string log_file;
  std::string out_dir;
};

/// The outcome of one rank.
struct RankReport {
  std::uint32_t rank = 0;
  Status status;
  bool attached = false;
  SessionStats stats;
  double seconds = 0;  // from the first spec to the end
  Position position;
  std::string cursor;
};

class ConsumerGroup {
 public:
  /// NotFound or PermissionDenied if the log or the folder cannot be written; also the errors of
  /// Session::Create.
  static Result<std::unique_ptr<ConsumerGroup>> Open(const ConsumeOptions& options);
  virtual ~ConsumerGroup() = default;

  /// Reads until all ranks are finished, one fails, or Cancel is called. `on_spec` is called once,
  /// `on_batch` for every batch; both may be called on any thread.
  virtual std::vector<RankReport> Run(std::function<void(const BatchSpec&)> on_spec,
                                      std::function<void(const Batch&)> on_batch) = 0;
  /// Every rank stops where it is. Thread-safe.
  virtual void Cancel() = 0;
};

}  // namespace millrace::cli
