#include "client/cli/consume/consumer_group.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "client/cli/consume/batch_log.h"
#include "common/system/errno_status.h"
#include "common/system/mutex.h"

namespace millrace::cli {
namespace {

/// Writes the lines of all ranks to one file, one whole line at a time.
class DeliveryLog {
 public:
  static Result<std::unique_ptr<DeliveryLog>> Open(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr) return ErrnoStatus("log " + path, errno);
    return std::unique_ptr<DeliveryLog>(new DeliveryLog(path, file));
  }
  ~DeliveryLog() { std::fclose(file_); }
  DeliveryLog(const DeliveryLog&) = delete;
  DeliveryLog& operator=(const DeliveryLog&) = delete;

  Status Write(const std::string& line) {
    MutexLock lock(mutex_);
    const bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size() &&
                         std::fputc('\n', file_) != EOF && std::fflush(file_) == 0;
    if (written) return OkStatus();
    return ErrnoStatus("log " + path_, errno);
  }

 private:
  DeliveryLog(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  const std::string path_;
  Mutex mutex_;
  std::FILE* const file_;
};

/// The place where ranks in lockstep wait for each other at every step. A rank that is finished or
/// has failed leaves for good.
class MeetingPoint {
 public:
  explicit MeetingPoint(std::size_t ranks) : ranks_(ranks) {}

  void Meet() {
    MutexLock lock(mutex_);
    const std::uint64_t round = round_;
    ++there_;
    GoOnIfAll();
    while (round == round_) changed_.Wait(mutex_);
  }
  void Leave() {
    MutexLock lock(mutex_);
    --ranks_;
    GoOnIfAll();
  }

 private:
  void GoOnIfAll() MILLRACE_REQUIRES(mutex_) {
    if (there_ < ranks_) return;
    there_ = 0;
    ++round_;
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  std::size_t ranks_ MILLRACE_GUARDED_BY(mutex_);
  std::size_t there_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t round_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

class Group final : public ConsumerGroup {
 public:
  Group(const ConsumeOptions& options, std::unique_ptr<DeliveryLog> log)
      : options_(options), log_(std::move(log)), meeting_(options.ranks.size()) {}

  Status CreateSessions() {
    for (const std::uint32_t rank : options_.ranks) {
      SessionOptions options = options_.session;
      options.rank = rank;
      options.packed = options.packed || log_ != nullptr || !options_.out_dir.empty();
      MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(options));
      sessions_.push_back(std::move(session));
    }
    return OkStatus();
  }

  std::vector<RankReport> Run(std::function<void(const BatchSpec&)> on_spec,
                              std::function<void(const Batch&)> on_batch) override {
    std::vector<RankReport> reports(sessions_.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      threads.emplace_back([&, i] {
        RankReport& report = reports[i];
        report.rank = options_.ranks[i];
        report.status = ReadRank(*sessions_[i], i == 0 ? on_spec : nullptr, on_batch, report);
        meeting_.Leave();
        // One rank that fails stops a training job. But each rank reports its own reason, not this
        // one's.
        if (!report.status.ok() && report.status.code() != StatusCode::kCancelled) Cancel();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return reports;
  }

  void Cancel() override {
    for (const auto& session : sessions_) session->Cancel();
  }

 private:
  Status ReadRank(Session& session, const std::function<void(const BatchSpec&)>& on_spec,
                  const std::function<void(const Batch&)>& on_batch, RankReport& report) {
    Status status = session.Attach();
    if (!status.ok()) return status;
    report.attached = true;
    if (on_spec) on_spec(session.spec());
    const auto began = std::chrono::steady_clock::now();
    status = ReadBatches(session, on_batch);
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    report.stats = session.stats();
    report.position = session.position();
    report.cursor = session.cursor();
    return status;
  }

  Status ReadBatches(Session& session, const std::function<void(const Batch&)>& on_batch) {
    for (std::uint64_t taken = 0; options_.steps == 0 || taken < options_.steps;) {
      MILLRACE_ASSIGN_OR_RETURN(const std::optional<Batch> batch, session.Next());
      if (!batch) {
        MILLRACE_ASSIGN_OR_RETURN(const bool more, session.NextEpoch());
        if (!more) break;
        continue;
      }
      ++taken;
      MILLRACE_RETURN_IF_ERROR(Keep(session, *batch));
      on_batch(*batch);
      if (options_.lockstep) meeting_.Meet();
      if (options_.delay_seconds > 0) {
        std::this_thread::sleep_for(std::chrono::duration<double>(options_.delay_seconds));
      }
    }
    return OkStatus();
  }

  Status Keep(const Session& session, const Batch& batch) {
    if (!options_.out_dir.empty()) {
      MILLRACE_RETURN_IF_ERROR(
          WriteBatchFile(*batch.packed(), fmt::format("{}/epoch-{}-batch-{}.mrb", options_.out_dir,
                                                      batch.epoch(), batch.ordinal())));
    }
    if (log_ == nullptr) return OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps,
                              StepArithmetic::Create(session.spec().steps));
    return log_->Write(BatchLogLine(steps, batch.position(), batch.rank(),
                                    batch.packed()->payload_hash(), batch.info(),
                                    session.spec().drop_reasons));
  }

  const ConsumeOptions options_;
  const std::unique_ptr<DeliveryLog> log_;
  MeetingPoint meeting_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace

Result<std::unique_ptr<ConsumerGroup>> ConsumerGroup::Open(const ConsumeOptions& options) {
  std::unique_ptr<DeliveryLog> log;
  if (!options.log_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(log, DeliveryLog::Open(options.log_file));
  }
  if (!options.out_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.out_dir, error);
    if (error) {
      return PermissionDenied(fmt::format("folder {}: {}", options.out_dir, error.message()));
    }
  }
  auto group = std::make_unique<Group>(options, std::move(log));
  MILLRACE_RETURN_IF_ERROR(group->CreateSessions());
  return std::unique_ptr<ConsumerGroup>(std::move(group));
}

}  // namespace millrace::cli
