#include "server/plugin/plugin_process.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/json_text.h"
#include "server/plugin/plugin_messages.h"
#include "server/plugin/reply/chance_key.h"

namespace millrace {
namespace {

std::uint64_t NextLine(std::uint64_t place) { return (place + 63) / 64 * 64; }

/// Places things one after another, at multiples of 64 bytes.
class PlaceMaker {
 public:
  std::uint64_t Take(std::uint64_t bytes) {
    const std::uint64_t place = end_;
    end_ = NextLine(end_ + bytes);
    return place;
  }
  std::uint64_t end() const { return end_; }

 private:
  std::uint64_t end_ = 0;
};

/// Units of a tensor in some of its rows.
std::uint64_t UnitsOf(const TensorView& view, std::span<const std::size_t> rows) {
  if (!view.type->ragged) return rows.size();
  std::uint64_t units = 0;
  for (const std::size_t row : rows) {
    units += static_cast<std::uint64_t>(view.splits[row + 1] - view.splits[row]);
  }
  return units;
}

/// Copies some rows; `splits` is written for a ragged tensor.
void CopyRows(const TensorView& view, std::span<const std::size_t> rows, std::byte* values,
              std::byte* splits) {
  const std::uint64_t unit = view.type->UnitBytes();
  if (rows.size() == view.rows) {  // all, in their order
    std::memcpy(values, view.values.data(), view.values.size());
    if (view.type->ragged) std::memcpy(splits, view.splits.data(), view.splits.size_bytes());
    return;
  }
  std::int64_t end = 0;
  if (view.type->ragged) std::memcpy(splits, &end, sizeof end);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t row = rows[i];
    std::uint64_t begin = row, units = 1;
    if (view.type->ragged) {
      begin = static_cast<std::uint64_t>(view.splits[row]);
      units = static_cast<std::uint64_t>(view.splits[row + 1]) - begin;
      end += static_cast<std::int64_t>(units);
      std::memcpy(splits + 8 * (i + 1), &end, sizeof end);
    }
    if (units > 0) std::memcpy(values, view.values.data() + begin * unit, units * unit);
    values += units * unit;
  }
}

/// Rings a bell while a stop is requested.
class StopWatch {
 public:
  explicit StopWatch(const std::stop_token& stop) {
    if (stop.stop_possible()) {
      bell_.emplace();
      callback_.emplace(stop, Ring{&*bell_});
    }
  }
  int file() const { return bell_ ? bell_->file() : -1; }

 private:
  struct Ring {
    const StopBell* bell;
    void operator()() const { bell->Ring(); }
  };
  std::optional<StopBell> bell_;
  std::optional<std::stop_callback<Ring>> callback_;
};

}  // namespace

/// Looks after a build: the time that each example takes, and the memory.
class PluginProcess::Watch {
 public:
  /// `ids`: of the examples that it builds; none if nobody waits for these any more.
  Watch(const PluginProcess& process, std::uint64_t rows, std::vector<std::uint64_t> ids)
      : process_(process),
        rows_(rows),
        ids_(std::move(ids)),
        notes_(process.options_->on_wait, process.options_->clock, What()) {}

  Status operator()() {
    const std::uint64_t row = process_.reply_->Word(kReplyRowWord);
    if (row != row_) {
      row_ = row;
      notes_.Begin(What());
    }
    notes_.Tick();
    const bool at_once = process_.reply_->Word(kReplyAtOnceWord) == 1;
    const Duration limit =
        process_.options_->object.timeout * static_cast<Duration::rep>(at_once ? rows_ : 1);
    if (notes_.waited() > limit) {
      return DeadlineExceeded(fmt::format("it takes more than {:g} s (timeout)", ToSeconds(limit)));
    }
    if (process_.HasTooMuchMemory()) {
      return ResourceExhausted(fmt::format("the process has {} bytes of memory, of at most {}",
                                           process_.MemoryBytes(), process_.options_->memory));
    }
    return OkStatus();
  }

 private:
  const PluginProcess& process_;
  std::string What() const {
    if (ids_.empty()) return "examples that are not wanted any more";
    const std::uint64_t id = ids_[std::min<std::uint64_t>(row_, ids_.size() - 1)];
    return rows_ == 1 ? fmt::format("example {}", id)
                      : fmt::format("example {}, of {} in a request", id, rows_);
  }

  const std::uint64_t rows_;
  const std::vector<std::uint64_t> ids_;
  std::uint64_t row_ = 0;
  WaitNotes notes_;
};

Result<std::unique_ptr<PluginProcess>> PluginProcess::Start(ForkServer& fork_server,
                                                            std::shared_ptr<const Options> options,
                                                            const std::stop_token& stop) {
  const StopWatch watch(stop);
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> child,
                            fork_server.StartProcess(watch.file()));
  std::unique_ptr<PluginProcess> process(new PluginProcess(std::move(child), std::move(options)));
  MILLRACE_RETURN_IF_ERROR(process->Open(stop));
  return process;
}

Status PluginProcess::Open(const std::stop_token& stop) {
  MILLRACE_ASSIGN_OR_RETURN(reply_, ReplyMemory::Make());
  const int file = reply_->file();
  MILLRACE_ASSIGN_OR_RETURN(const std::string answer,
                            Ask(OpenMessage(options_->object), "its start", {&file, 1}, stop));
  MILLRACE_ASSIGN_OR_RETURN(const OpenedMessage opened, ReadOpened(answer));
  length_ = opened.length;
  tensors_ = options_->object.outputs;
  if (options_->object.kind == PluginObject::Kind::kSource) {
    MILLRACE_ASSIGN_OR_RETURN(tensors_, ReadSpec(opened.spec));
  }
  for (const PluginTensor& tensor : tensors_) types_.push_back(tensor.type);
  return Ask(OutputsMessage(tensors_), "its start", {}, stop).status();
}

Result<std::string> PluginProcess::Ask(const std::string& message, const char* what,
                                       std::span<const int> files, const std::stop_token& stop) {
  const StopWatch watch(stop);
  ChannelWait wait;
  wait.process = child_->pidfd();
  wait.stop = watch.file();
  wait.on_tick = [this, notes = WaitNotes(options_->on_wait, options_->clock, what)]() mutable {
    notes.Tick();
    if (notes.waited() > options_->start_timeout) {
      return DeadlineExceeded(fmt::format("it takes more than {:g} s (start_timeout)",
                                          ToSeconds(options_->start_timeout)));
    }
    if (!HasTooMuchMemory()) return OkStatus();
    return ResourceExhausted(fmt::format("the process has {} bytes of memory, of at most {}",
                                         MemoryBytes(), options_->memory));
  };
  Status sent = child_->channel().Send(message, files, wait);
  Result<std::string> answer = sent.ok() ? child_->channel().Receive(wait) : sent;
  if (answer.ok()) return answer;
  const Status& why = answer.status();
  if (why.code() == StatusCode::kCancelled) {
    child_->End();  // its answer would be taken for another one's
    return why;
  }
  if (why.code() == StatusCode::kDeadlineExceeded) {
    child_->EndWithTraces();
  } else if (why.code() != StatusCode::kUnavailable) {
    child_->End();
  }
  const std::string end = child_->EndAfterClose().ToString();
  const std::string words = child_->LastOutput();
  const std::string said = words.empty() ? "" : "\nits last output:\n" + words;
  if (why.code() != StatusCode::kUnavailable) return Status(why.code(), why.message() + said);
  return FailedPrecondition(fmt::format("the process ended {}{}", end, said));
}

Result<FactsMessage> PluginProcess::Facts(const std::stop_token& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string answer,
                            Ask(R"({"facts": true})", "its length, spec and columns", {}, stop));
  return ReadFacts(answer);
}

Result<std::vector<std::string>> PluginProcess::Versions(std::span<const std::uint64_t> ids,
                                                         const std::stop_token& stop) {
  MILLRACE_ASSIGN_OR_RETURN(
      const std::string answer,
      Ask(fmt::format(R"({{"versions": [{}]}})", fmt::join(ids, ", ")), "versions", {}, stop));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> versions, ReadVersions(answer));
  if (versions.size() == ids.size()) return versions;
  return Internal(fmt::format("{} versions of {} examples", versions.size(), ids.size()));
}

Status PluginProcess::Column(const std::string& name, std::uint64_t begin, std::uint64_t end,
                             PluginColumn& column, const std::stop_token& stop) {
  MILLRACE_ASSIGN_OR_RETURN(
      const std::string answer,
      Ask(fmt::format(R"({{"column": {{"name": {}, "begin": {}, "end": {}}}}})", JsonText(name),
                      begin, end),
          "a column", {}, stop));
  MILLRACE_ASSIGN_OR_RETURN(const ColumnMessage message, ReadColumn(answer));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedBytes> memory, reply_->Map());
  const std::span<const std::byte> bytes = memory->bytes();
  const std::uint64_t size = 8 * (end - begin);
  const bool is_float = message.dtype == "float64";
  if (message.place > bytes.size() || size > bytes.size() - message.place ||
      is_float != column.is_float) {
    return DataLoss(fmt::format("the column {} is not where the process says", name));
  }
  const auto append = [&](auto& values) {
    const std::size_t had = values.size();
    values.resize(had + end - begin);
    std::memcpy(values.data() + had, bytes.data() + message.place, size);
  };
  is_float ? append(column.floats) : append(column.integers);
  return OkStatus();
}

/// The generators that `random: true` seeds, in the order in which their seeds lie.
constexpr std::array<std::string_view, 3> kSeeded = {"random", "numpy", "torch"};
constexpr std::size_t kKeyBytes = sizeof(ChanceKey);

Result<std::string> PluginProcess::Prepare(const PluginRequest& request,
                                           std::span<const std::size_t> rows, bool uses_chance,
                                           bool at_once, const ReplyLayout& layout,
                                           std::vector<int>& files) {
  const PluginObject& object = options_->object;
  PlaceMaker places;
  const std::uint64_t ids = places.Take(8 * rows.size());
  const std::uint64_t epochs = places.Take(8 * rows.size());
  const std::uint64_t keys = places.Take(uses_chance ? kKeyBytes * rows.size() : 0);
  const std::uint64_t seeds =
      places.Take(object.random ? kSeeded.size() * kKeyBytes * rows.size() : 0);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> inputs;  // values, splits
  for (const TensorView& view : request.inputs) {
    const std::uint64_t values = places.Take(UnitsOf(view, rows) * view.type->UnitBytes());
    inputs.emplace_back(values, places.Take(view.type->ragged ? 8 * (rows.size() + 1) : 0));
  }
  MILLRACE_ASSIGN_OR_RETURN(const bool new_input, input_.Reserve(places.end()));
  if (new_input) files.push_back(input_.file());
  // Rows that are held would be written over.
  const bool new_reply = reply_->IsHeld();
  if (new_reply) {
    MILLRACE_ASSIGN_OR_RETURN(reply_, ReplyMemory::Make());
    files.push_back(reply_->file());
  }
  std::byte* const data = input_.data();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint64_t id = request.ids[rows[i]];
    const std::uint64_t epoch = request.epochs.empty() ? 0 : request.epochs[rows[i]];
    std::memcpy(data + ids + 8 * i, &id, sizeof id);
    std::memcpy(data + epochs + 8 * i, &epoch, sizeof epoch);
    if (!uses_chance) continue;
    std::optional<std::uint64_t> chunk;
    if (!request.chunks.empty()) chunk = request.chunks[rows[i]];
    const ChanceKey key = MakeChanceKey(object.chance, epoch, id, chunk);
    std::memcpy(data + keys + kKeyBytes * i, &key, kKeyBytes);
    if (!object.random) continue;
    for (std::size_t n = 0; n < kSeeded.size(); ++n) {
      const ChanceKey seed = MakeSeed(key, kSeeded[n]);
      std::memcpy(data + seeds + kKeyBytes * (kSeeded.size() * i + n), &seed, kKeyBytes);
    }
  }
  std::vector<std::string> placed;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CopyRows(request.inputs[i], rows, data + inputs[i].first, data + inputs[i].second);
    placed.push_back(fmt::format("[{}, {}]", inputs[i].first, inputs[i].second));
  }
  return fmt::format(
      R"({{"build": {{"rows": {}, "ids": {}, "epochs": {}, "keys": {}, "seeds": {}, )"
      R"("inputs": [{}], )"
      R"("outcomes": {}, "places": [{}], "heap": {}, "at_once": {}, "new_input": {}, )"
      R"("new_reply": {}}}}})",
      rows.size(), ids, epochs, keys, seeds, fmt::join(placed, ", "), layout.outcomes,
      fmt::join(layout.places, ", "), layout.heap, JsonFlag(at_once), JsonFlag(new_input),
      JsonFlag(new_reply));
}

Result<BuildAttempt> PluginProcess::Build(const PluginRequest& request,
                                          std::span<const std::size_t> rows, bool uses_chance,
                                          bool at_once, const std::stop_token& stop) {
  MILLRACE_ASSIGN_OR_RETURN(const ReplyLayout layout, LayOutReply(types_, rows.size()));
  if (const Status owed = WaitForOwed(stop); !owed.ok()) {
    if (owed.code() == StatusCode::kCancelled) return owed;
    BuildAttempt attempt = Ended(owed, layout);
    attempt.blamed.reset();  // it was another request's row
    attempt.at_once = false;
    attempt.memory = nullptr;
    attempt.table.outcomes.clear();
    return attempt;
  }
  std::vector<int> files;
  MILLRACE_ASSIGN_OR_RETURN(const std::string message,
                            Prepare(request, rows, uses_chance, at_once, layout, files));
  reply_->SetWord(kReplyRowWord, 0);
  reply_->SetWord(kReplyAtOnceWord, 0);
  reply_->SetWord(kReplyCompleteWord, 0);

  const StopWatch watch(stop);
  ChannelWait wait;
  wait.process = child_->pidfd();
  wait.stop = watch.file();
  std::vector<std::uint64_t> row_ids;
  for (const std::size_t row : rows) row_ids.push_back(request.ids[row]);
  wait.on_tick = Watch(*this, rows.size(), std::move(row_ids));
  Status sent = child_->channel().Send(message, files, wait);
  Result<std::string> answer = sent.ok() ? child_->channel().Receive(wait) : sent;
  if (answer.status().code() == StatusCode::kCancelled) {
    if (sent.ok()) {
      owed_rows_ = rows.size();
    } else {
      child_->End();  // it may have a part of the message
    }
    return answer.status();
  }
  if (!answer.ok()) return Ended(answer.status(), layout);
  BuildAttempt attempt;
  Result<BuiltMessage> built = ReadBuilt(*answer, rows.size());
  if (!built.ok()) return Ended(built.status(), layout);
  attempt.failures = std::move(built->failures);
  const Status read = ReadRows(layout, rows.size(), attempt);
  if (!read.ok()) return Ended(read, layout);
  return attempt;
}

Status PluginProcess::WaitForOwed(const std::stop_token& stop) {
  if (owed_rows_ == 0) return OkStatus();
  const StopWatch watch(stop);
  ChannelWait wait;
  wait.process = child_->pidfd();
  wait.stop = watch.file();
  wait.on_tick = Watch(*this, owed_rows_, {});
  const Status status = child_->channel().Receive(wait).status();
  if (status.code() != StatusCode::kCancelled) owed_rows_ = 0;
  return status;
}

Status PluginProcess::ReadRows(const ReplyLayout& layout, std::uint64_t finished,
                               BuildAttempt& attempt) {
  MILLRACE_ASSIGN_OR_RETURN(attempt.memory, reply_->Map());
  const std::span<const std::byte> bytes = attempt.memory->bytes();
  // The process may have ended before it made room.
  if (bytes.size() < layout.heap) finished = 0;
  std::vector<std::byte> table(layout.TableBytes());
  if (finished > 0) std::memcpy(table.data(), bytes.data() + kReplyHeadBytes, table.size());
  MILLRACE_ASSIGN_OR_RETURN(
      attempt.table,
      ReadReplyTable(layout, table, finished, std::max<std::uint64_t>(bytes.size(), layout.heap)));
  return OkStatus();
}

BuildAttempt PluginProcess::Ended(const Status& why, const ReplyLayout& layout) {
  BuildAttempt attempt;
  attempt.at_once = reply_->Word(kReplyAtOnceWord) == 1;
  PluginFailure failure;
  failure.kind = FailureKind::kDeath;
  failure.message = why.message();
  bool is_its_fault = true;
  if (why.code() == StatusCode::kDeadlineExceeded) {
    failure.kind = FailureKind::kTimeout;
    child_->EndWithTraces();
  } else if (why.code() == StatusCode::kResourceExhausted) {
    failure.kind = FailureKind::kMemory;
    child_->End();
  } else {
    const bool by_itself = why.code() == StatusCode::kUnavailable;
    const ProcessEnd end = by_itself ? child_->EndAfterClose() : child_->End();
    if (by_itself) failure.message = "the process ended " + end.ToString();
    // Without the fork server nobody knows how a process ended, and it ended because of that.
    is_its_fault = end.known;
  }
  failure.last_output = child_->LastOutput();
  const std::uint64_t finished = std::min(reply_->Word(kReplyCompleteWord), layout.rows);
  if (!ReadRows(layout, finished, attempt).ok()) attempt.table.outcomes.clear();
  // A process may end after it has completed all rows.
  const std::uint64_t row =
      std::max<std::uint64_t>(reply_->Word(kReplyRowWord), attempt.table.outcomes.size());
  if (is_its_fault && row < layout.rows) attempt.blamed = row;
  attempt.ended = std::move(failure);
  return attempt;
}

std::uint64_t PluginProcess::MemoryBytes() const {
  return PrivateMemory(child_->id()) + reply_bytes_;
}

bool PluginProcess::HasTooMuchMemory() const {
  reply_bytes_ = reply_->FileBytes();
  return options_->memory != 0 && MemoryBytes() > options_->memory;
}

}  // namespace millrace
