// `millrace consume`: reads a job's batches as a trainer would, and says how fast they came and
// what was waited for.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/consume/consumer_group.h"
#include "client/cli/numbers.h"
#include "client/cli/progress.h"
#include "client/cli/session_flags.h"
#include "client/cli/stop_signals.h"
#include "common/system/errno_status.h"
#include "common/system/stderr_logger.h"

namespace millrace::cli {
namespace {

struct Options {
  ConsumeOptions consume;
  std::string ranks = "all";
  std::optional<CommandOption> epochs;
  std::string cursor_out;
  bool quiet = false;
};

Result<std::vector<std::uint32_t>> ParseRanks(const std::string& text, std::uint32_t world_size) {
  std::vector<std::uint32_t> ranks;
  if (text == "all") {
    for (std::uint32_t rank = 0; rank < world_size; ++rank) ranks.push_back(rank);
    return ranks;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    if (one.empty() || one.size() > 9 || one.find_first_not_of("0123456789") != std::string::npos) {
      return InvalidArgument(fmt::format("--ranks {}: expected all, or numbers like 0,1", text));
    }
    const auto rank = static_cast<std::uint32_t>(std::stoul(one));
    if (rank >= world_size || std::count(ranks.begin(), ranks.end(), rank) != 0) {
      return InvalidArgument(
          fmt::format("--ranks {}: expected each of 0 to {} at most once", text, world_size - 1));
    }
    ranks.push_back(rank);
    begin = end + 1;
  }
  return ranks;
}

std::string Waits(const SessionStats& stats, double seconds) {
  std::string text = fmt::format("{:.2f} s ({:.0f} %)", stats.total_waited_seconds(),
                                 seconds > 0 ? 100 * stats.total_waited_seconds() / seconds : 0);
  const char* separator = ": ";
  for (std::size_t i = 1; i < kWaitCauses; ++i) {
    if (stats.waited_seconds[i] < 0.005) continue;
    text += fmt::format("{}{} {:.2f}", separator, WaitCauseName(static_cast<WaitCause>(i)),
                        stats.waited_seconds[i]);
    separator = ", ";
  }
  return text;
}

/// The cursor to go on from: where the rank that is furthest behind is.
const RankReport* Behind(const std::vector<RankReport>& reports) {
  const RankReport* behind = nullptr;
  for (const RankReport& report : reports) {
    if (!report.attached) continue;
    if (behind == nullptr || report.position < behind->position) behind = &report;
  }
  return behind;
}

void PrintSummary(const std::vector<RankReport>& reports) {
  SessionStats sum;
  double seconds = 0;
  for (const RankReport& report : reports) {
    sum.batches += report.stats.batches;
    sum.examples += report.stats.examples;
    sum.tokens += report.stats.tokens;
    sum.bytes += report.stats.bytes;
    sum.wire_bytes += report.stats.wire_bytes;
    sum.in_place += report.stats.in_place;
    if (report.attached) sum.drop_reasons = report.stats.drop_reasons;
    for (std::size_t i = 0; i < kDropReasons; ++i) {
      sum.dropped[i] += report.stats.dropped[i];
      sum.pieces_lost[i] += report.stats.pieces_lost[i];
    }
    sum.duplicates += report.stats.duplicates;
    sum.duplicate_mismatches += report.stats.duplicate_mismatches;
    seconds = std::max(seconds, report.seconds);
  }
  const double rate = seconds > 0 ? 1 / seconds : 0;
  std::printf("%s\n",
              fmt::format("{} batches, {} examples, {:.1f} MB in {:.2f} s: {:.0f} examples/s, "
                          "{:.1f} MB/s",
                          sum.batches, sum.examples, static_cast<double>(sum.bytes) / 1e6, seconds,
                          static_cast<double>(sum.examples) * rate,
                          static_cast<double>(sum.bytes) * rate / 1e6)
                  .c_str());
  if (sum.tokens > 0) {
    std::printf("%s\n", fmt::format("{} tokens: {:.0f} tokens/s", sum.tokens,
                                    static_cast<double>(sum.tokens) * rate)
                            .c_str());
  }
  if (sum.in_place > 0) {
    std::printf("%s\n", fmt::format("through shared memory: {} batches", sum.in_place).c_str());
  }
  if (sum.wire_bytes > 0 && sum.wire_bytes < sum.bytes) {
    std::printf("%s\n", fmt::format("over the network: {:.1f} MB, {:.0f} % of the batches' bytes",
                                    static_cast<double>(sum.wire_bytes) / 1e6,
                                    100 * static_cast<double>(sum.wire_bytes) /
                                        static_cast<double>(sum.bytes))
                            .c_str());
  }
  for (std::size_t i = 1; i < kDropReasons; ++i) {
    if (sum.dropped[i] == 0) continue;
    std::printf(
        "%s\n",
        fmt::format("dropped as {}: {}", sum.drop_reasons.NameOf(i), sum.dropped[i]).c_str());
  }
  for (std::size_t i = 1; i < kDropReasons; ++i) {
    if (sum.pieces_lost[i] == 0) continue;
    std::printf("%s\n", fmt::format("pieces of documents lost as {}: {}",
                                    sum.drop_reasons.NameOf(i), sum.pieces_lost[i])
                            .c_str());
  }
  if (sum.duplicates > 0) {
    std::printf("%s\n", fmt::format("copies of batches that came again: {}, of them different: {}",
                                    sum.duplicates, sum.duplicate_mismatches)
                            .c_str());
  }
  for (const RankReport& report : reports) {
    std::printf("%s\n", fmt::format("rank {}: {} batches, {} examples, waited {}", report.rank,
                                    report.stats.batches, report.stats.examples,
                                    Waits(report.stats, report.seconds))
                            .c_str());
  }
}

/// Steps that each rank will take, where that is known.
std::uint64_t ExpectedBatches(const ConsumeOptions& options, const BatchSpec& spec) {
  const Result<StepArithmetic> steps = StepArithmetic::Create(spec.steps);
  if (!steps.ok()) return 0;
  std::uint64_t batches = options.steps;
  if (options.session.epochs > 0) {
    const std::uint64_t all =
        steps->StepsFrom(spec.start.example) + (options.session.epochs - 1) * spec.steps_per_epoch;
    batches = batches == 0 ? all : std::min(batches, all);
  }
  return batches * options.ranks.size();
}

Status WriteCursor(const std::string& path, const std::string& cursor) {
  // Under another name first: where the disk is full the cursor of before is worth keeping.
  const std::string temporary = path + ".tmp";
  std::ofstream file(temporary);
  file << cursor << '\n';
  file.close();
  if (!file) return ErrnoStatus("cursor file " + temporary, errno);
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  return error ? ErrnoStatus("cursor file " + path, error.value()) : OkStatus();
}

Status RunConsume(Options options) {
  ConsumeOptions& consume = options.consume;
  SessionOptions& session = consume.session;
  MILLRACE_ASSIGN_OR_RETURN(consume.ranks, ParseRanks(options.ranks, session.world_size));
  session.logger =
      MakeStderrLogger("consume", options.quiet ? LogLevel::kError : LogLevel::kInfo, false);
  if (consume.steps == 0 && options.epochs->count() == 0) session.epochs = 1;

  std::atomic<ConsumerGroup*> running{nullptr};
  StopSignals signals([&running] {
    if (ConsumerGroup* group = running.load()) group->Cancel();
  });
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ConsumerGroup> group,
                            ConsumerGroup::Open(consume));
  running = group.get();
  if (signals.stopped()) group->Cancel();
  std::vector<RankReport> reports;
  {
    Progress progress("consuming", "batches", 0);
    std::atomic<std::uint64_t> examples{0};
    reports = group->Run(
        [&](const BatchSpec& spec) { progress.SetTotal(ExpectedBatches(consume, spec)); },
        [&](const Batch& batch) {
          examples += batch.examples();
          progress.Note(fmt::format("{} examples", examples.load()));
          progress.Add(1);
        });
  }
  running = nullptr;

  if (const RankReport* behind = Behind(reports)) {
    PrintSummary(reports);
    std::printf("cursor %s\n", behind->cursor.c_str());
    if (!options.cursor_out.empty()) {
      MILLRACE_RETURN_IF_ERROR(WriteCursor(options.cursor_out, behind->cursor));
    }
  }
  for (const RankReport& report : reports) {
    if (!report.status.ok() && report.status.code() != StatusCode::kCancelled) {
      return report.status.WithContext(fmt::format("rank {}", report.rank));
    }
  }
  return OkStatus();
}

}  // namespace

void AddConsumeCommand(Tool& tool) {
  const auto options = std::make_shared<Options>();
  SessionOptions& session = options->consume.session;
  session.job = "consume";
  CommandLine& command = tool.Add(
      "consume", "Read a job's batches as a trainer would, and say how fast they came",
      "  millrace consume train.yaml --address 127.0.0.1:7700 --job try --world-size 2\n"
      "  millrace consume train.yaml --job try --world-size 8 --ranks 0,1 --epochs 3\n"
      "  millrace consume train.yaml --job try --cursor \"$(cat cursor)\" --cursor-out cursor\n"
      "  millrace consume train.yaml --job try --log delivered.jsonl   # lines as of digest "
      "--epoch\n"
      "Several ranks are a thread and a session each. Ctrl-C ends them where they are.\n",
      [options] { return RunConsume(*options); });
  command.AddOption("pipeline", &session.pipeline_file, "the pipeline's YAML file")
      .Required()
      .TypeName("PIPELINE");
  AddSessionFlags(command, session);
  options->epochs = command.Find("--epochs")->Default("1, without --steps");
  command.AddOption("--ranks", &options->ranks, "ranks to read: all, or numbers like 0,1")
      .TypeName("RANKS")
      .ShowDefault();
  command.AddOption("--steps", &options->consume.steps, "batches of each rank, then stop")
      .TypeName("N")
      .Check(WholeNumber(1));
  command.AddOption("--cursor-out", &options->cursor_out, "file for the cursor at the end")
      .TypeName("FILE");
  command.AddOption("--out", &options->consume.out_dir, "folder for every batch in packed form")
      .TypeName("DIR");
  command.AddOption("--log", &options->consume.log_file, "file with a line for every batch")
      .TypeName("FILE");
  command
      .AddOption("--delay", &options->consume.delay_seconds,
                 "seconds to wait after each batch, as a training step takes")
      .TypeName("SECONDS")
      .Check(Seconds());
  command.AddFlag("--lockstep", options->consume.lockstep,
                  "no rank takes a batch before all have the one before");
  command.AddFlag("--quiet", options->quiet, "log errors only");
}

}  // namespace millrace::cli
