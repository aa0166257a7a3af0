#include "client/python/src/reader.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/core.h>

#include "client/python/src/options.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

/// The most batches that Held() knows of.
constexpr std::size_t kRemembered = 4096;

nb::dict StatsDict(const SessionStats& stats) {
  nb::dict waited;
  for (std::size_t cause = 1; cause < kWaitCauses; ++cause) {
    const std::string name(WaitCauseName(static_cast<WaitCause>(cause)));
    waited[name.c_str()] = stats.waited_seconds[cause];
  }
  const auto by_reason = [&](const std::array<std::uint64_t, kDropReasons>& counts) {
    nb::dict named;
    for (std::size_t reason = 1; reason < kDropReasons; ++reason) {
      if (counts[reason] == 0 && stats.drop_reasons.Find(reason).empty()) continue;
      named[stats.drop_reasons.NameOf(reason).c_str()] = counts[reason];
    }
    return named;
  };
  nb::dict dict;
  dict["batches"] = stats.batches;
  dict["examples"] = stats.examples;
  dict["tokens"] = stats.tokens;
  dict["bytes"] = stats.bytes;
  dict["wire_bytes"] = stats.wire_bytes;
  dict["in_place"] = stats.in_place;
  dict["dropped"] = by_reason(stats.dropped);
  dict["pieces_lost"] = by_reason(stats.pieces_lost);
  dict["waited_seconds"] = waited;
  dict["device"] = stats.device;
  dict["duplicates"] = stats.duplicates;
  dict["duplicate_mismatches"] = stats.duplicate_mismatches;
  dict["asks_first"] = stats.asks_first;
  dict["asks_copy"] = stats.asks_copy;
  dict["asks_moved"] = stats.asks_moved;
  dict["moved_failed"] = stats.moved_failed;
  dict["moved_drained"] = stats.moved_drained;
  dict["moved_refused"] = stats.moved_refused;
  dict["buffered_batches"] = stats.buffered_batches;
  dict["buffered_bytes"] = stats.buffered_bytes;
  dict["now"] = std::string(WaitCauseName(stats.now));
  dict["now_seconds"] = stats.now_seconds;
  dict["now_worker"] = stats.now_worker;
  dict["now_stage"] = stats.now_stage;
  return dict;
}

}  // namespace

void Reader::Open(std::unique_ptr<BatchReader> reader) {
  process_ = getpid();
  reader_ = std::move(reader);
  calls_ = Calls::Make([this] { reader_->Cancel(); }, [this] { reader_ = nullptr; });
}

Reader::~Reader() {
  if (calls_ != nullptr) calls_->Close();
  // A forked process has none of the reader's threads. It leaves what it inherited to the parent.
  if (reader_ != nullptr && getpid() != process_ && !reader_->survives_fork()) {
    static_cast<void>(reader_.release());
  }
}

BatchReader& Reader::Get() const {
  calls_->RequireOpen();
  if (getpid() != process_ && !reader_->survives_fork()) {
    Raise(FailedPrecondition(fmt::format(
        "this session belongs to process {}, from which this one was forked: open a session of "
        "its own in each process, after the fork",
        process_)));
  }
  return *reader_;
}

void Reader::Attach() {
  BatchReader& reader = Get();
  DropReasonNames names;
  const Status attached = calls_->Run([&] {
    Status status = reader.Attach(PythonSignals());
    if (status.ok()) names = reader.spec().drop_reasons;
    return status;
  });
  RaisePending();
  RaiseUnlessOk(attached);
  drop_reasons_ = std::move(names);
}

nb::object Reader::Next() {
  BatchReader& reader = Get();
  const std::optional<Batch> batch = Run([&] { return reader.Next(PythonSignals()); });
  return batch ? Hold(*batch) : nb::none();
}

bool Reader::NextEpoch() { return ValueOrRaise(Get().NextEpoch()); }

nb::object Reader::At(nb::handle wanted_epoch, nb::handle wanted_step) {
  BatchReader& reader = Get();
  const auto epoch = ReadOption<std::uint64_t>("epoch", wanted_epoch);
  const auto step = ReadOption<std::uint64_t>("step", wanted_step);
  return Hold(Run([&] { return reader.BatchAt(epoch, step, PythonSignals()); }));
}

nb::dict Reader::Spec() { return SpecDict(Get().spec()); }
nb::object Reader::Places() { return MakePlaces(Get().spec()); }
std::uint64_t Reader::epoch() { return Get().epoch(); }

nb::tuple Reader::position() {
  const Position at = Get().position();
  return nb::make_tuple(at.epoch, at.example);
}

std::string Reader::waiting_why() { return Get().waiting_why(); }
void Reader::Cancel() { Get().Cancel(); }
void Reader::Close() { calls_->Close(); }

nb::dict Reader::Table(const std::string& name) {
  BatchReader& reader = Get();
  const auto tables = Run([&] { return reader.tables(PythonSignals()); });
  const NamedTable* const table = tables->Find(name);
  if (table == nullptr) throw nb::key_error(name.c_str());
  return TableDict(*table);
}

nb::object Reader::Describe(nb::handle wanted) {
  const BatchReader& reader = Get();
  const auto example = ReadOption<std::uint64_t>("example", wanted);
  const std::optional<ExampleDescription> told = ValueOrRaise(reader.Describe(ExampleId(example)));
  if (!told) return nb::none();
  nb::dict dict;
  dict["example"] = example;
  if (!told->file.empty()) dict["file"] = told->file;
  for (const ExampleFact& fact : told->facts) {
    dict[nb::str(fact.name.c_str())] =
        std::visit([](const auto& value) { return nb::object(nb::cast(value)); }, fact.value);
  }
  return dict;
}

nb::dict Reader::Stats() { return StatsDict(Get().stats()); }

nb::list Reader::Held() {
  nb::list list;
  for (const std::weak_ptr<HeldBatch>& weak : held_) {
    const std::shared_ptr<HeldBatch> held = weak.lock();
    if (held == nullptr) continue;
    list.append(
        nb::make_tuple(held->place().position.epoch, held->place().step, nb::cast(held->lent())));
  }
  return list;
}

nb::object Reader::Hold(const Batch& batch) {
  const auto hold = [this](const Batch& one) {
    auto held = std::make_shared<HeldBatch>(
        one.owner(), one.tensors(), one.info(), one.packed(),
        BatchPlace{one.position(), one.step(), one.ordinal(), one.rank()}, one.parts(),
        drop_reasons_);
    Remember(held);
    return MakeBatch(std::move(held));
  };
  if (batch.parts() == 1) return hold(batch);
  nb::list micro_batches;
  for (std::uint32_t i = 0; i < batch.parts(); ++i) micro_batches.append(hold(batch.Part(i)));
  return nb::tuple(micro_batches);
}

void Reader::Remember(const std::shared_ptr<HeldBatch>& held) {
  if (held_.size() >= 2 * living_ + 16 || held_.size() >= kRemembered) {
    std::erase_if(held_, [](const std::weak_ptr<HeldBatch>& weak) { return weak.expired(); });
    living_ = held_.size();
  }
  if (held_.size() < kRemembered) held_.push_back(held);
}

void BindReader(nb::module_& module) {
  nb::class_<Reader>(module, "Reader", "Batches of one rank, in order, wherever they are built.")
      .def("attach", &Reader::Attach)
      .def("next", &Reader::Next)
      .def("next_epoch", &Reader::NextEpoch)
      .def("at", &Reader::At, nb::arg("epoch").none(), nb::arg("step").none())
      .def("spec", &Reader::Spec)
      .def("places", &Reader::Places, nb::sig("def places(self) -> Places"))
      .def("epoch", &Reader::epoch)
      .def("position", &Reader::position)
      .def("waiting_why", &Reader::waiting_why)
      .def("table", &Reader::Table, nb::arg("name"))
      .def("vocabulary", &Reader::Vocabulary)
      .def("context", &Reader::Context, nb::arg("number").none())
      .def("describe", &Reader::Describe, nb::arg("example").none(),
           nb::sig("def describe(self, example: object | None) -> dict | None"))
      .def("stats", &Reader::Stats)
      .def("held", &Reader::Held)
      .def("cancel", &Reader::Cancel)
      .def("close", &Reader::Close);
}

}  // namespace millrace::python
