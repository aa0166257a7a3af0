// A session of the C++ client, for Python.

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/core.h>

#include "client/python/src/batch.h"
#include "client/python/src/calls.h"
#include "client/python/src/errors.h"
#include "client/python/src/options.h"
#include "client/python/src/reader.h"
#include "client/session.h"
#include "common/base/log.h"
#include "common/system/stderr_logger.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

/// Batches that a message about held batches looks at, at most.
constexpr std::size_t kRemembered = 4096;

SessionOptions ReadOptions(nb::dict options) {
  SessionOptions session;
  TakeOption(options, "address", &session.address);
  TakeOption(options, "job", &session.job);
  TakeOption(options, "pipeline", &session.pipeline);
  TakeOption(options, "variant", &session.variant);
  TakeOption(options, "overrides", &session.overrides);
  TakeOption(options, "rank", &session.rank);
  TakeOption(options, "world_size", &session.world_size);
  TakeOption(options, "replica", &session.replica);
  TakeOption(options, "prefetch_bytes", &session.prefetch_bytes);
  TakeOption(options, "device", &session.device);
  TakeOption(options, "expanded_batches", &session.expanded_batches);
  TakeOption(options, "expanded_bytes", &session.expanded_bytes);
  TakeOption(options, "cursor", &session.cursor);
  TakeOption(options, "any_start", &session.any_start);
  TakeOption(options, "priority", &session.priority);
  TakeOption(options, "packed", &session.packed);
  TakeOption(options, "micro", &session.micro);
  TakeOption(options, "shared_memory", &session.shared_memory);
  TakeOption(options, "connect_timeout", &session.connect_timeout_seconds);
  TakeOption(options, "attach_timeout", &session.attach_timeout_seconds);
  session.index_dtype = TakeIndexDType(options);
  std::string log_level = "warning";
  TakeOption(options, "log_level", &log_level);
  session.logger = MakeStderrLogger("session", ValueOrRaise(ParseLogLevel(log_level)), false);
  RequireNoMore(options);
  return session;
}

class SessionReader {
 public:
  explicit SessionReader(const nb::dict& options) : process_(getpid()) {
    const SessionOptions read = ReadOptions(nb::dict(options));
    session_ = ValueOrRaise(WithoutGil([&] { return Session::Create(read); }));
    calls_ = Calls::Make([this] { session_->Cancel(); }, [this] { session_ = nullptr; });
  }
  ~SessionReader() {
    if (calls_ != nullptr) calls_->Close();
    // A forked process has none of the session's threads: what it inherited is the parent's.
    if (getpid() != process_) static_cast<void>(session_.release());
  }
  SessionReader(const SessionReader&) = delete;
  SessionReader& operator=(const SessionReader&) = delete;

  void Close() { calls_->Close(); }

  void Attach() {
    Session& session = Get();
    const Status attached = calls_->Run([&] { return session.Attach(PythonSignals()); });
    RaisePending();
    RaiseUnlessOk(attached);
  }

  nb::object Next() {
    Session& session = Get();
    Result<std::optional<Batch>> next = calls_->Run([&] { return session.Next(PythonSignals()); });
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
    Result<VocabularyTable> table =
        calls_->Run([&] { return session.vocabulary(PythonSignals()); });
    RaisePending();
    return VocabularyDict(ValueOrRaise(std::move(table)));
  }
  std::vector<std::uint32_t> Context(nb::handle number) {
    Session& session = Get();
    const auto id = ReadOption<std::uint64_t>("context", number);
    Result<std::vector<std::uint32_t>> context =
        calls_->Run([&] { return session.context(id, PythonSignals()); });
    RaisePending();
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
      if (stats.dropped[reason] == 0 && stats.drop_reasons.Find(reason).empty()) continue;
      dropped[stats.drop_reasons.NameOf(reason).c_str()] = stats.dropped[reason];
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
    calls_->RequireOpen();
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
        BatchPlace{batch.position(), batch.step(), batch.ordinal(), batch.rank()}, batch.parts(),
        session_->spec().drop_reasons);
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
  std::shared_ptr<Calls> calls_;
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
      .def("context", &SessionReader::Context, nb::arg("number").none())
      .def("stats", &SessionReader::Stats)
      .def("held", &SessionReader::Held);
}

}  // namespace millrace::python
