// Tensors that a pipeline defines, at workers and at consumers, against the batches of the same
// pipeline without them.

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/transport/convert/spans.h"
#include "tests/support/patience.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using test::TestCluster;
using Names = std::vector<std::string>;

std::vector<std::int64_t> Integers(const Batch& batch, const std::string& path) {
  const DeliveredTensor& tensor = *batch.Find(path);
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < tensor.bytes / DTypeSize(tensor.dtype); ++i) {
    values.push_back(tensor.ValueAt(i));
  }
  return values;
}

Names NamesOf(const Batch& batch) {
  Names names;
  for (const DeliveredTensor& tensor : batch.tensors()) names.push_back(tensor.path);
  return names;
}

/// A session whose pipeline is the cluster's with some more lines.
std::unique_ptr<Session> Connect(TestCluster& cluster, const std::string& lines,
                                 const std::string& job) {
  SessionOptions options = cluster.Options(0, 1);
  options.pipeline += lines;
  options.job = job;
  auto session = cluster.Connect(options, job);
  INFO((session.ok() ? "" : session.status().ToString()));
  REQUIRE(session.ok());
  return std::move(session).value();
}

/// Rows of `width` elements that begin with those that splits cut, and end with -1.
std::vector<std::int64_t> Padded(const std::vector<std::int64_t>& values,
                                 const std::vector<std::int64_t>& splits, std::int64_t width) {
  std::vector<std::int64_t> padded;
  for (std::size_t row = 0; row + 1 < splits.size(); ++row) {
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int64_t at = splits[row] + i;
      padded.push_back(at < splits[row + 1] ? values[static_cast<std::size_t>(at)] : -1);
    }
  }
  return padded;
}

TEST_CASE("tensors of a pipeline are delivered with the same values, wherever they are computed",
          "[cluster][tensors]") {
  const std::string at = GENERATE("", ", at: worker", ", at: consumer");
  TestCluster cluster;
  cluster.AddWorker("w0");
  cluster.AddWorker("w1");
  const auto plain = Connect(cluster, "", "plain");
  const auto session = Connect(cluster,
                               "tensors:\n  label: {cast: node_label, dtype: int32" + at +
                                   "}\n  hot: {one_hot: faithful, depth: 2" + at +
                                   "}\n  first: {slice: global_args, range: [0, 1]" + at +
                                   "}\noutput: [label, hot, first, edge_source, local_args]\n"
                                   "pad: {local_args: {value: -1, multiple: 4}}\n",
                               "computed");
  for (;;) {
    const std::optional<Batch> expected = plain->Next().value();
    const std::optional<Batch> batch = session->Next().value();
    REQUIRE(batch.has_value() == expected.has_value());
    if (!batch) break;
    CHECK(batch->info().example_ids == expected->info().example_ids);
    for (const char* const path :
         {"edge_source", "edge_target", "edge_label", "edge_splits", "node_splits"}) {
      CHECK(Integers(*batch, path) == Integers(*expected, path));
    }
    CHECK(batch->Find("tactic") == nullptr);
    CHECK(batch->Find("node_label") == nullptr);
    CHECK(Integers(*batch, "label") == Integers(*expected, "node_label"));
    CHECK(batch->Find("label")->splits == "node_splits");
    std::vector<std::int64_t> hot;
    for (const std::int64_t faithful : Integers(*expected, "faithful")) {
      hot.insert(hot.end(), {faithful == 0 ? 1 : 0, faithful == 1 ? 1 : 0});
    }
    CHECK(Integers(*batch, "hot") == hot);
    const std::vector<std::int64_t> splits = Integers(*expected, "args_splits");
    const DeliveredTensor& args = *batch->Find("local_args");
    REQUIRE(args.shape.size() == 2);
    CHECK(args.dtype == DType::kInt32);
    CHECK(args.shape[1] % 4 == 0);
    CHECK(Integers(*batch, "local_args") == Padded(Integers(*expected, "local_args"), splits,
                                                   static_cast<std::int64_t>(args.shape[1])));
    const std::vector<std::int64_t> lengths = Integers(*batch, "local_args.length");
    const std::vector<std::int64_t> firsts = Integers(*batch, "first_splits");
    const std::vector<std::int64_t> first = Integers(*batch, "first");
    const std::vector<std::int64_t> global_args = Integers(*expected, "global_args");
    for (std::size_t row = 0; row + 1 < splits.size(); ++row) {
      CHECK(lengths[row] == splits[row + 1] - splits[row]);
      REQUIRE(firsts[row + 1] - firsts[row] == (lengths[row] > 0 ? 1 : 0));
      if (lengths[row] == 0) continue;
      CHECK(first[static_cast<std::size_t>(firsts[row])] ==
            global_args[static_cast<std::size_t>(splits[row])]);
    }
    CHECK(NamesOf(*batch) == Names{"edge_source", "edge_target", "edge_label", "node_splits",
                                   "edge_splits", "local_args", "first", "first_splits", "hot",
                                   "label", "local_args.length"});
    Names described;
    for (const DeliveryTensor& tensor : session->spec().tensors) {
      described.push_back(tensor.packed.path);
    }
    CHECK(described == NamesOf(*batch));
  }
}

/// Collects the names of operations that each role has recorded, and what sessions are described
/// as.
class OperationReader final : public StreamHandler<v1::TraceChunk> {
 public:
  void OnMessage(v1::TraceChunk chunk) override {
    MutexLock lock(mutex_);
    if (chunk.began() != 0) began_ = true;
    for (std::size_t row = 0; row < SpanCount(chunk.spans()); ++row) {
      const Span span = SpanAt(chunk.spans(), row);
      if (span.kind != SpanKind::kOperation) continue;
      names_[chunk.process().role()].insert(std::string(NameOf(chunk.spans(), span)));
    }
    for (const v1::TraceSession& session : chunk.sessions()) {
      if (!session.datasets().empty()) {
        described_.insert(session.job() + " " + session.datasets(0) + " " + session.kinds(0));
      }
    }
    changed_.NotifyAll();
  }
  void OnWriteDone() override {}
  void OnClosed(const Status&) override {}

  void WaitForBegin() {
    MutexLock lock(mutex_);
    while (!began_) changed_.Wait(mutex_);
  }
  /// The names of the operations that `role` has recorded so far.
  std::set<std::string> Names(v1::TraceRole role) {
    MutexLock lock(mutex_);
    return names_[role];
  }
  /// "JOB DATASET KIND" of each session that is described.
  std::set<std::string> Described() {
    MutexLock lock(mutex_);
    return described_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool began_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::map<v1::TraceRole, std::set<std::string>> names_ MILLRACE_GUARDED_BY(mutex_);
  std::set<std::string> described_ MILLRACE_GUARDED_BY(mutex_);
};

TEST_CASE("status and trace name the operations of workers, and the trace those of consumers",
          "[cluster][tensors][trace]") {
  TestCluster cluster;
  cluster.AddWorker("w0");
  const auto reader = std::make_shared<OperationReader>();
  const auto trace = cluster.Trace(reader);
  reader->WaitForBegin();
  const auto session = Connect(cluster,
                               "tensors:\n"
                               "  label: {cast: node_label, dtype: float64, at: worker}\n"
                               "  hot: {one_hot: faithful, depth: 2, at: consumer}\n"
                               "output: [label, hot]\n",
                               "named");
  // Workers and consumers record nothing before they are asked to, which may take some epochs.
  const std::set<std::string> at_worker = {"tensors: cast"};
  const std::set<std::string> at_consumer = {"tensors: one_hot", "tensors: widen"};
  const auto end = std::chrono::steady_clock::now() + test::kPatience;
  while (std::chrono::steady_clock::now() < end) {
    while (session->Next().value()) {
    }
    if (reader->Names(v1::TRACE_WORKER) == at_worker &&
        reader->Names(v1::TRACE_CONSUMER) == at_consumer) {
      break;
    }
    REQUIRE(session->NextEpoch().value());
  }
  CHECK(reader->Names(v1::TRACE_WORKER) == at_worker);
  CHECK(reader->Names(v1::TRACE_CONSUMER) == at_consumer);
  CHECK(reader->Described() == std::set<std::string>{"named data coq"});
  std::set<std::string> stages;
  while (stages.empty() && std::chrono::steady_clock::now() < end) {
    const v1::ServiceStatus status = cluster.Status().value();
    for (const v1::StageSeconds& stage : status.workers(0).build()) {
      stages.insert(stage.stage());
      CHECK(stage.count() > 0);
    }
    std::this_thread::yield();
  }
  CHECK(stages == std::set<std::string>{"batch", "closure", "shuffle", "tensors: cast"});
}

TEST_CASE("a value that cannot be computed ends its session, and no other", "[cluster][tensors]") {
  const std::string at = GENERATE("worker", "consumer");
  TestCluster cluster;
  cluster.AddWorker("w0");
  const auto plain = Connect(cluster, "", "plain");
  const auto session = Connect(
      cluster, "tensors: {hot: {one_hot: node_label, depth: 1, at: " + at + "}}\noutput: [hot]\n",
      "refused");
  const Status failed = session->Next().status();
  CHECK(failed.code() == StatusCode::kDataLoss);
  CHECK_THAT(failed.message(), Catch::Contains("tensor hot: one_hot: expected numbers from -1"));
  CHECK_THAT(failed.message(), Catch::Contains("the values do not suit the pipeline"));
  while (plain->Next().value()) {
  }
}

}  // namespace
}  // namespace millrace
