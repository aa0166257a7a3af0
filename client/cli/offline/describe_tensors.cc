#include "client/cli/offline/describe_tensors.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "common/operands/operands.h"
#include "common/operations/device_form.h"
#include "common/operations/program.h"
#include "server/source/source.h"

namespace millrace::cli {
namespace {

/// A tensor that was computed, with its memory.
struct Computed {
  std::vector<std::uint64_t> words;
  std::vector<std::int64_t> splits;
  TensorType type;
  TensorView view;
};

bool Travels(const TensorPlan& plan, std::size_t node) {
  const std::vector<std::size_t>& transfer_cut = plan.transfer_cut().tensors;
  return std::find(transfer_cut.begin(), transfer_cut.end(), node) != transfer_cut.end();
}

/// What people call a node: something that only widens a source's tensor has that one's name.
std::string NodeName(const TensorNode& node) {
  return node.implicit ? node.name + " as int64" : node.name;
}

/// For each node, whether a consumer's device makes it, if the consumer has one: an output that is
/// made by devices needs it.
std::vector<bool> OnDevice(const TensorPlan& plan) {
  const TensorGraph& graph = plan.graph();
  const std::vector<bool> made = MadeByDevices(graph, plan.transfer_cut().tensors);
  std::vector<bool> needed(made.size(), false);
  for (const TensorOutput& output : graph.outputs()) {
    if (made[output.node]) needed[output.node] = true;
  }
  for (std::size_t node = needed.size(); node-- > 0;) {
    if (!needed[node] || Travels(plan, node)) continue;
    for (const std::size_t input : graph.nodes()[node].inputs) needed[input] = true;
  }
  return needed;
}

std::string PlaceOf(const TensorPlan& plan, std::size_t node, bool on_device) {
  const bool worker = plan.transfer_cut().at_worker[node];
  const bool consumer = plan.transfer_cut().at_consumer[node];
  if (Travels(plan, node)) return "worker, travels";
  if (worker && consumer) return "both";
  if (worker) return "worker";
  return on_device ? "consumer, device" : "consumer";
}

std::vector<std::string> InputsOf(const TensorPlan& plan, std::size_t node) {
  std::vector<std::string> inputs;
  for (const std::size_t input : plan.graph().nodes()[node].inputs) {
    inputs.push_back(NodeName(plan.graph().nodes()[input]));
  }
  return inputs;
}

/// Of each node: equal for equal values of equal data, whatever the names.
std::vector<std::string> Fingerprints(const TensorGraph& graph) {
  std::vector<std::string> prints;
  for (const TensorNode& node : graph.nodes()) {
    std::string text =
        node.operation == nullptr
            ? fmt::format("source={}\ntype={}\n", node.name, DescribeTensorType(node.type))
            : fmt::format("operation={}\nversion={}\n{}\n", node.operation->name,
                          node.operation->version, ParamsKey(node.params));
    for (const std::size_t input : node.inputs) text += fmt::format("input={}\n", prints[input]);
    prints.push_back(Xxh3(text).ToHex());
  }
  return prints;
}

std::optional<GraphPad> GraphPadOf(const TensorPlan& plan) {
  return plan.consumer() ? plan.consumer()->graph_pad : std::nullopt;
}

std::string DescribeSize(const GraphPad& pad) {
  return fmt::format("{} nodes, {} edges and {} graphs", pad.nodes, pad.edges, pad.graphs);
}

std::string Names(const std::vector<std::string>& names) {
  return names.empty() ? "-" : fmt::format("{}", fmt::join(names, ", "));
}

/// Computes one node of the inputs that it reads.
Status Compute(const TensorGraph& graph, std::size_t node, std::vector<Computed>& computed) {
  const std::vector<std::size_t>& inputs = graph.nodes()[node].inputs;
  std::vector<std::size_t> unique = inputs;
  std::sort(unique.begin(), unique.end());
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  std::vector<TensorView> views;
  for (const std::size_t input : unique) views.push_back(computed[input].view);
  const ProgramOutput output{node};
  const Program program = Program::Compile(graph, unique, std::span(&output, 1));
  Computed& made = computed[node];
  ProgramRun run;
  run.room = [&](std::size_t, const TensorView& view) -> Result<std::span<std::byte>> {
    made.type = *view.type;
    made.splits.assign(view.splits.begin(), view.splits.end());
    const std::size_t bytes = view.units() * view.type->UnitBytes();
    made.words.resize((bytes + 7) / 8);
    made.view = view;
    made.view.type = &made.type;
    made.view.splits = made.splits;
    made.view.values = {reinterpret_cast<const std::byte*>(made.words.data()), bytes};
    return std::span(reinterpret_cast<std::byte*>(made.words.data()), bytes);
  };
  ProgramMemory memory;
  return program.Run(views, run, memory);
}

}  // namespace

Result<std::vector<TensorCost>> MeasureTensors(const Plan& plan,
                                               std::span<const ExampleId> examples) {
  const Source& source = *plan.source();
  const TensorGraph& graph = plan.computed()->graph();
  BufferPool pool;
  MILLRACE_ASSIGN_OR_RETURN(BatchWriter writer,
                            BatchWriter::Create(source.tensors(), source.expand(), pool));
  writer.Begin(plan.facts().fingerprint(), 0, 0, static_cast<std::uint32_t>(examples.size()));
  MILLRACE_RETURN_IF_ERROR(source.NewReader()->Append(examples, writer));
  MILLRACE_RETURN_IF_ERROR(writer.CheckComplete());
  const std::vector<Operand> operands = OperandsOf(source.tensors());
  OperandViews views(source.tensors(), operands);
  const std::span<const TensorView> given = views.Of(writer);
  const double built = std::max<double>(1, static_cast<double>(writer.info().example_ids.size()));

  std::vector<Computed> computed(graph.nodes().size());
  std::vector<TensorCost> costs(graph.nodes().size());
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
    if (graph.nodes()[node].operation == nullptr) {
      const auto operand = std::find_if(operands.begin(), operands.end(), [&](const Operand& o) {
        return o.source.name == graph.nodes()[node].name;
      });
      computed[node].view = given[static_cast<std::size_t>(operand - operands.begin())];
    } else {
      // The first time takes memory from the system.
      MILLRACE_RETURN_IF_ERROR(Compute(graph, node, computed));
      const auto begin = std::chrono::steady_clock::now();
      MILLRACE_RETURN_IF_ERROR(Compute(graph, node, computed));
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - begin;
      costs[node].nanoseconds = took.count() / built;
    }
    costs[node].bytes = static_cast<double>(computed[node].view.values.size()) / built;
  }
  return costs;
}

std::string DescribeTensorPlan(const TensorPlan& plan, std::span<const TensorCost> costs) {
  const TensorGraph& graph = plan.graph();
  const std::vector<std::string> prints = Fingerprints(graph);
  const std::vector<bool> on_device = OnDevice(plan);
  std::string text =
      fmt::format("{:<18} {:<10} {:<24} {:<26} {:<16} {:>9} {:>9}  {}\n", "tensor", "operation",
                  "inputs", "type", "computed at", "bytes", "ns", "fingerprint");
  double travelling = 0;
  double delivered = 0;
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
    const TensorNode& made = graph.nodes()[node];
    const bool is_source = made.operation == nullptr;
    const std::string bytes = costs.empty() ? "" : fmt::format("{:.1f}", costs[node].bytes);
    const std::string time =
        costs.empty() || is_source ? "" : fmt::format("{:.0f}", costs[node].nanoseconds);
    text += fmt::format("{:<18} {:<10} {:<24} {:<26} {:<16} {:>9} {:>9}  {}\n", NodeName(made),
                        is_source ? "source" : made.operation->name, Names(InputsOf(plan, node)),
                        DescribeTensorType(made.type), PlaceOf(plan, node, on_device[node]), bytes,
                        time, prints[node]);
    if (!costs.empty() && Travels(plan, node)) travelling += costs[node].bytes;
  }
  std::vector<std::string> outputs;
  for (const TensorOutput& output : graph.outputs()) {
    outputs.push_back(output.pad ? output.name + " (padded)" : output.name);
    if (!costs.empty()) delivered += costs[output.node].bytes;
  }
  text += fmt::format("\noutputs        {}\n", Names(outputs));
  if (const auto pad = GraphPadOf(plan)) {
    text += fmt::format(
        "pad.graph      {} a batch; the edges, edge_mask, graph_mask and node_mask come too\n",
        DescribeSize(*pad));
  }
  text +=
      fmt::format("not computed   {}\n", graph.unused().empty() ? "none" : Names(graph.unused()));
  if (!costs.empty()) {
    text += fmt::format("bytes          {:.1f} travel for an example, {:.1f} are delivered\n",
                        travelling, delivered);
  }
  return text;
}

std::string TensorPlanDot(const TensorPlan& plan) {
  const TensorGraph& graph = plan.graph();
  std::string text = "digraph tensors {\n  rankdir=LR;\n  node [shape=box];\n";
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
    const TensorNode& made = graph.nodes()[node];
    const bool travels = Travels(plan, node);
    text += fmt::format("  n{} [label=\"{}\\n{}\\n{}\"{}];\n", node, NodeName(made),
                        made.operation == nullptr ? "source" : made.operation->name,
                        DescribeTensorType(made.type),
                        travels ? ", style=bold"
                                : (plan.transfer_cut().at_consumer[node] ? ", style=rounded" : ""));
    for (const std::size_t input : made.inputs) {
      text += fmt::format("  n{} -> n{};\n", input, node);
    }
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const TensorOutput& output = graph.outputs()[i];
    text += fmt::format("  o{} [label=\"{}\", shape=plaintext];\n  n{} -> o{} [style=dashed];\n", i,
                        output.name, output.node, i);
  }
  if (const auto pad = GraphPadOf(plan)) {
    text += fmt::format("  pad [label=\"pad.graph\\n{}\", style=rounded];\n", DescribeSize(*pad));
    for (const std::string_view mask : GraphPad::kMasks) {
      text += fmt::format("  {0} [label=\"{0}\", shape=plaintext];\n  pad -> {0} [style=dashed];\n",
                          mask);
    }
  }
  return text + "}\n";
}

}  // namespace millrace::cli
