// A session of the C++ client, for Python.

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include "client/python/src/batch.h"
#include "client/python/src/errors.h"
#include "client/python/src/reader.h"
#include "client/session.h"
#include "common/base/log.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

/// Batches that a message about held batches looks at, at most.
constexpr std::size_t kRemembered = 4096;

/// Takes an option out of a dict of them.
template <class T>
void Take(nb::dict& options, const char* name, T* to) {
  if (!options.contains(name)) return;
  *to = nb::cast<T>(options[name]);
  nb::del(options[name]);
}

Result<SessionOptions> ReadOptions(nb::dict options) {
  SessionOptions session;
  Take(options, "address", &session.address);
  Take(options, "job", &session.job);
  Take(options, "pipeline", &session.pipeline);
  Take(options, "variant", &session.variant);
  Take(options, "overrides", &session.overrides);
  Take(options, "rank", &session.rank);
  Take(options, "world_size", &session.world_size);
  Take(options, "replica", &session.replica);
  Take(options, "prefetch_bytes", &session.prefetch_bytes);
  Take(options, "device", &session.device);
  Take(options, "expanded_batches", &session.expanded_batches);
  Take(options, "expanded_bytes", &session.expanded_bytes);
  Take(options, "cursor", &session.cursor);
  Take(options, "any_start", &session.any_start);
  Take(options, "priority", &session.priority);
  Take(options, "packed", &session.packed);
  Take(options, "micro", &session.micro);
  Take(options, "shared_memory", &session.shared_memory);
  Take(options, "connect_timeout", &session.connect_timeout_seconds);
  Take(options, "attach_timeout", &session.attach_timeout_seconds);
  std::string index_dtype = "int32";
  Take(options, "index_dtype", &index_dtype);
  if (index_dtype != "int32" && index_dtype != "int64") {
    return InvalidArgument(
        fmt::format("index_dtype: expected int32 or int64, got {}", index_dtype));
  }
  session.index_dtype = index_dtype == "int64" ? DType::kInt64 : DType::kInt32;
  std::string log_level = "warning";
  Take(options, "log_level", &log_level);
  MILLRACE_ASSIGN_OR_RETURN(const LogLevel level, ParseLogLevel(log_level));
  session.logger = MakeStderrLogger("session", level, false);
  for (const auto& [name, value] : options) {
    return InvalidArgument(fmt::format("option {} is not known", nb::cast<std::string>(name)));
  }
  return session;
}

class SessionReader {
 public:
  explicit SessionReader(const nb::dict& options) : process_(getpid()) {
    const SessionOptions read = ValueOrRaise(ReadOptions(nb::dict(options)));
    Result<std::unique_ptr<Session>> session = [&] {
      const nb::gil_scoped_release release;
      return Session::Create(read);
    }();
    session_ = ValueOrRaise(std::move(session));
  }
  ~SessionReader() { Close(); }
  SessionReader(const SessionReader&) = delete;
  SessionReader& operator=(const SessionReader&) = delete;

  void Close() {
    if (session_ == nullptr) return;
    // A forked process has none of the session's threads: what it inherited is the parent's.
    Session* const session = session_.release();
    if (getpid() != process_) return;
    const nb::gil_scoped_release release;
    delete session;
  }

  void Attach() {
    Session& session = Get();
    Status attached;
    {
      const nb::gil_scoped_release release;
      attached = session.Attach(PythonSignals());
    }
    RaisePending();
    RaiseUnlessOk(attached);
  }

  nb::object Next() {
    Session& session = Get();
    Result<std::optional<Batch>> next = std::optional<Batch>();
    {
      const nb::gil_scoped_release release;
      next = session.Next(PythonSignals());
    }
    RaisePending();
    const std::optional<Batch> batch = ValueOrRaise(std::move(next));
    if (!batch) return nb::none();
    if (batch->parts() == 1) return Hold(*batch);
    nb::list parts;
    for (std::uint32_t part = 0; part < batch->parts(); ++part) {
      parts.append(Hold(batch->Part(part)));
    }
    return nb::tuple(parts);
  }

  bool NextEpoch() { return ValueOrRaise(Get().NextEpoch()); }
  nb::dict Spec() { return SpecDict(Get().spec()); }
  std::uint64_t epoch() { return Get().epoch(); }
  nb::tuple position() {
    const Position at = Get().position();
    return nb::make_tuple(at.epoch, at.example);
  }
  std::string cursor() { return Get().cursor(); }
  std::string waiting_why() { return Get().waiting_why(); }
  void Cancel() { Get().Cancel(); }

  nb::dict Vocabulary() {
    Session& session = Get();
    Result<VocabularyTable> table = [&] {
      const nb::gil_scoped_release release;
      return session.vocabulary();
    }();
    return VocabularyDict(ValueOrRaise(std::move(table)));
  }
  std::vector<std::uint32_t> Context(std::uint64_t id) {
    Session& session = Get();
    Result<std::vector<std::uint32_t>> context = [&] {
      const nb::gil_scoped_release release;
      return session.context(id);
    }();
    return ValueOrRaise(std::move(context));
  }

  nb::dict Stats() {
    const SessionStats stats = Get().stats();
    nb::dict waited;
    for (std::size_t cause = 1; cause < kWaitCauses; ++cause) {
      const std::string name(WaitCauseName(static_cast<WaitCause>(cause)));
      waited[name.c_str()] = stats.waited_seconds[cause];
    }
    nb::dict dropped;
    for (std::size_t reason = 1; reason < kDropReasons; ++reason) {
      const std::string name(DropReasonName(static_cast<DropReason>(reason)));
      dropped[name.c_str()] = stats.dropped[reason];
    }
    nb::dict dict;
    dict["batches"] = stats.batches;
    dict["examples"] = stats.examples;
    dict["bytes"] = stats.bytes;
    dict["in_place"] = stats.in_place;
    dict["dropped"] = dropped;
    dict["waited_seconds"] = waited;
    dict["device"] = stats.device;
    dict["duplicates"] = stats.duplicates;
    dict["duplicate_mismatches"] = stats.duplicate_mismatches;
    dict["lapsed_leases"] = stats.lapsed_leases;
    dict["buffered_batches"] = stats.buffered_batches;
    dict["buffered_bytes"] = stats.buffered_bytes;
    dict["now"] = std::string(WaitCauseName(stats.now));
    dict["now_seconds"] = stats.now_seconds;
    dict["now_worker"] = stats.now_worker;
    dict["now_stage"] = stats.now_stage;
    return dict;
  }

  /// Batches that Python holds: (epoch, step, paths of tensors held besides the batch).
  nb::list Held() {
    nb::list list;
    for (const std::weak_ptr<HeldBatch>& weak : held_) {
      const std::shared_ptr<HeldBatch> held = weak.lock();
      if (held == nullptr) continue;
      list.append(
          nb::make_tuple(held->place().position.epoch, held->place().step, nb::cast(held->lent())));
    }
    return list;
  }

 private:
  Session& Get() const {
    if (session_ == nullptr) Raise(Cancelled("the session is closed"));
    if (getpid() != process_) {
      Raise(FailedPrecondition(fmt::format(
          "this session belongs to process {}, from which this one was forked: open a session of "
          "its own in each process, after the fork",
          process_)));
    }
    return *session_;
  }

  nb::object Hold(const Batch& batch) {
    auto held = std::make_shared<HeldBatch>(
        batch.owner(), batch.tensors(), batch.info(), batch.packed(),
        BatchPlace{batch.position(), batch.step(), batch.ordinal(), batch.rank()});
    Remember(held);
    return MakeBatch(std::move(held));
  }

  void Remember(const std::shared_ptr<HeldBatch>& held) {
    if (held_.size() >= 2 * living_ + 16 || held_.size() >= kRemembered) {
      std::erase_if(held_, [](const std::weak_ptr<HeldBatch>& weak) { return weak.expired(); });
      living_ = held_.size();
    }
    if (held_.size() < kRemembered) held_.push_back(held);
  }

  std::unique_ptr<Session> session_;
  const pid_t process_;
  std::vector<std::weak_ptr<HeldBatch>> held_;
  std::size_t living_ = 0;  // of held_, when it was last cleared
};

}  // namespace

void BindSessionReader(nb::module_& module) {
  nb::class_<SessionReader>(module, "SessionReader")
      .def(nb::init<const nb::dict&>(), nb::arg("options"))
      .def("close", &SessionReader::Close)
      .def("attach", &SessionReader::Attach)
      .def("next", &SessionReader::Next)
      .def("next_epoch", &SessionReader::NextEpoch)
      .def("spec", &SessionReader::Spec)
      .def("epoch", &SessionReader::epoch)
      .def("position", &SessionReader::position)
      .def("cursor", &SessionReader::cursor)
      .def("waiting_why", &SessionReader::waiting_why)
      .def("cancel", &SessionReader::Cancel)
      .def("vocabulary", &SessionReader::Vocabulary)
      .def("context", &SessionReader::Context, nb::arg("id"))
      .def("stats", &SessionReader::Stats)
      .def("held", &SessionReader::Held);
}

}  // namespace millrace::python
