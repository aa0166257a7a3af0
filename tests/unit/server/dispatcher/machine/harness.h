// A dispatcher without network, disk and clock. Short calls bring it events, and its actions are
// kept for the test to look at. Compilations and commits are answered at once, unless the test
// holds them back.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/dispatcher/machine/dispatcher_machine.h"
#include "server/plan/facts/plan_facts.h"

namespace millrace::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Makes the facts of a pipeline whose text has `key=value` lines: examples, size or global_size,
/// keep, dataset (`dataset=a,b`: both), branches (`branches=x:a:7:49,…`: branch x over dataset a
/// has weight 7 and 49 examples), tokens (the token tensor). InvalidArgument if there is a line
/// `error=…`, Unavailable if there is `later=…`. `contents` stands for the data of datasets, by id;
/// without it, the id does.
Result<std::shared_ptr<const PlanFacts>> CompileFake(
    const v1::PipelineText& pipeline, const std::map<std::string, std::string>& contents = {});

/// "examples=80\nsize=4\n", followed by `more`.
std::string Yaml(const std::string& more = "");

/// The digest that CompileFake gives a dataset with these contents.
std::string DatasetDigest(const std::string& contents = "stdlib");

/// The digest that stands for several datasets in a fingerprint; of one, its own.
Digest128 JointDigest(const std::vector<Digest128>& digests);

/// The texts between the separators of a text.
std::vector<std::string> SplitAt(const std::string& text, char separator);

struct HelloOptions {
  std::string job = "x";
  std::uint32_t rank = 0;
  std::uint32_t world_size = 2;
  std::string yaml = Yaml();
  Position start;
  std::string where = "host7:4121";
  std::string host_id = "h7";
  char nonce = 'a';  // 16 times
  std::uint32_t epochs = 0;
  bool any_start = false;
  std::uint32_t replica = 0;
};
v1::Hello MakeHello(const HelloOptions& options);

class Harness {
 public:
  explicit Harness(DispatcherOptions options = {}, std::uint64_t term = 100,
                   std::vector<v1::JobRecord> records = {});

  // Events.
  StreamId Open(bool of_worker = false);
  StreamId Attach(const v1::Hello& hello);
  StreamId Attach(const HelloOptions& hello) { return Attach(MakeHello(hello)); }
  void Send(StreamId stream, const v1::AttachRequest& request);
  void Report(StreamId stream, const v1::Report& report);
  /// Sends a report that says only where the loop is.
  void ReportAt(StreamId stream, Position next);
  void Bye(StreamId stream);
  void Work(StreamId stream, const v1::WorkRequest& request);
  void Break(StreamId stream);
  /// Lets time pass, with ticks. Meanwhile the workers of AddWorker report, and the sessions in
  /// `talking` are heard.
  void Advance(Duration d);
  /// Lets time pass while the dispatcher stands still.
  void Pause(Duration d);
  /// Adds a worker that is ready for the plan of `yaml` and keeps reporting.
  StreamId AddWorker(const std::string& name, const std::string& host_id = "w",
                     const std::string& yaml = Yaml());
  void StopWorker(StreamId stream) { workers.erase(stream); }

  /// Lets a worker of AddWorker send values of 1 byte for all that it was told to measure, at most
  /// `most` ranges. Returns the first examples of the ranges.
  std::vector<std::uint64_t> Measure(StreamId worker, std::size_t most = 1000);
  /// What a plan lacks whose text has a line `measures=NAME`: 1,000 examples of the dataset stdlib.
  static ColumnWant Want(const std::string& column);

  void AnswerCompiles();
  void AnswerCommits();
  void Do(Actions actions);
  /// Starts a dispatcher of the next term with the records on disk. All streams are gone.
  void Restart();

  // Results.
  /// The last welcome; nullptr if there is none.
  const v1::Welcome* WelcomeOn(StreamId stream) const;
  std::string WhyOn(StreamId stream) const;
  /// The lists that came on a stream, the oldest first.
  std::vector<v1::WorkerList> ListsOn(StreamId stream) const;
  /// The names of the last one's workers, as AddWorker gave them, in order.
  std::vector<std::string> ListOn(StreamId stream) const;
  Status ClosedWith(StreamId stream) const;
  bool IsOpen(StreamId stream) const { return !closed.contains(stream); }
  SessionId SessionOn(StreamId stream) const;
  /// The last message that was more than a heartbeat.
  const v1::WorkResponse& LastWork(StreamId stream) const;

  DispatcherOptions options;
  Moment now{Time{seconds(1000)}, 1'700'000'000};
  std::vector<Update> updates;
  std::unique_ptr<DispatcherMachine> dispatcher;
  std::map<StreamId, std::vector<v1::AttachResponse>> attach;
  std::map<StreamId, std::vector<v1::WorkResponse>> work;
  std::map<StreamId, Status> closed;
  std::map<StreamId, v1::WorkRequest> workers;
  std::vector<StreamId> talking;
  std::deque<CompilePlan> compiles;
  std::vector<v1::Measured> kept;
  std::vector<FinishColumns> finishes;
  std::vector<v1::ColumnSet> abandoned;
  std::set<std::string> columns;               // that plans do not lack any more
  std::vector<std::uint64_t> measured_before;  // ranges
  std::deque<v1::JobRecord> commits;
  std::map<std::string, v1::JobRecord> disk;
  std::uint64_t commits_done = 0;
  std::string peer;  // the name that peers of new streams have proved
  bool hold_compiles = false;
  bool hold_commits = false;
  Status store_error;

 private:
  StreamId last_stream_ = 0;
};

}  // namespace millrace::test
