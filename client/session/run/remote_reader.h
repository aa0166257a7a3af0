// A BatchReader that gives the batches of a session.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/batch_reader.h"

namespace millrace {

class RemoteReader final : public BatchReader {
 public:
  /// Fails as Session::Create does.
  static Result<std::unique_ptr<RemoteReader>> Create(const SessionOptions& options,
                                                      const SessionEnvironment& environment = {});

  Status Attach(const Interrupt& interrupt) override;
  const BatchSpec& spec() const override { return session_->spec(); }
  Result<std::optional<Batch>> Next(const Interrupt& interrupt) override;
  Result<bool> NextEpoch() override { return session_->NextEpoch(); }
  /// Fetches the batch with a second session, which has a job of its own and ends with the call.
  Result<Batch> BatchAt(std::uint64_t epoch, std::uint64_t step,
                        const Interrupt& interrupt) override;
  std::uint64_t epoch() const override { return session_->epoch(); }
  Position position() const override { return session_->position(); }
  Result<std::shared_ptr<const NamedTables>> tables(const Interrupt& interrupt) override;
  Result<std::optional<ExampleDescription>> Describe(ExampleId /*example*/) const override {
    return std::optional<ExampleDescription>();
  }
  SessionStats stats() const override { return session_->stats(); }
  std::string waiting_why() const override { return session_->waiting_why(); }
  bool survives_fork() const override { return false; }
  void Cancel() override;

 private:
  RemoteReader(const SessionOptions& options, const SessionEnvironment& environment,
               std::unique_ptr<Session> session);

  const SessionOptions options_;
  const SessionEnvironment environment_;
  std::unique_ptr<Session> session_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace millrace
