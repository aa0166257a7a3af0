// `millrace where`: at which epoch, step, rank and row an example comes. No server, no search.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "client/cli/commands.h"
#include "client/cli/offline.h"
#include "server/pipeline/source.h"

namespace millrace::cli {
namespace {

struct WhereOptions {
  OfflineOptions offline;
  std::uint64_t example = 0;
  std::uint32_t world_size = 1;
  std::string epochs = "0";
  std::string from;
};

/// "A-B" or "A".
Result<std::pair<std::uint64_t, std::uint64_t>> ParseEpochs(const std::string& text) {
  const std::size_t dash = text.find('-');
  const Result<Position> first = ParsePosition(text.substr(0, dash), 0);
  const Result<Position> last =
      dash == std::string::npos ? first : ParsePosition(text.substr(dash + 1), 0);
  if (!first.ok() || !last.ok() || first->example > last->example) {
    return InvalidArgument(fmt::format("--epochs {}: expected A-B with A at most B", text));
  }
  return std::pair(first->example, last->example);
}

/// Why an epoch has the example not.
std::string WhyNot(const Plan& plan, ExampleId id) {
  return fmt::format(
      "example {} is in no epoch of this pipeline: its split label is {}, and it is of another "
      "part "
      "than split.take names or a filter leaves it out",
      id.value(), plan.SplitLabel(id));
}

Status RunWhere(const WhereOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const auto epochs, ParseEpochs(options.epochs));
  MILLRACE_ASSIGN_OR_RETURN(Offline offline, Offline::Open(options.offline));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, offline.Compile());
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan->Steps(options.world_size));
  const ExampleId id(options.example);
  if (id.value() >= plan->source()->examples()) {
    return OutOfRange(fmt::format("example {}: the plan numbers its examples from 0 to {}",
                                  id.value(), plan->source()->examples() - 1));
  }
  Position from{epochs.first, 0};
  if (!options.from.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(from, ParsePosition(options.from, epochs.first));
  }
  if (plan->PlaceOf(epochs.first, id) == Plan::kNoPlace) return NotFound(WhyNot(*plan, id));

  const ExampleDescription description = plan->source()->Describe(id);
  std::string line = fmt::format("example {}: {}", id.value(), description.definition);
  if (description.step) {
    line += fmt::format(", step {}, outcome {}", *description.step, *description.outcome);
  }
  MILLRACE_RETURN_IF_ERROR(PrintLine(fmt::format("{}, in {}", line, description.file)));
  MILLRACE_RETURN_IF_ERROR(PrintLine(fmt::format("{:>8} {:>10} {:>6} {:>6} {:>12} {:>12}", "epoch",
                                                 "step", "rank", "row", "position", "place")));
  for (std::uint64_t epoch = epochs.first; epoch <= epochs.second; ++epoch) {
    const std::uint64_t place = plan->PlaceOf(epoch, id);
    const Position begin{epoch, epoch == from.epoch ? from.example : 0};
    const std::optional<Location> at = steps.Locate(place, begin);
    if (at) {
      MILLRACE_RETURN_IF_ERROR(
          PrintLine(fmt::format("{:>8} {:>10} {:>6} {:>6} {:>12} {:>12}", epoch, at->step, at->rank,
                                at->row, at->position.example, place)));
    } else {
      MILLRACE_RETURN_IF_ERROR(
          PrintLine(fmt::format("{:>8} {} (place {})", epoch,
                                place < begin.example ? "not: it lies before the position given"
                                                      : "not: `remainder: drop` leaves it out",
                                place)));
    }
  }
  return OkStatus();
}

}  // namespace

void AddWhereCommand(Tool& tool) {
  const auto options = std::make_shared<WhereOptions>();
  CLI::App* command =
      tool.Add("where", "say at which epoch, step, rank and row an example comes",
               "  millrace where train.yaml --dataset stdlib=/data/stdlib --example 1234 "
               "--world-size 8 --epochs 0-9\n",
               [options] { return RunWhere(*options); });
  options->offline.AddTo(command);
  command->add_option("--example", options->example, "number of the example")
      ->required()
      ->type_name("N");
  command->add_option("--world-size", options->world_size, "ranks that share an epoch")
      ->type_name("W");
  command->add_option("--epochs", options->epochs, "epochs to look at")->type_name("A-B");
  command
      ->add_option("--from", options->from,
                   "position at which the steps begin: examples of the first epoch that come "
                   "before, or EPOCH:EXAMPLES")
      ->type_name("POSITION");
}

}  // namespace millrace::cli
