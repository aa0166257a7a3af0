// `millrace check-log`: compares delivery logs with the batches that one process builds without a
// server.

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "client/cli/command.h"
#include "client/cli/commands.h"
#include "client/cli/consume/batch_log.h"
#include "client/cli/numbers.h"
#include "client/cli/offline/offline.h"
#include "client/cli/progress.h"
#include "common/batch/batch.h"
#include "common/json/json.h"

namespace millrace::cli {
namespace {

struct CheckLogOptions {
  OfflineOptions offline;
  std::vector<std::string> logs;
  std::uint32_t world_size = 1;
  std::uint64_t epochs = 1;
  std::string from = "0:0";
};

using BatchKey = std::pair<std::uint64_t, std::uint64_t>;  // epoch, ordinal

/// Reads the lines of a log by their place. DataLoss if a line is not one of a delivery log, or if
/// a batch is in the logs twice.
Status ReadLog(const std::string& path, std::map<BatchKey, Json>& lines) {
  std::ifstream in(path);
  if (!in) return NotFound("log " + path + ": no such file, or not readable");
  std::string text;
  for (std::uint64_t number = 1; std::getline(in, text); ++number) {
    Result<Json> line = Json::Parse(text);
    const Json* const epoch = line.ok() ? line->Find("epoch") : nullptr;
    const Json* const ordinal = line.ok() ? line->Find("ordinal") : nullptr;
    if (epoch == nullptr || ordinal == nullptr || !epoch->is_unsigned() ||
        !ordinal->is_unsigned()) {
      return DataLoss(fmt::format("{}:{}: not a line of a delivery log", path, number));
    }
    const BatchKey key{epoch->AsUnsigned(), ordinal->AsUnsigned()};
    if (!lines.emplace(key, *std::move(line)).second) {
      return DataLoss(fmt::format("{}:{}: epoch {}, ordinal {} was delivered twice", path, number,
                                  key.first, key.second));
    }
  }
  return OkStatus();
}

struct Counters {
  std::uint64_t batches = 0;
  std::uint64_t delivered = 0;
  std::uint64_t dropped = 0;
};

/// How often an example may come in an epoch: once, or for each of its chunks, or as often as a mix
/// has it.
std::uint64_t TimesOf(const Plan& plan, std::uint64_t epoch, ExampleId id) {
  const Source& source = *plan.source();
  if (source.branches().empty()) return source.ChunksOf(id).count;
  return plan.PlacesOf(epoch, id).places.size();
}

/// Counts the line's examples. DataLoss if one of them came too often in this epoch.
Status CountExamples(const Json& line, const Plan& plan, std::uint64_t epoch,
                     std::vector<std::uint32_t>& seen, Counters& counters) {
  const auto count = [&](std::uint64_t id) {
    if (id >= seen.size()) seen.resize(id + 1);
    const std::uint64_t times = TimesOf(plan, epoch, ExampleId(id));
    if (++seen[id] <= times) return OkStatus();
    return times == 1 ? DataLoss(fmt::format("example {} came twice in an epoch", id))
                      : DataLoss(fmt::format("example {} came {} times in an epoch: expected {}",
                                             id, seen[id], times));
  };
  for (const Json& id : line["examples"].AsArray()) {
    MILLRACE_RETURN_IF_ERROR(count(id.AsUnsigned()));
    ++counters.delivered;
  }
  for (const Json& dropped : line["dropped"].AsArray()) {
    MILLRACE_RETURN_IF_ERROR(count(dropped.AsArray()[0].AsUnsigned()));
    ++counters.dropped;
  }
  ++counters.batches;
  return OkStatus();
}

/// Checks one epoch: every batch of it must be in the log, with the same hash and the same
/// examples.
Status CheckEpoch(const Plan& plan, const StepArithmetic& steps, Position from,
                  std::map<BatchKey, Json>& logged, BatchScratch& scratch, Progress& progress,
                  Counters& counters) {
  const std::uint64_t epoch = from.epoch;
  std::vector<std::uint32_t> seen;
  for (Position at = from; at.epoch == epoch; at = steps.Next(at)) {
    for (std::uint32_t rank = 0; rank < steps.options().world_size; ++rank) {
      MILLRACE_ASSIGN_OR_RETURN(const auto batch,
                                plan.Batch(epoch, steps.RankExamples(at, rank), scratch));
      MILLRACE_ASSIGN_OR_RETURN(
          const Json expected,
          Json::Parse(BatchLogLine(steps, at, rank, batch->payload_hash(), batch->info(),
                                   plan.source()->facts().drop_reasons)));
      const auto found = logged.find({epoch, steps.Ordinal(at, rank)});
      const std::string place =
          fmt::format("epoch {}, step {}, rank {}", epoch, steps.Step(at), rank);
      if (found == logged.end()) return DataLoss(place + ": was not delivered");
      if (found->second != expected) {
        return DataLoss(fmt::format("{}: delivered {}, expected {}", place, found->second.ToText(),
                                    expected.ToText()));
      }
      MILLRACE_RETURN_IF_ERROR(CountExamples(found->second, plan, epoch, seen, counters));
      progress.Add(batch->info().planned_examples);
      logged.erase(found);
    }
  }
  return OkStatus();
}

Status Run(const CheckLogOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(LocalPlans offline, OpenOffline(options.offline));
  MILLRACE_ASSIGN_OR_RETURN(const auto plan, offline.Compile());
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan->facts().Steps(options.world_size));
  MILLRACE_ASSIGN_OR_RETURN(const Position from, ParsePosition(options.from, 0));
  MILLRACE_ASSIGN_OR_RETURN(Position at, steps.Start(from));
  std::map<BatchKey, Json> logged;
  for (const std::string& log : options.logs) MILLRACE_RETURN_IF_ERROR(ReadLog(log, logged));

  const std::uint64_t end = from.epoch + options.epochs;
  Counters counters;
  const std::unique_ptr<BatchScratch> scratch = plan->NewScratch();
  {
    Progress progress("checking", "examples",
                      (end - at.epoch) * plan->planned_order().order->rows() - at.example);
    for (; at.epoch < end; at = {at.epoch + 1, 0}) {
      MILLRACE_RETURN_IF_ERROR(CheckEpoch(*plan, steps, at, logged, *scratch, progress, counters));
    }
  }
  if (!logged.empty()) {
    const auto& [key, line] = *logged.begin();
    return DataLoss(
        fmt::format("{} batches were delivered that are not in the epochs asked for; the "
                    "first is epoch {}, ordinal {}",
                    logged.size(), key.first, key.second));
  }
  const std::uint64_t left_out = steps.LeftOut();
  return PrintLine(fmt::format(
      "ok: {} batches equal, byte for byte; {} examples delivered, each {}; {} dropped "
      "with a reason; {} an epoch left out by `remainder: drop`",
      counters.batches, counters.delivered,
      plan->source()->branches().empty() ? "once an epoch" : "as often as the mix has it",
      counters.dropped, left_out));
}

}  // namespace

void AddCheckLogCommand(Tool& tool) {
  auto options = std::make_shared<CheckLogOptions>();
  CommandLine& command = tool.Add(
      "check-log", "Check that delivery logs hold every batch once, with the right bytes",
      "  millrace check-log train.yaml --dataset stdlib=/data/stdlib --world-size 2 --epochs 2 \\\n"
      "    --log rank0.jsonl --log rank1.jsonl\n",
      [options] { return Run(*options); });
  options->offline.AddTo(command);
  command.AddOption("--log", &options->logs, "a log of `millrace consume --log`; repeat for more")
      .Required();
  command.AddOption("--world-size", &options->world_size, "ranks of the job")
      .TypeName("W")
      .Check(WholeNumber(1, kMaxWorldSize));
  command.AddOption("--epochs", &options->epochs, "epochs that the logs hold")
      .TypeName("N")
      .Check(WholeNumber(1, StepArithmetic::kMaxEpoch));
  command.AddOption("--from", &options->from, "where the job began: E:N, N examples into epoch E");
}

}  // namespace millrace::cli
