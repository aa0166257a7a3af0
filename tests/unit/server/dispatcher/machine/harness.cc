#include "tests/unit/server/dispatcher/machine/harness.h"

#include <algorithm>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/base/protocol_version.h"
#include "common/epoch/mix_shares.h"
#include "common/transport/convert/steps.h"

namespace millrace::test {
namespace {

PlanFacts FakeFacts(std::vector<PlanDataset> datasets, const std::vector<v1::Branch>& branches,
                    const std::string& text, const StepOptions& steps, std::uint64_t window,
                    const std::string& tokens) {
  std::vector<Digest128> digests;
  for (const PlanDataset& dataset : datasets) digests.push_back(dataset.digest);
  const Fingerprint fingerprint = {JointDigest(digests), Xxh3(text)};
  PlanFields fields{.fingerprint = fingerprint,
                    .order_fingerprint = fingerprint,
                    .datasets = std::move(datasets),
                    .canonical_text = text,
                    .static_digest = std::string(32, '5'),
                    .steps = steps};
  ToProto(steps, fields.spec.mutable_steps());
  fields.spec.set_max_batch_bytes(2000);
  fields.spec.add_drop_reasons("torn");  // a reason of the dataset's kind alone
  fields.spec.mutable_branches()->Assign(branches.begin(), branches.end());
  fields.spec.set_window_units(window);
  fields.spec.set_token_tensor(tokens);
  return PlanFacts(std::move(fields));
}

/// The branches of a mix from the text of `branches=`, with the rows of an epoch of `examples`.
std::vector<v1::Branch> ToBranches(const std::string& text, std::uint64_t examples) {
  std::vector<v1::Branch> branches;
  std::vector<std::uint64_t> weights;
  for (const std::string& entry : SplitAt(text, ',')) {
    const std::vector<std::string> fields = SplitAt(entry, ':');
    v1::Branch& branch = branches.emplace_back();
    branch.set_name(fields.at(0));
    branch.set_dataset(fields.at(1));
    branch.set_weight(std::stoull(fields.at(2)));
    branch.set_examples(std::stoull(fields.at(3)));
    weights.push_back(branch.weight());
  }
  const std::vector<std::uint64_t> rows = MixShares(weights).Of(examples);
  for (std::size_t i = 0; i < rows.size(); ++i) branches[i].set_rows_per_epoch(rows[i]);
  return branches;
}

}  // namespace

std::string Yaml(const std::string& more) { return "examples=80\nsize=4\n" + more; }

std::string DatasetDigest(const std::string& contents) { return Xxh3(contents).ToHex(); }

Digest128 JointDigest(const std::vector<Digest128>& digests) {
  if (digests.size() == 1) return digests.front();
  std::string joined;
  for (const Digest128& digest : digests) joined += digest.ToBytes();
  return Xxh3(joined);
}

std::vector<std::string> SplitAt(const std::string& text, char separator) {
  std::vector<std::string> texts{""};
  for (const char c : text) {
    if (c == separator) {
      texts.emplace_back();
    } else {
      texts.back() += c;
    }
  }
  return texts;
}

Result<std::shared_ptr<const PlanFacts>> CompileFake(
    const v1::PipelineText& pipeline, const std::map<std::string, std::string>& contents) {
  std::map<std::string, std::string> options;
  std::string_view text = pipeline.yaml();
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const auto equals = line.find('=');
    options[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  if (options.contains("error")) return InvalidArgument(options["error"]);
  if (options.contains("later")) return Unavailable(options["later"]);
  const auto number = [&](const char* key) {
    return options.contains(key) ? std::stoull(options[key]) : 0ull;
  };
  std::string canonical;
  for (const auto& [key, value] : options) {
    if (key != "dataset") canonical += fmt::format("{}={}\n", key, value);
  }
  std::vector<PlanDataset> datasets;
  for (const std::string& id :
       SplitAt(options.contains("dataset") ? options["dataset"] : "stdlib", ',')) {
    const auto found = contents.find(id);
    datasets.push_back({id, Xxh3(found == contents.end() ? id : found->second)});
  }
  return std::make_shared<const PlanFacts>(
      FakeFacts(std::move(datasets),
                options.contains("branches") ? ToBranches(options["branches"], number("examples"))
                                             : std::vector<v1::Branch>(),
                canonical,
                StepOptions{.examples = number("examples"),
                            .size = number("size"),
                            .global_size = number("global_size"),
                            .keep = number("keep") != 0,
                            .unit_rows = static_cast<std::uint32_t>(number("unit_rows"))},
                number("window"), options["tokens"]));
}

v1::Hello MakeHello(const HelloOptions& o) {
  v1::Hello hello;
  hello.set_protocol(kProtocol);
  hello.set_job(o.job);
  hello.set_rank(o.rank);
  hello.set_replica(o.replica);
  hello.set_world_size(o.world_size);
  hello.mutable_pipeline()->set_yaml(o.yaml);
  ToProto(o.start, hello.mutable_start());
  hello.set_nonce(std::string(16, o.nonce));
  hello.set_where(o.where);
  hello.set_host_id(o.host_id);
  hello.set_epochs(o.epochs);
  hello.set_any_start(o.any_start);
  return hello;
}

Harness::Harness(DispatcherOptions o, std::uint64_t term, std::vector<v1::JobRecord> records)
    : options(o) {
  for (const auto& record : records) disk[record.name()] = record;
  dispatcher = std::make_unique<DispatcherMachine>(
      options, term, std::move(records), now, [this](const Update& u) { updates.push_back(u); });
}

void Harness::Restart() {
  const std::uint64_t term = dispatcher->facts().term() + 1;
  std::vector<v1::JobRecord> records;
  for (const auto& [name, record] : disk) records.push_back(record);
  workers.clear();
  talking.clear();
  compiles.clear();
  commits.clear();
  updates.clear();
  dispatcher = std::make_unique<DispatcherMachine>(
      options, term, std::move(records), now, [this](const Update& u) { updates.push_back(u); });
}

void Harness::Do(Actions actions) {
  for (Action& action : actions) {
    if (auto* a = std::get_if<SendAttach>(&action)) {
      attach[a->stream].push_back(std::move(a->message));
    } else if (auto* w = std::get_if<SendWork>(&action)) {
      work[w->stream].push_back(std::move(w->message));
    } else if (auto* c = std::get_if<CloseStream>(&action)) {
      closed.emplace(c->stream, c->status);
      workers.erase(c->stream);
    } else if (auto* p = std::get_if<CompilePlan>(&action)) {
      compiles.push_back(std::move(*p));
    } else if (auto* k = std::get_if<KeepMeasured>(&action)) {
      kept.push_back(std::move(k->measured));
    } else if (auto* f = std::get_if<FinishColumns>(&action)) {
      finishes.push_back(std::move(*f));
    } else if (auto* b = std::get_if<AbandonColumns>(&action)) {
      abandoned.push_back(std::move(b->set));
    } else if (auto* r = std::get_if<CommitRecord>(&action)) {
      commits.push_back(std::move(r->record));
    }
  }
  if (!hold_compiles && !compiles.empty()) AnswerCompiles();
  if (!hold_commits && !commits.empty()) AnswerCommits();
}

void Harness::AnswerCompiles() {
  while (!compiles.empty()) {
    const CompilePlan compile = compiles.front();
    compiles.pop_front();
    const std::string& yaml = compile.pipeline.yaml();
    if (const auto at = yaml.find("measures="); at != std::string::npos) {
      const std::string column = yaml.substr(at + 9, yaml.find('\n', at) - at - 9);
      if (!columns.contains(column)) {
        ColumnWant want = Want(column);
        want.measured = measured_before;
        Do(dispatcher->OnColumnsMissing(compile.key, want, now));
        continue;
      }
    }
    Do(dispatcher->OnPlanCompiled(compile.key, CompileFake(compile.pipeline), now));
  }
}

ColumnWant Harness::Want(const std::string& column) {
  ColumnWant want;
  want.set.set_dataset("stdlib");
  want.set.set_dataset_digest(DatasetDigest());
  want.set.set_operations(std::string(32, '7'));
  want.set.set_examples(1000);
  want.set.add_columns(column);
  return want;
}

std::vector<std::uint64_t> Harness::Measure(StreamId worker, std::size_t most) {
  std::vector<std::uint64_t> firsts;
  v1::WorkRequest report = workers.at(worker);
  for (const v1::MeasureTask& task : LastWork(worker).measure()) {
    for (const v1::ExampleRun& run : task.runs()) {
      const std::uint64_t end = run.first() + run.count();
      for (std::uint64_t first = run.first(); first < end && firsts.size() < most; first += 256) {
        v1::Measured& measured = *report.add_measured();
        *measured.mutable_set() = task.set();
        measured.mutable_run()->set_first(first);
        measured.mutable_run()->set_count(std::min<std::uint64_t>(256, end - first));
        v1::MeasuredColumn& column = *measured.add_columns();
        column.set_width(1);
        column.set_values(std::string(measured.run().count(), '5'));
        firsts.push_back(first);
      }
    }
  }
  Work(worker, report);
  return firsts;
}

void Harness::AnswerCommits() {
  while (!commits.empty()) {
    const v1::JobRecord record = commits.front();
    commits.pop_front();
    ++commits_done;
    if (store_error.ok()) disk[record.name()] = record;
    Do(dispatcher->OnRecordCommitted(record, store_error, now));
  }
}

StreamId Harness::Open(bool of_worker) {
  const StreamId stream = ++last_stream_;
  Do(dispatcher->OnStreamOpened(stream, of_worker, now, peer));
  return stream;
}

StreamId Harness::Attach(const v1::Hello& hello) {
  const StreamId stream = Open();
  v1::AttachRequest request;
  *request.mutable_hello() = hello;
  Send(stream, request);
  return stream;
}

void Harness::Send(StreamId stream, const v1::AttachRequest& request) {
  Do(dispatcher->OnAttach(stream, request, now));
}

void Harness::Report(StreamId stream, const v1::Report& report) {
  v1::AttachRequest request;
  *request.mutable_report() = report;
  Send(stream, request);
}

void Harness::ReportAt(StreamId stream, Position next) {
  v1::Report report;
  ToProto(next, report.mutable_next());
  Report(stream, report);
}

void Harness::Bye(StreamId stream) {
  v1::AttachRequest request;
  request.set_bye(true);
  Send(stream, request);
}

void Harness::Work(StreamId stream, const v1::WorkRequest& request) {
  Do(dispatcher->OnWork(stream, request, now));
}

void Harness::Break(StreamId stream) {
  workers.erase(stream);
  closed.emplace(stream, Cancelled("broken by the test"));
  Do(dispatcher->OnStreamClosed(stream, now));
}

void Harness::Advance(Duration d) {
  const Duration step = milliseconds(250);
  for (Duration passed{0}; passed < d; passed += step) {
    now.time = now.time + step;
    const auto reporting = workers;
    for (const auto& [stream, request] : reporting) Work(stream, request);
    for (const StreamId stream : talking) Send(stream, v1::AttachRequest());
    Do(dispatcher->OnTick(now));
  }
}

void Harness::Pause(Duration d) {
  now.time = now.time + d;
  Do(dispatcher->OnTick(now));
}

StreamId Harness::AddWorker(const std::string& name, const std::string& host_id,
                            const std::string& yaml) {
  v1::PipelineText pipeline;
  pipeline.set_yaml(yaml);
  const auto facts = CompileFake(pipeline).value();
  const StreamId stream = Open(true);
  v1::WorkRequest request;
  request.set_protocol(kProtocol);
  request.set_nonce((name + std::string(16, '.')).substr(0, 16));
  request.set_name(name);
  request.set_measuring(kMeasuringVersion);
  request.mutable_self()->set_address(name + ":7701");
  request.mutable_self()->set_host_id(host_id);
  for (const PlanDataset& dataset : facts->datasets()) {
    (*request.mutable_datasets())[dataset.id].set_digest(dataset.digest.ToHex());
  }
  v1::PlanState& plan = *request.add_plans();
  plan.set_fingerprint(facts->fingerprint().ToString());
  plan.set_phase(v1::READY);
  workers[stream] = request;
  Work(stream, request);
  return stream;
}

const v1::Welcome* Harness::WelcomeOn(StreamId stream) const {
  const auto it = attach.find(stream);
  if (it == attach.end()) return nullptr;
  for (auto m = it->second.rbegin(); m != it->second.rend(); ++m) {
    if (m->has_welcome()) return &m->welcome();
  }
  return nullptr;
}

std::string Harness::WhyOn(StreamId stream) const {
  std::string why;
  if (const auto it = attach.find(stream); it != attach.end()) {
    for (const auto& message : it->second) {
      if (message.has_waiting()) why = message.waiting().why();
    }
  }
  return why;
}

std::vector<v1::WorkerList> Harness::ListsOn(StreamId stream) const {
  std::vector<v1::WorkerList> lists;
  if (const auto it = attach.find(stream); it != attach.end()) {
    for (const auto& message : it->second) {
      if (message.has_list()) lists.push_back(message.list());
    }
  }
  return lists;
}

std::vector<std::string> Harness::ListOn(StreamId stream) const {
  std::vector<std::string> names;
  const std::vector<v1::WorkerList> lists = ListsOn(stream);
  if (lists.empty()) return names;
  for (const v1::WorkerRef& worker : lists.back().workers()) {
    names.push_back(worker.address().substr(0, worker.address().find(':')));
  }
  return names;
}

const v1::WorkResponse& Harness::LastWork(StreamId stream) const {
  const auto& messages = work.at(stream);
  const auto last = std::find_if(messages.rbegin(), messages.rend(),
                                 [](const auto& message) { return message.has_id(); });
  return *last;
}

Status Harness::ClosedWith(StreamId stream) const {
  const auto it = closed.find(stream);
  return it == closed.end() ? OkStatus() : it->second;
}

SessionId Harness::SessionOn(StreamId stream) const {
  for (const auto& message : attach.at(stream)) {
    if (message.has_waiting()) return SessionId(FromProto(message.waiting().session()));
    if (message.has_welcome()) return SessionId(FromProto(message.welcome().session()));
  }
  return {};
}

}  // namespace millrace::test
