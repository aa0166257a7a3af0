#include "server/plugin/plugin_pool.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/base/json_text.h"
#include "server/plugin/files/plugin_files.h"
#include "server/plugin/plugin_program.h"
#include "server/plugin/process/process_memory.h"
#include "server/plugin/reply_assembly.h"

namespace millrace {
namespace {

/// The fork server may be killed at any moment; another one takes its place.
constexpr int kStarts = 3;
/// Values of a column that are fetched with one message.
constexpr std::uint64_t kColumnStep = std::uint64_t{1} << 20;

}  // namespace

/// A slot that was taken, until this is destroyed.
class PluginPool::Lease {
 public:
  Lease(std::shared_ptr<PluginPool> pool, std::size_t number, std::shared_ptr<PluginProcess> of)
      : process(std::move(of)), slot(number), pool_(std::move(pool)) {}
  ~Lease() {
    process.reset();
    pool_->Return(slot);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::shared_ptr<PluginProcess> process;
  const std::size_t slot;

 private:
  const std::shared_ptr<PluginPool> pool_;
};

Result<std::shared_ptr<PluginPool>> PluginPool::Start(PluginPoolOptions options,
                                                      const std::stop_token& stop) {
  MILLRACE_RETURN_IF_ERROR(CheckPlugin(options.plugin));
  MILLRACE_RETURN_IF_ERROR(CheckPluginObject(options.object, options.plugin));
  const std::string where = fmt::format("the plugin {}", options.object.ToString());
  if (options.budget == nullptr) {
    options.budget =
        std::make_shared<ProcessBudget>(static_cast<std::size_t>(options.plugin.processes));
  }
  std::shared_ptr<PluginPool> pool(new PluginPool(std::move(options)));
  pool->options_.budget->Join(pool);
  MILLRACE_RETURN_IF_ERROR(pool->Begin(stop).WithContext(where));
  MILLRACE_RETURN_IF_ERROR(pool->FetchChecks(stop).WithContext(where));
  return pool;
}

PluginPool::PluginPool(PluginPoolOptions options) : options_(std::move(options)) {}

PluginPool::~PluginPool() = default;

Status PluginPool::Begin(const std::stop_token& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const FileSet files, ReadFileSet(options_.plugin.path));
  ForkServerOptions fork_server;
  MILLRACE_ASSIGN_OR_RETURN(fork_server.folder, StoreFileSet(files, options_.copies));
  MILLRACE_ASSIGN_OR_RETURN(const std::filesystem::path program,
                            StoreFileSet(PluginProgram(), options_.copies));
  fork_server.program = program / kPluginProgram;
  MILLRACE_ASSIGN_OR_RETURN(fork_server.python, FindPython(options_.plugin.python));
  fork_server.plugin = options_.plugin.name;
  fork_server.environment = PluginEnvironment(options_.plugin);
  fork_server.original = options_.plugin.path;
  fork_server.start_timeout = options_.plugin.start_timeout;
  fork_server.on_line = [this](pid_t process, std::string_view line) {
    if (options_.on_line) options_.on_line(options_.plugin.name, process, line);
  };
  fork_server.on_wait = options_.on_wait;
  MILLRACE_ASSIGN_OR_RETURN(reader_, OutputReader::Start(options_.clock));
  fork_server_ = std::make_unique<ForkServer>(std::move(fork_server), *options_.launcher, *reader_,
                                              options_.clock);
  auto process_options = std::make_shared<PluginProcess::Options>();
  process_options->object = options_.object;
  process_options->memory = options_.plugin.memory;
  process_options->start_timeout = options_.plugin.start_timeout;
  process_options->clock = options_.clock;
  process_options->on_wait = options_.on_wait;
  process_options_ = std::move(process_options);
  {
    MutexLock lock(mutex_);
    slots_.resize(static_cast<std::size_t>(options_.plugin.processes));
    most_processes_ = slots_.size();
  }

  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Lease> lease, Take(stop));
  MILLRACE_RETURN_IF_ERROR(StartProcess(*lease, stop));
  MILLRACE_ASSIGN_OR_RETURN(FactsMessage said, lease->process->Facts(stop));
  facts_.length = lease->process->length();
  facts_.tensors = lease->process->tensors();
  for (FactsMessage::Column& column : said.columns) {
    facts_.columns.push_back({std::move(column.name), DTypeFromName(column.dtype)});
  }
  facts_.digest = std::move(said.digest);
  facts_.has_version = said.has_version;
  facts_.uses_chance = said.uses_chance || options_.object.random;
  facts_.environment = std::move(said.environment);
  facts_.python = fork_server_->imported().python;
  facts_.numpy = fork_server_->imported().numpy;
  facts_.files = files.Digest();
  return OkStatus();
}

Status PluginPool::FetchChecks(const std::stop_token& stop) {
  for (const PluginFacts::Column& column : facts_.columns) {
    for (std::size_t t = 0; column.dtype && t < facts_.tensors.size(); ++t) {
      if (!ColumnCheck::Fits(column.name, facts_.tensors[t])) continue;
      MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<const PluginColumn> values,
                                Column(column.name, stop));
      checks_.emplace_back(t, column.name, facts_.tensors[t].type, std::move(values));
    }
  }
  return OkStatus();
}

Status PluginPool::CheckRequest(const PluginRequest& request) const {
  const std::size_t rows = request.ids.size();
  if (!request.epochs.empty() && request.epochs.size() != rows) {
    return InvalidArgument(fmt::format("{} epochs of {} examples", request.epochs.size(), rows));
  }
  if (request.inputs.size() != options_.object.inputs.size()) {
    return InvalidArgument(fmt::format("{} inputs, expected {}", request.inputs.size(),
                                       options_.object.inputs.size()));
  }
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorView& view = request.inputs[i];
    const PluginTensor& declared = options_.object.inputs[i];
    const bool same = view.type->dtype == declared.type.dtype &&
                      view.type->inner == declared.type.inner &&
                      view.type->ragged == declared.type.ragged;
    if (!same || view.rows != rows) {
      return InvalidArgument(fmt::format("the input {} is {} with {} rows, expected {} with {}",
                                         declared.name, TensorTypeText(*view.type), view.rows,
                                         TensorTypeText(declared.type), rows));
    }
  }
  if (options_.object.kind == PluginObject::Kind::kFunction) return OkStatus();
  for (const std::uint64_t id : request.ids) {
    if (id >= facts_.length) {
      return InvalidArgument(fmt::format("example {}, and the source has {}", id, facts_.length));
    }
  }
  return OkStatus();
}

Result<PluginReply> PluginPool::Build(const PluginRequest& request, const std::stop_token& stop) {
  MILLRACE_RETURN_IF_ERROR(CheckRequest(request).WithContext(options_.object.ToString()));
  ReplyAssembly assembly(request.ids.size(), options_.object.per_batch);
  if (request.ids.empty()) return assembly.Take(nullptr);
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Lease> lease, Take(stop));
  while (!assembly.next().empty()) {
    MILLRACE_RETURN_IF_ERROR(
        StartProcess(*lease, stop).WithContext("the plugin " + options_.object.ToString()));
    Result<BuildAttempt> attempt = Ask(*lease, request, assembly.next(), assembly.at_once(), stop);
    if (!attempt.ok()) {
      if (lease->process->HasEnded()) Discard(*lease);
      return attempt.status().WithContext(options_.object.ToString());
    }
    CompareColumns(request, assembly.next(), *attempt);
    TellFailures(request, assembly.next(), *attempt);
    Count(*lease, *attempt);
    if (assembly.Add(*std::move(attempt))) Discard(*lease);
  }
  // Memory that a plugin leaks is not the fault of the example that comes next.
  if (lease->process != nullptr && lease->process->HasTooMuchMemory()) {
    if (options_.on_failure) {
      PluginFailure failure;
      failure.kind = FailureKind::kMemory;
      failure.message = fmt::format(
          "the process has {} bytes of memory, of at most {}, and another one takes its place",
          lease->process->MemoryBytes(), options_.plugin.memory);
      options_.on_failure(std::nullopt, failure);
    }
    Discard(*lease);
  }
  return assembly.Take(lease);
}

void PluginPool::TellFailures(const PluginRequest& request, std::span<const std::size_t> rows,
                              const BuildAttempt& attempt) const {
  if (!options_.on_failure) return;
  for (const BuiltMessage::Failure& one : attempt.failures) {
    std::optional<std::uint64_t> example;
    if (one.row) example = request.ids[rows[*one.row]];
    options_.on_failure(example, one.failure);
  }
  if (!attempt.ended) return;
  std::optional<std::uint64_t> example;
  if (attempt.blamed) example = request.ids[rows[*attempt.blamed]];
  options_.on_failure(example, *attempt.ended);
}

void PluginPool::CompareColumns(const PluginRequest& request, std::span<const std::size_t> rows,
                                BuildAttempt& attempt) const {
  if (checks_.empty() || attempt.memory == nullptr) return;
  ReplyTable& table = attempt.table;
  for (std::size_t i = 0; i < table.outcomes.size(); ++i) {
    for (const ColumnCheck& check : checks_) {
      if (table.outcomes[i] != RowOutcome::kDone) break;
      const std::string said = check.Contradiction(
          request.ids[rows[i]], table.Place(check.tensor(), i), attempt.memory->bytes());
      if (said.empty()) continue;
      table.outcomes[i] = RowOutcome::kFailed;
      PluginFailure failure;
      failure.kind = FailureKind::kValue;
      failure.message = said;
      attempt.failures.push_back({i, std::move(failure)});
    }
  }
}

Result<std::shared_ptr<PluginPool::Lease>> PluginPool::Take(const std::stop_token& stop) {
  // Declared before the lock, because a stop that was requested already calls it at once.
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(mutex_);
    returned_.NotifyAll();
  });
  MutexLock lock(mutex_);
  while (!stop.stop_requested()) {
    Slot* best = nullptr;
    int best_rank = 3;
    for (Slot& slot : std::span(slots_).first(most_processes_)) {
      if (slot.is_taken) continue;
      const int rank = slot.process == nullptr ? 1 : slot.process->is_behind() ? 2 : 0;
      if (rank < best_rank) {
        best = &slot;
        best_rank = rank;
      }
    }
    if (best != nullptr) {
      best->is_taken = true;
      return std::make_shared<Lease>(shared_from_this(),
                                     static_cast<std::size_t>(best - slots_.data()), best->process);
    }
    returned_.Wait(mutex_);
  }
  return Cancelled("the request was cancelled");
}

Status PluginPool::StartProcess(Lease& lease, const std::stop_token& stop) {
  // A process may have ended while it had nothing to do.
  if (lease.process != nullptr && lease.process->HasEnded() && !lease.process->is_behind()) {
    Discard(lease);
  }
  if (lease.process != nullptr) return OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<void> permit, options_.budget->Take(stop));
  Result<std::unique_ptr<PluginProcess>> started =
      PluginProcess::Start(*fork_server_, process_options_, stop);
  for (int i = 1; i < kStarts && started.status().code() == StatusCode::kUnavailable; ++i) {
    started = PluginProcess::Start(*fork_server_, process_options_, stop);
  }
  if (!started.ok()) return started.status();
  const PluginProcess& process = **started;
  const auto differs = [&] {
    if (facts_.tensors.empty()) return false;  // it is the first process
    if (process.length() != facts_.length) return true;
    return !std::equal(facts_.tensors.begin(), facts_.tensors.end(), process.tensors().begin(),
                       process.tensors().end(), [](const PluginTensor& a, const PluginTensor& b) {
                         return a.name == b.name && a.type == b.type;
                       });
  };
  if (differs()) {
    return FailedPrecondition(
        "len() or spec() differ from what they were in an earlier process; they have to depend on "
        "args and data alone");
  }
  // The process ends before its place is free for another one.
  lease.process = std::shared_ptr<PluginProcess>(
      std::move(started).value().release(), [permit = std::move(permit)](PluginProcess* ended) {
        std::unique_ptr<PluginProcess>(ended).reset();
      });
  MutexLock lock(mutex_);
  Slot& slot = slots_[lease.slot];
  slot.process = lease.process;
  slot.began = options_.clock->Now();
  if (slot.stats.process != 0) ++slot.stats.restarts;
  slot.stats.process = lease.process->id();
  return OkStatus();
}

Status PluginPool::StartIdleProcess(Lease& lease, const std::stop_token& stop) {
  MILLRACE_RETURN_IF_ERROR(StartProcess(lease, stop));
  const Status owed = lease.process->WaitForOwed(stop);
  if (owed.ok() || owed.code() == StatusCode::kCancelled) return owed;
  Discard(lease);
  return StartProcess(lease, stop);
}

void PluginPool::Discard(Lease& lease) {
  {
    MutexLock lock(mutex_);
    slots_[lease.slot].process.reset();
  }
  lease.process.reset();  // ends it
}

void PluginPool::Return(std::size_t slot) {
  const bool wanted = options_.budget->is_wanted();
  std::shared_ptr<PluginProcess> surplus;  // ends without the lock
  MutexLock lock(mutex_);
  Slot& own = slots_[slot];
  own.is_taken = false;
  own.idle = options_.clock->Now();
  surplus = TakeSurplus(slot);
  if (wanted && own.process != nullptr && own.idle - own.began >= ProcessBudget::kTurn) {
    surplus = TakeProcess(own);
  }
  returned_.NotifyAll();
}

bool PluginPool::GiveUpIdle() {
  const Time now = options_.clock->Now();
  std::shared_ptr<PluginProcess> given;  // ends without the lock
  MutexLock lock(mutex_);
  for (Slot& slot : slots_) {
    if (slot.is_taken || slot.process == nullptr) continue;
    if (now - slot.idle < ProcessBudget::kIdle) continue;
    given = TakeProcess(slot);
    return true;
  }
  return false;
}

std::shared_ptr<PluginProcess> PluginPool::TakeProcess(Slot& slot) {
  slot.stats.process = 0;  // another process in its place will be no restart
  return std::move(slot.process);
}

std::shared_ptr<PluginProcess> PluginPool::TakeSurplus(std::size_t slot) {
  Slot& own = slots_[slot];
  if (slot < most_processes_ || own.is_taken) return nullptr;
  return TakeProcess(own);
}

void PluginPool::SetMostProcesses(int processes) {
  std::vector<std::shared_ptr<PluginProcess>> surplus;  // ends without the lock
  MutexLock lock(mutex_);
  most_processes_ =
      std::clamp<std::size_t>(static_cast<std::size_t>(std::max(processes, 1)), 1, slots_.size());
  for (std::size_t i = most_processes_; i < slots_.size(); ++i) {
    surplus.push_back(TakeSurplus(i));
  }
  returned_.NotifyAll();
}

Result<BuildAttempt> PluginPool::Ask(const Lease& lease, const PluginRequest& request,
                                     std::span<const std::size_t> rows, bool at_once,
                                     const std::stop_token& stop) {
  const Time begin = options_.clock->Now();
  {
    MutexLock lock(mutex_);
    slots_[lease.slot].asked = begin;
  }
  Result<BuildAttempt> attempt =
      lease.process->Build(request, rows, facts_.uses_chance, at_once, stop);
  const Time end = options_.clock->Now();
  {
    MutexLock lock(mutex_);
    Slot& slot = slots_[lease.slot];
    slot.asked = Time{};
    slot.stats.busy_seconds += ToSeconds(end - begin);
  }
  if (options_.on_request) options_.on_request(options_.object.ToString(), begin, end);
  return attempt;
}

void PluginPool::Count(const Lease& lease, const BuildAttempt& attempt) {
  MutexLock lock(mutex_);
  ProcessStats& stats = slots_[lease.slot].stats;
  for (const RowOutcome outcome : attempt.table.outcomes) {
    stats.examples += outcome == RowOutcome::kDone ? 1 : 0;
    stats.dropped += outcome == RowOutcome::kDropped ? 1 : 0;
    stats.failed += outcome == RowOutcome::kFailed ? 1 : 0;
  }
  stats.failed += attempt.ended && attempt.blamed ? 1 : 0;
}

Result<std::shared_ptr<const PluginColumn>> PluginPool::Column(const std::string& name,
                                                               const std::stop_token& stop) {
  const auto known = std::find_if(facts_.columns.begin(), facts_.columns.end(),
                                  [&](const auto& column) { return column.name == name; });
  if (known == facts_.columns.end() || !known->dtype) {
    return NotFound(fmt::format("{}: columns() has no values of {}", options_.object.ToString(),
                                JsonText(name)));
  }
  {
    MutexLock lock(mutex_);
    if (const auto found = columns_.find(name); found != columns_.end()) return found->second;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Lease> lease, Take(stop));
  MILLRACE_RETURN_IF_ERROR(StartIdleProcess(*lease, stop));
  auto column = std::make_shared<PluginColumn>();
  column->is_float = known->dtype == DType::kFloat64;
  for (std::uint64_t begin = 0; begin < facts_.length; begin += kColumnStep) {
    const std::uint64_t end = std::min(begin + kColumnStep, facts_.length);
    const Status status = lease->process->Column(name, begin, end, *column, stop);
    if (status.ok()) continue;
    if (lease->process->HasEnded()) Discard(*lease);
    return status.WithContext(options_.object.ToString());
  }
  MutexLock lock(mutex_);
  return columns_.emplace(name, std::move(column)).first->second;
}

Result<std::vector<std::string>> PluginPool::Versions(std::span<const std::uint64_t> ids,
                                                      const std::stop_token& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Lease> lease, Take(stop));
  MILLRACE_RETURN_IF_ERROR(StartIdleProcess(*lease, stop));
  Result<std::vector<std::string>> versions = lease->process->Versions(ids, stop);
  if (versions.ok()) return versions;
  if (lease->process->HasEnded()) Discard(*lease);
  return versions.status().WithContext(options_.object.ToString());
}

std::vector<PluginPool::ProcessStats> PluginPool::Stats() const {
  std::vector<ProcessStats> stats;
  const Time now = options_.clock->Now();
  {
    MutexLock lock(mutex_);
    for (const Slot& slot : slots_) {
      ProcessStats& own = stats.emplace_back(slot.stats);
      own.process = slot.process == nullptr ? 0 : slot.process->id();
      own.memory_bytes = slot.process == nullptr ? 0 : slot.process->ReplyBytes();
      own.is_starting = slot.is_taken && slot.process == nullptr;
      // A request that hangs is seen before it ends.
      if (slot.asked != Time{} && now > slot.asked) own.busy_seconds += ToSeconds(now - slot.asked);
    }
  }
  for (ProcessStats& own : stats) {
    if (own.process != 0) own.memory_bytes += PrivateMemory(own.process);
  }
  return stats;
}

std::uint64_t PluginPool::MemoryBytes() const {
  // Processes are known by their ids here: whoever held one would end it, and wait for its end.
  std::vector<pid_t> processes = {fork_server_process()};
  std::uint64_t bytes = 0;
  {
    MutexLock lock(mutex_);
    for (const Slot& slot : slots_) {
      if (slot.process == nullptr) continue;
      processes.push_back(slot.process->id());
      bytes += slot.process->ReplyBytes();
    }
  }
  for (const pid_t process : processes) {
    if (process != 0) bytes += ShareOfMemory(process);
  }
  return bytes;
}

}  // namespace millrace
