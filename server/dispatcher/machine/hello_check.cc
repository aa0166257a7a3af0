#include "server/dispatcher/machine/hello_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/addresses.h"
#include "common/base/protocol_limits.h"
#include "common/base/protocol_version.h"
#include "common/base/refusal.h"
#include "common/base/utf8.h"
#include "server/dispatcher/machine/plan_data.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxWhere = 256;
constexpr std::size_t kMaxFileName = 4096;
constexpr std::size_t kMaxDigest = 64;
constexpr std::size_t kMaxWords = 4096;  // in bytes, of a text for people: a longer one is cut
constexpr int kMaxSemantics = 64;
constexpr int kMaxCounters = 64;
constexpr std::uint32_t kMaxReplica = 1u << 16;
constexpr int kMaxOverrides = 256;
constexpr int kMaxFailing = 1024;
constexpr int kMaxStages = 256;
constexpr int kMaxPluginProcesses = 4096;  // of all objects together
constexpr std::size_t kMaxDatasets = 1024;
constexpr int kMaxWorkerPlans = 1024;
constexpr int kMaxMeasured = 4096;
constexpr int kMaxMeasuredColumns = 1024;
constexpr std::size_t kOptionsNamed = 8;

bool Printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u >= 0x20 && u != 0x7f;
  });
}

Status CheckText(std::string_view what, std::string_view text, std::size_t longest) {
  if (text.size() > longest) {
    return InvalidArgument(
        fmt::format("{} has {} bytes: expected at most {}", what, text.size(), longest));
  }
  if (!Printable(text)) {
    return InvalidArgument(fmt::format("{} has control characters in it", what));
  }
  return OkStatus();
}

/// Whether a step lies at `at`, in a session that began at `start`. False for places beyond the
/// epoch's end.
bool IsStep(const StepArithmetic& steps, Position start, Position at) {
  if (at < start) return false;
  const std::uint64_t first = at.epoch == start.epoch ? start.example : 0;
  if (at.example < first || (at.example - first) % steps.stride() != 0) return false;
  return at.example < steps.options().examples && steps.StepsFrom(at.example) > 0;
}

/// Cuts a text that is too long, but never within a character.
void Cut(std::string* text) {
  if (text->size() <= kMaxWords) return;
  CutUtf8(*text, kMaxWords - 3);
  *text += "...";
}

Status CheckWorkerRef(const v1::WorkerRef& worker) {
  MILLRACE_RETURN_IF_ERROR(CheckText("the worker's address", worker.address(), kMaxWhere));
  MILLRACE_RETURN_IF_ERROR(CheckText("the host id", worker.host_id(), kMaxWhere));
  return CheckText("the worker's socket", worker.unix_socket(), kMaxWhere);
}

Status CheckPlugins(const v1::WorkRequest& request) {
  int processes = 0;
  for (const v1::PluginUse& use : request.plugins()) {
    MILLRACE_RETURN_IF_ERROR(CheckText("a plugin's object", use.object(), kMaxNameBytes));
    processes += std::max(1, use.processes_size());
    if (processes > kMaxPluginProcesses) {
      return InvalidArgument(
          fmt::format("a worker with more than {} processes of plugins", kMaxPluginProcesses));
    }
  }
  return OkStatus();
}

Status CheckDataset(const std::string& id, const v1::DatasetState& dataset) {
  MILLRACE_RETURN_IF_ERROR(CheckText("a dataset's id", id, kMaxNameBytes));
  MILLRACE_RETURN_IF_ERROR(CheckText("a dataset's digest", dataset.digest(), kMaxDigest));
  MILLRACE_RETURN_IF_ERROR(CheckText("a dataset's kind", dataset.kind(), kMaxNameBytes));
  for (const v1::FileEntry& file : dataset.file_list()) {
    if (file.name().size() > kMaxFileName || file.digest().size() > kMaxDigest) {
      return InvalidArgument(fmt::format(
          "a file of dataset {} has a name of {} bytes and a digest of {}: expected at most {} and "
          "{}",
          id, file.name().size(), file.digest().size(), kMaxFileName, kMaxDigest));
    }
  }
  return OkStatus();
}

std::map<std::string, std::string> Options(std::string_view canonical) {
  std::map<std::string, std::string> options;
  while (!canonical.empty()) {
    const auto end = std::min(canonical.find('\n'), canonical.size());
    const std::string_view line = canonical.substr(0, end);
    canonical.remove_prefix(std::min(end + 1, canonical.size()));
    const auto equals = std::min(line.find('='), line.size());
    if (line.empty()) continue;
    options.emplace(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
  }
  return options;
}

Status CursorDiffers(const v1::Hello& hello, const RequestedPlan& plan, const Fingerprint& cursor,
                     std::string_view cursor_canonical) {
  const Fingerprint& here = plan.facts->order_fingerprint();
  std::string what;
  if (cursor.dataset != here.dataset) {
    const bool one = plan.facts->datasets().size() == 1;
    what =
        fmt::format("its {} digest {}, {} here {} {}: files were changed, added or removed since",
                    one ? "dataset has" : "datasets have the joint", cursor.dataset.ToHex(),
                    NameDatasets(*plan.facts), one ? "has" : "have", here.dataset.ToHex());
  }
  if (cursor.pipeline != here.pipeline) {
    const std::string options = DifferentOptions(cursor_canonical, plan.facts->canonical_text());
    if (!what.empty()) what += "; and ";
    if (cursor_canonical.empty() || options.empty()) {
      what += fmt::format("its pipeline has digest {}, this one {}", cursor.pipeline.ToHex(),
                          here.pipeline.ToHex());
    } else {
      what += "its pipeline has other options: " + options;
    }
  }
  return FailedPrecondition(
      fmt::format("the cursor of {} belongs to another order of examples: {}. "
                  "Use the dataset and pipeline that it was made with, or "
                  "start without a cursor",
                  RankOfJob(hello), what));
}

}  // namespace

std::string DifferentOptions(std::string_view there, std::string_view here) {
  const auto options_there = Options(there);
  const auto options_here = Options(here);
  std::vector<std::string> differences;
  for (const auto& [key, value] : options_there) {
    const auto it = options_here.find(key);
    if (it == options_here.end()) {
      differences.push_back(fmt::format("{}={} there, default here", key, value));
    } else if (it->second != value) {
      differences.push_back(fmt::format("{}={} there, {} here", key, value, it->second));
    }
  }
  for (const auto& [key, value] : options_here) {
    if (!options_there.contains(key)) {
      differences.push_back(fmt::format("{} default there, {} here", key, value));
    }
  }
  const std::size_t all = differences.size();
  if (all > kOptionsNamed) {
    differences.resize(kOptionsNamed);
    differences.push_back(fmt::format("and {} more", all - kOptionsNamed));
  }
  return fmt::format("{}", fmt::join(differences, "; "));
}

Status CheckHello(const v1::Hello& hello, const DispatcherOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckProtocol("trainer", hello.protocol()));
  if (hello.job().empty()) return InvalidArgument("the job has no name");
  MILLRACE_RETURN_IF_ERROR(CheckText("the job's name", hello.job(), kMaxNameBytes));
  MILLRACE_RETURN_IF_ERROR(CheckText("`where`", hello.where(), kMaxWhere));
  MILLRACE_RETURN_IF_ERROR(CheckText("the host id", hello.host_id(), kMaxWhere));
  MILLRACE_RETURN_IF_ERROR(
      CheckText("the cursor's fingerprint", hello.cursor_fingerprint(), kMaxNameBytes));
  if (hello.nonce().size() != 16) {
    return InvalidArgument(
        fmt::format("the nonce has {} bytes: expected 16", hello.nonce().size()));
  }
  if (hello.world_size() == 0 || hello.world_size() > kMaxWorldSize) {
    return InvalidArgument(fmt::format("world size {} is out of range: expected 1 to {}",
                                       hello.world_size(), kMaxWorldSize));
  }
  if (hello.rank() >= hello.world_size()) {
    return InvalidArgument(fmt::format("rank {} is out of range: world size {} has ranks 0 to {}",
                                       hello.rank(), hello.world_size(), hello.world_size() - 1));
  }
  if (hello.replica() >= kMaxReplica) {
    return InvalidArgument(fmt::format("replica {} is out of range: expected 0 to {}",
                                       hello.replica(), kMaxReplica - 1));
  }
  if (hello.priority() > kMaxPriority) {
    return InvalidArgument(fmt::format("priority {} is out of range: expected 1 to {}",
                                       hello.priority(), kMaxPriority));
  }
  const v1::PipelineText& pipeline = hello.pipeline();
  if (pipeline.yaml().empty()) return InvalidArgument("the pipeline is empty");
  std::size_t bytes = pipeline.yaml().size() + pipeline.variant().size();
  for (const auto& o : pipeline.overrides()) bytes += o.size();
  if (bytes > options.max_pipeline_bytes || pipeline.overrides_size() > kMaxOverrides) {
    return InvalidArgument(
        fmt::format("the pipeline has {} bytes and {} overrides: expected at most {} and {}", bytes,
                    pipeline.overrides_size(), options.max_pipeline_bytes, kMaxOverrides));
  }
  if (hello.admitted() && !FromProto(hello.session()).is_set()) {
    return InvalidArgument("`admitted` without a session number");
  }
  if (FromProto(hello.session()).is_set() && hello.session().term() == 0) {
    return InvalidArgument("a session number of term 0 is never issued");
  }
  return OkStatus();
}

Status CheckSameSession(const SessionFacts& session, const v1::Hello& hello) {
  const v1::Hello& known = session.hello;
  const bool same = known.job() == hello.job() && known.rank() == hello.rank() &&
                    known.replica() == hello.replica() &&
                    known.world_size() == hello.world_size() &&
                    known.any_start() == hello.any_start() &&
                    session.wanted_start() == FromProto(hello.start()) &&
                    session.plan_key == PlanKey(hello.pipeline());
  if (same) return OkStatus();
  return InvalidArgument(fmt::format(
      "session {} is {} of {} at start {}; it cannot come back as {} of {} at start {} or with "
      "another pipeline: open a new session",
      session.id.ToString(), RankOfJob(known), known.world_size(),
      session.wanted_start().ToString(), RankOfJob(hello), hello.world_size(),
      FromProto(hello.start()).ToString()));
}

/// Checks what a process says of its tuning, which is kept for as long as the process.
Status CheckTuning(const v1::Tuning& tuning) {
  if (tuning.settings_size() > kMaxTuneSettings || tuning.decisions_size() > kMaxTuneDecisions) {
    return InvalidArgument(fmt::format(
        "tuning of {} settings with {} decisions: expected at most {} and {}",
        tuning.settings_size(), tuning.decisions_size(), kMaxTuneSettings, kMaxTuneDecisions));
  }
  for (const v1::TuneSetting& setting : tuning.settings()) {
    MILLRACE_RETURN_IF_ERROR(CheckText("a setting's name", setting.name(), kMaxTuneText));
  }
  for (const v1::TuneDecision& decision : tuning.decisions()) {
    MILLRACE_RETURN_IF_ERROR(CheckText("a setting's name", decision.setting(), kMaxTuneText));
    MILLRACE_RETURN_IF_ERROR(CheckText("a cause of waits", decision.waited_for(), kMaxTuneText));
    MILLRACE_RETURN_IF_ERROR(CheckText("an outcome", decision.outcome(), kMaxTuneText));
  }
  return OkStatus();
}

Status CheckWorkRequest(const v1::WorkRequest& request) {
  MILLRACE_RETURN_IF_ERROR(CheckProtocol("worker", request.protocol()));
  if (request.nonce().size() != 16) {
    return InvalidArgument(
        fmt::format("the nonce has {} bytes: expected 16", request.nonce().size()));
  }
  MILLRACE_RETURN_IF_ERROR(CheckText("the worker's name", request.name(), kMaxNameBytes));
  MILLRACE_RETURN_IF_ERROR(CheckText("the worker's version", request.version(), kMaxNameBytes));
  MILLRACE_RETURN_IF_ERROR(CheckWorkerRef(request.self()));
  MILLRACE_RETURN_IF_ERROR(CheckTuning(request.tuning()));
  const std::string& address = request.self().address();
  if (address.empty()) return InvalidArgument("the worker has no address: set `advertise`");
  if (IsWildcard(address)) {
    return InvalidArgument(fmt::format(
        "the worker's address {} is a wildcard, which no consumer can reach: set `advertise`",
        address));
  }
  if (request.datasets().size() > kMaxDatasets || request.plans_size() > kMaxWorkerPlans ||
      request.answers_size() > kMaxWorkerPlans || request.build_size() > kMaxStages) {
    return InvalidArgument(fmt::format(
        "a worker with {} datasets, {} plans and {} stages: expected at most {}, {} and {}",
        request.datasets().size(), request.plans_size(), request.build_size(), kMaxDatasets,
        kMaxWorkerPlans, kMaxStages));
  }
  if (request.semantics_size() > kMaxSemantics) {
    return InvalidArgument(
        fmt::format("a worker with {} versions of semantics: expected at most {}",
                    request.semantics_size(), kMaxSemantics));
  }
  for (const auto& [id, dataset] : request.datasets()) {
    MILLRACE_RETURN_IF_ERROR(CheckDataset(id, dataset));
  }
  for (const v1::PlanState& plan : request.plans()) {
    MILLRACE_RETURN_IF_ERROR(CheckText("a plan's fingerprint", plan.fingerprint(), kMaxNameBytes));
    MILLRACE_RETURN_IF_ERROR(CheckText("a plan's digest", plan.static_digest(), kMaxDigest));
  }
  if (request.measured_size() > kMaxMeasured) {
    return InvalidArgument(fmt::format("a worker sends {} measured ranges: expected at most {}",
                                       request.measured_size(), kMaxMeasured));
  }
  for (const v1::Measured& measured : request.measured()) {
    if (measured.columns_size() > kMaxMeasuredColumns) {
      return InvalidArgument(
          fmt::format("a worker measures {} columns at once: expected at most {}",
                      measured.columns_size(), kMaxMeasuredColumns));
    }
  }
  for (const v1::StageSeconds& stage : request.build()) {
    MILLRACE_RETURN_IF_ERROR(CheckText("a stage's name", stage.stage(), kMaxNameBytes));
  }
  return CheckPlugins(request);
}

Result<SessionPlan> PlanForSession(const v1::Hello& hello, const RequestedPlan& plan,
                                   std::string_view cursor_canonical) {
  if (!hello.cursor_fingerprint().empty()) {
    const Result<Fingerprint> cursor = Fingerprint::FromString(hello.cursor_fingerprint());
    if (!cursor.ok()) return cursor.status().WithContext("the cursor's fingerprint");
    if (*cursor != plan.facts->order_fingerprint()) {
      return CursorDiffers(hello, plan, *cursor, cursor_canonical);
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(StepArithmetic steps, plan.facts->Steps(hello.world_size()));
  Result<Position> start = steps.Start(FromProto(hello.start()));
  if (!start.ok()) return start.status().WithContext(RankOfJob(hello));
  MILLRACE_ASSIGN_OR_RETURN(v1::Spec spec, plan.facts->Spec(hello.world_size()));
  return SessionPlan{plan.facts, plan.fingerprint, steps, *start, std::move(spec)};
}

Status CheckReportSize(const v1::Report& report) {
  if (report.used() > kMaxListMembers) {
    return InvalidArgument(
        fmt::format("a report says that {} members of a list are in use: expected "
                    "at most {}",
                    report.used(), kMaxListMembers));
  }
  if (!std::isfinite(report.step_ms()) || report.step_ms() < 0) {
    return InvalidArgument(fmt::format(
        "a report has steps of {} ms: expected a number of at least 0", report.step_ms()));
  }
  if (!std::isfinite(report.due_seconds())) {
    return InvalidArgument(fmt::format(
        "a report has a step that is {} s past due: expected a number", report.due_seconds()));
  }
  if (report.failing_size() > kMaxFailing) {
    return InvalidArgument(fmt::format("a report names {} failing workers: expected at most {}",
                                       report.failing_size(), kMaxFailing));
  }
  MILLRACE_RETURN_IF_ERROR(CheckTuning(report.tuning()));
  const v1::Counters& counters = report.counters();
  if (std::max({counters.dropped_size(), counters.pieces_lost_size(), counters.waited_size()}) >
      kMaxCounters) {
    return InvalidArgument(fmt::format(
        "a report counts {} reasons of dropped examples, {} of lost pieces and {} causes of "
        "waiting: expected at most {}",
        counters.dropped_size(), counters.pieces_lost_size(), counters.waited_size(),
        kMaxCounters));
  }
  return OkStatus();
}

void Trim(v1::Report& report) {
  report.DiscardUnknownFields();
  for (v1::Failing& failing : *report.mutable_failing()) {
    Cut(failing.mutable_reason());
    auto& refused = *failing.mutable_refused();
    if (refused.size() > kMaxRefusedBatches) {
      refused.DeleteSubrange(kMaxRefusedBatches, refused.size() - kMaxRefusedBatches);
    }
    for (v1::RefusedBatch& batch : refused) Cut(batch.mutable_reason());
  }
  if (!report.has_now()) return;
  Cut(report.mutable_now()->mutable_worker_address());
  Cut(report.mutable_now()->mutable_stage());
}

v1::WorkRequest Trimmed(const v1::WorkRequest& request) {
  v1::WorkRequest trimmed = request;
  trimmed.DiscardUnknownFields();
  trimmed.clear_measured();
  trimmed.clear_answers();
  for (auto& [id, dataset] : *trimmed.mutable_datasets()) {
    dataset.clear_file_list();
    dataset.clear_left_out();
    Cut(dataset.mutable_error());
  }
  for (v1::PlanState& plan : *trimmed.mutable_plans()) Cut(plan.mutable_error());
  return trimmed;
}

Status CheckReport(const v1::Report& report, const SessionPlan& plan) {
  MILLRACE_RETURN_IF_ERROR(CheckReportSize(report));
  const Position next = FromProto(report.next());
  if (next.epoch > StepArithmetic::kMaxEpoch + 1 || !IsStep(plan.steps, plan.start, next)) {
    return InvalidArgument(fmt::format(
        "a report's next is {}, where no step lies: the session began at {}, a step has {} of {} "
        "examples",
        next.ToString(), plan.start.ToString(), plan.steps.stride(),
        plan.steps.options().examples));
  }
  return OkStatus();
}

std::string FirstDifference(const v1::DatasetState& here, const v1::DatasetState& there) {
  const int files = std::min(here.file_list_size(), there.file_list_size());
  for (int i = 0; i < files; ++i) {
    const v1::FileEntry& a = here.file_list(i);
    const v1::FileEntry& b = there.file_list(i);
    if (a.name() != b.name()) {
      return fmt::format("file {} is '{}' on the worker, '{}' on the dispatcher", i, b.name(),
                         a.name());
    }
    if (a.size() != b.size()) {
      return fmt::format("file '{}' has {} bytes on the worker, {} on the dispatcher", a.name(),
                         b.size(), a.size());
    }
    if (a.digest() != b.digest()) {
      return fmt::format("file '{}' has other bytes on the worker than on the dispatcher",
                         a.name());
    }
  }
  if (here.file_list_size() == there.file_list_size()) return {};
  const bool more_here = here.file_list_size() > files;
  if (more_here && there.files() > static_cast<std::uint64_t>(files)) {
    return fmt::format("the first {} files are the same, a later one differs: compare the folders",
                       files);
  }
  return fmt::format("file '{}' is only on the {}",
                     (more_here ? here : there).file_list(files).name(),
                     more_here ? "dispatcher" : "worker");
}

bool Compatible(const SessionFacts& a, const SessionFacts& b) {
  return a.plan && b.plan && a.plan->fingerprint == b.plan->fingerprint &&
         a.hello.world_size() == b.hello.world_size() &&
         (a.wanted_start() == b.wanted_start() || (a.hello.any_start() && b.hello.any_start()));
}

}  // namespace millrace
