// The reader that Python takes batches from: a BatchReader, and the calls that run inside it.
//
// All functions need the GIL unless their comment says otherwise.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "client/batch_reader.h"
#include "client/python/src/batch.h"
#include "client/python/src/calls.h"
#include "client/python/src/errors.h"

namespace millrace {
class CoqVocabulary;
}

namespace millrace::python {

class Reader {
 public:
  virtual ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void Attach();
  nanobind::object Next();
  bool NextEpoch();
  nanobind::object At(nanobind::handle epoch, nanobind::handle step);
  nanobind::dict Spec();
  nanobind::object Places();
  std::uint64_t epoch();
  nanobind::tuple position();
  std::string waiting_why();
  /// A named table: column → list of values. Raises KeyError if there is no such table.
  nanobind::dict Table(const std::string& name);
  nanobind::dict Vocabulary();
  std::vector<std::uint32_t> Context(nanobind::handle number);
  /// The example's origin as a dict, or None if only the servers know it.
  nanobind::object Describe(nanobind::handle example);
  nanobind::dict Stats();
  /// The batches whose memory Python keeps: (epoch, step, paths of the tensors that Python holds).
  nanobind::list Held();
  void Cancel();
  void Close();

 protected:
  Reader() = default;
  /// REQUIRES: called once, by the constructor of a derived class.
  void Open(std::unique_ptr<BatchReader> reader);

  /// The open reader. Raises Cancelled if it is closed. Raises JobError in a forked process if the
  /// reader does not survive a fork.
  BatchReader& Get() const;
  /// Runs `work` without the GIL. Raises the exception of a signal handler if one raised meanwhile,
  /// otherwise the error of `work` if it failed.
  template <class Work>
  auto Run(Work work) {
    auto result = calls_->Run(std::move(work));
    RaisePending();
    return ValueOrRaise(std::move(result));
  }
  nanobind::object Hold(const Batch& batch);
  /// See vocabulary.cc.
  std::shared_ptr<const CoqVocabulary> Names();
  std::vector<std::uint32_t> SpineLabels();

 private:
  void Remember(const std::shared_ptr<HeldBatch>& held);

  std::unique_ptr<BatchReader> reader_;
  std::shared_ptr<Calls> calls_;
  pid_t process_ = 0;
  /// A copy of the spec's names, because another thread may close the reader while this one makes
  /// a batch.
  DropReasonNames drop_reasons_;
  std::shared_ptr<const CoqVocabulary> names_;  // null until somebody asks
  std::vector<std::weak_ptr<HeldBatch>> held_;
  std::size_t living_ = 0;  // size of held_ after expired batches were last removed
};

/// Plain values: for a spec, a table and columns of tables.
nanobind::dict SpecDict(const BatchSpec& spec);
nanobind::dict TableDict(const NamedTable& table);
nanobind::str TableText(std::string_view text);
nanobind::list TableTexts(const TextColumn& texts);
template <class T>
nanobind::list TableNumbers(std::span<const T> numbers) {
  nanobind::list list;
  for (const T number : numbers) list.append(number);
  return list;
}

/// Registers example_svg.
void BindDescriptions(nanobind::module_& module);
/// Registers Places.
void BindPlaces(nanobind::module_& module);
nanobind::object MakePlaces(const BatchSpec& spec);
/// Registers session_options.
void BindOptions(nanobind::module_& module);
/// Registers Reader, SessionReader and PlanReader, in this order.
void BindReader(nanobind::module_& module);
void BindSessionReader(nanobind::module_& module);
void BindPlanReader(nanobind::module_& module);

}  // namespace millrace::python
