// Batches of graphs that `pad.graph` pads, through a whole cluster, against the batches of the same
// pipeline without it.

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/device/slot_device.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "tests/support/host_accelerator.h"
#include "tests/support/number_kind.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using test::TestCluster;
using Names = std::vector<std::string>;

std::unique_ptr<Session> ConnectTo(TestCluster& cluster, const std::string& lines,
                                   const std::string& job, std::uint32_t micro = 1,
                                   std::shared_ptr<Device> device = nullptr) {
  SessionOptions options = cluster.Options(0, 1);
  options.pipeline += lines;
  options.job = job;
  options.micro = micro;
  auto session = cluster.Connect(options, job, std::move(device));
  INFO((session.ok() ? "" : session.status().ToString()));
  REQUIRE(session.ok());
  return std::move(session).value();
}

/// How often a mask is true, which it is at the beginning only.
std::uint64_t Ones(const Batch& batch, const std::string& mask) {
  const auto values = batch.Find(mask)->values<std::uint8_t>();
  const auto end = std::find(values.begin(), values.end(), 0);
  CHECK(std::count(end, values.end(), 1) == 0);
  return static_cast<std::uint64_t>(end - values.begin());
}

/// Whether `padded` begins with the values of `own`.
bool BeginsWith(const DeliveredTensor& padded, const DeliveredTensor& own) {
  return padded.dtype == own.dtype && padded.bytes >= own.bytes &&
         std::memcmp(padded.data, own.data, own.bytes) == 0;
}

/// Compares a padded batch with the same one without padding.
void CheckPadded(const Batch& padded, const Batch& own, const GraphPad& pad, const Names& added) {
  CHECK(padded.info().example_ids == own.info().example_ids);
  const DeliveredTensor& nodes = *own.Find("node_splits");
  CHECK(Ones(padded, "node_mask") == static_cast<std::uint64_t>(nodes.ValueAt(nodes.shape[0] - 1)));
  CHECK(Ones(padded, "edge_mask") == own.Find("edge_source")->shape[0]);
  CHECK(Ones(padded, "graph_mask") == own.examples());
  for (const DeliveredTensor& tensor : padded.tensors()) {
    INFO(tensor.path);
    if (tensor.kind == TensorKind::kSplits) {
      CHECK(tensor.shape[0] == pad.graphs + 1);
    } else if (tensor.splits.empty()) {
      CHECK(tensor.shape[0] == pad.graphs);
    } else if (tensor.splits == "node_splits") {
      CHECK(tensor.shape[0] == pad.nodes);
    } else if (tensor.splits == "edge_splits") {
      CHECK(tensor.shape[0] == pad.edges);
    }
    if (std::find(added.begin(), added.end(), tensor.path) == added.end()) {
      CHECK(BeginsWith(tensor, *own.Find(tensor.path)));
    }
  }
}

const std::string kProofs =
    "tensors:\n"
    "  label: {cast: node_label, dtype: float32, at: AT}\n"
    "  hot: {one_hot: faithful, depth: 2, at: AT}\n"
    "  first: {slice: global_args, range: [0, 1], at: AT}\n"
    "output: [label, hot, first, node_label, edge_source, local_args, root, local_context]\n";

std::string AtPlace(std::string lines, const std::string& place) {
  for (std::size_t at = lines.find("AT}"); at != std::string::npos; at = lines.find("AT}")) {
    lines.replace(at, 2, place);
  }
  return lines;
}

TEST_CASE("every batch of a pipeline with pad.graph has one shape, wherever it is computed",
          "[cluster][graph_padding]") {
  const std::string lines = AtPlace(kProofs, GENERATE("worker", "consumer"));
  const std::uint32_t micro = GENERATE(1u, 3u);
  const GraphPad pad{4096, 16384, 40};
  TestCluster cluster;
  cluster.AddWorker("w0");
  cluster.AddWorker("w1");
  const auto plain = ConnectTo(cluster, lines, "plain", micro);
  const auto session = ConnectTo(
      cluster, lines + "pad: {graph: {nodes: 4096, edges: 16384, graphs: 40}}\n", "padded", micro);
  CHECK(session->spec().graph_pad == pad);
  CHECK_FALSE(plain->spec().graph_pad.has_value());
  Names described;
  for (const DeliveryTensor& tensor : session->spec().tensors) {
    described.push_back(tensor.packed.path);
    CHECK(tensor.rows.has_value() ==
          (tensor.packed.path != "first" && tensor.packed.path != "local_args" &&
           tensor.packed.path != "local_context"));
  }
  CHECK(described == Names{"node_label", "edge_source", "edge_target", "edge_label", "node_splits",
                           "edge_splits", "root", "local_context", "local_context_splits",
                           "local_args", "args_splits", "edge_mask", "first", "first_splits",
                           "graph_mask", "hot", "label", "node_mask"});
  for (;;) {
    const std::optional<Batch> own = plain->Next().value();
    const std::optional<Batch> batch = session->Next().value();
    REQUIRE(batch.has_value() == own.has_value());
    if (!batch) break;
    REQUIRE(batch->parts() == micro);
    for (std::uint32_t index = 0; index < micro; ++index) {
      CheckPadded(batch->Part(index), own->Part(index), pad,
                  {"edge_mask", "graph_mask", "node_mask"});
    }
  }
}

/// A graph of 1000 nodes with 3 features each.
test::TestDataset SomeGraph(const std::string& lines) {
  return {.kinds = ProductKinds(),
          .write =
              [](const std::filesystem::path& dir) {
                GraphGeneratorReport report;
                REQUIRE(GenerateGraph(dir, {.nodes = 1000, .features = 3}, &report).ok());
              },
          .pipeline =
              "millrace: 1\ndataset: data\nsource: {roots: train}\nshuffle: {seed: 3}\n"
              "closure: {max_subgraph_size: 20}\nfeatures: [x]\ntargets: [y]\n"
              "batch: {size: 8, remainder: keep}\n" +
              lines};
}

TEST_CASE("a graph dataset is padded too", "[cluster][graph_padding]") {
  TestCluster cluster(SomeGraph(""));
  cluster.AddWorker("one");
  const auto plain = ConnectTo(cluster, "", "plain");
  const auto session =
      ConnectTo(cluster, "pad.graph: {nodes: 161, edges: 4000, graphs: 9}\n", "padded");
  std::uint64_t graphs = 0;
  while (const auto batch = session->Next().value()) {
    CheckPadded(*batch, plain->Next().value().value(), {161, 4000, 9},
                {"edge_mask", "graph_mask", "node_mask"});
    graphs += batch->examples();
  }
  CHECK(graphs == 100);
}

TEST_CASE("a session on a device gets the padded batches of one on the host, in their order",
          "[cluster][graph_padding][tensors]") {
  // The device computes `hot`, `small` and `turned`; its host computes `mixed` and `wide`.
  TestCluster cluster(
      SomeGraph("tensors:\n"
                "  hot: {one_hot: target/y, depth: 16, dtype: float32, at: consumer}\n"
                "  mixed: {concat: [node_feature/x, turned], at: consumer}\n"
                "  small: {cast: node_feature/x, scale: [2, 3, 4], dtype: int16, at: consumer}\n"
                "  turned: {take: node_feature/x, index: [2, 0], at: consumer}\n"
                "  wide: {expr: 'target.y * 2', at: consumer}\n"
                "output: [hot, mixed, node, node_feature/x, small, turned, wide]\n"
                "pad: {graph: {nodes: 161, edges: 4000, graphs: 9}}\n"));
  cluster.AddWorker("one");
  const std::uint32_t micro = GENERATE(1u, 3u);
  const auto on_host = ConnectTo(cluster, "", "on_host", micro);
  const auto device = MakeSlotDevice(std::make_shared<HostAccelerator>());
  const auto session = ConnectTo(cluster, "", "on_device", micro, device);
  Names described;
  for (const DeliveryTensor& tensor : session->spec().tensors) {
    described.push_back(tensor.packed.path);
  }
  std::uint64_t graphs = 0;
  while (const auto batch = session->Next().value()) {
    const Batch expected = on_host->Next().value().value();
    for (std::uint32_t index = 0; index < micro; ++index) {
      graphs += batch->Part(index).examples();
      const std::span<const DeliveredTensor> got = batch->Part(index).tensors();
      const std::span<const DeliveredTensor> want = expected.Part(index).tensors();
      REQUIRE(got.size() == described.size());
      REQUIRE(got.size() == want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        INFO(want[i].path);
        CHECK(got[i].path == described[i]);
        CHECK(got[i].path == want[i].path);
        CHECK(got[i].shape == want[i].shape);
        CHECK(BeginsWith(got[i], want[i]));
      }
    }
  }
  CHECK(graphs == 100);
  CHECK(
      std::is_sorted(std::find(described.begin(), described.end(), "edge_mask"), described.end()));
  CHECK(std::count(described.begin(), described.end(), "hot") == 1);
  CHECK_THAT(session->stats().device, Catch::Contains("; the host computes mixed, wide"));
}

TEST_CASE("a batch that does not fit pad.graph ends its session, and no other",
          "[cluster][graph_padding]") {
  TestCluster cluster;
  cluster.AddWorker("w0");
  const auto plain = ConnectTo(cluster, "", "plain");
  const auto session =
      ConnectTo(cluster, "pad: {graph: {nodes: 10, edges: 16384, graphs: 40}}\n", "refused");
  const Status failed = session->Next().status();
  CHECK(failed.code() == StatusCode::kDataLoss);
  CHECK_THAT(failed.message(), Catch::StartsWith("pad.graph: the batch of epoch 0 from place 0 on "
                                                 "does not fit: it has "));
  while (plain->Next().value()) {
  }
}

TEST_CASE("a source without a graph refuses pad.graph with the place", "[cluster][graph_padding]") {
  TestCluster cluster(test::TestDataset{
      .kinds = ProductKinds().With(test::MakeNumberKind()),
      .write = [](const std::filesystem::path& dir) { test::WriteNumbers(dir, 50); },
      .pipeline = "millrace: 1\ndataset: data\nsource: numbers\nbatch: {size: 8}\n"
                  "pad:\n  graph: {nodes: 9, edges: 9, graphs: 9}\n"});
  cluster.AddWorker("one");
  const auto session = cluster.Connect(cluster.Options(0, 1), "rank-0");
  REQUIRE_FALSE(session.ok());
  CHECK_THAT(session.status().message(),
             Catch::Contains(":6:3: pad.graph: the source's examples have no edges, so there is no "
                             "graph to pad; expected a source of graphs"));
}

}  // namespace
}  // namespace millrace
