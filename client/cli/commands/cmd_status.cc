// `millrace status` and `millrace jobs`: show what a running service does.

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/commands/connection.h"
#include "client/cli/numbers.h"
#include "client/cli/stop_signals.h"
#include "client/cli/top/status_table.h"
#include "common/transport/convert/status_json.h"

namespace millrace::cli {
namespace {

struct StatusArguments {
  Connection connection;
  std::string format = "table";
  bool watch = false;
  bool details = false;
  double period_seconds = 2;
  double timeout_seconds = 10;
  std::string job;
};

using Table = std::string (*)(const v1::ServiceStatus&);

/// The status in the format that the options name. With `one_line`, JSON takes one line, so that a
/// stream of statuses can be read.
Result<std::string> Format(const v1::ServiceStatus& status, const StatusArguments& options,
                           Table table, bool one_line) {
  if (options.format == "table") return table(status);
  MILLRACE_ASSIGN_OR_RETURN(std::string text, StatusJson(status, one_line));
  return one_line ? text + "\n" : text;
}

Status ShowOnce(const StatusArguments& options, Table table) {
  MILLRACE_ASSIGN_OR_RETURN(const auto connector, Connect(options.connection));
  MILLRACE_ASSIGN_OR_RETURN(
      const v1::ServiceStatus status,
      connector->GetStatus(options.connection.address, options.timeout_seconds));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, Format(status, options, table, false));
  std::fputs(text.c_str(), stdout);
  return OkStatus();
}

Status Watch(const StatusArguments& options, Table table) {
  std::stop_source stop;
  const StopSignals signals([&stop] { stop.request_stop(); });
  const char* const clear = isatty(STDOUT_FILENO) != 0 ? "\033[H\033[2J" : "";
  const auto print = [&](const v1::ServiceStatus& status) {
    const Result<std::string> text = Format(status, options, table, true);
    std::printf("%s%s", clear, text.ok() ? text->c_str() : text.status().message().c_str());
    std::fflush(stdout);
  };
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Connector> connector,
                            Connect(options.connection));
  const auto on_error = [](const Status& error) {
    if (!MayHelpToRetry(error)) return false;
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return true;
  };
  return WatchOn(*connector, options.connection.address, options.period_seconds, print, on_error,
                 stop.get_token());
}

Status Show(const StatusArguments& options, Table table) {
  return options.watch ? Watch(options, table) : ShowOnce(options, table);
}

Status EndJob(const StatusArguments& options) {
  v1::EndJobRequest request;
  request.set_job(options.job);
  MILLRACE_ASSIGN_OR_RETURN(const auto connector, Connect(options.connection));
  const Result<v1::EndJobResponse> response =
      connector->EndJob(options.connection.address, request, options.timeout_seconds);
  if (!response.ok()) return response.status();
  std::printf("job %s ended, %u session%s turned out\n", options.job.c_str(), response->sessions(),
              response->sessions() == 1 ? "" : "s");
  return OkStatus();
}

void AddShowOptions(CommandLine& command, StatusArguments& options) {
  AddConnection(command, options.connection);
  command.AddOption("--format", &options.format, "table or json")
      .OneOf({"table", "json"})
      .ShowDefault();
  command.AddFlag("--watch", options.watch, "again and again, until Ctrl-C");
  command.AddOption("--period", &options.period_seconds, "seconds between two looks")
      .Check(Seconds(0.1))
      .TypeName("SECONDS")
      .ShowDefault();
  command.AddOption("--timeout", &options.timeout_seconds, "seconds to wait for an answer")
      .Check(Seconds())
      .TypeName("SECONDS")
      .ShowDefault();
}

}  // namespace

void AddStatusCommand(Tool& tool) {
  const auto options = std::make_shared<StatusArguments>();
  CommandLine& command = tool.Add(
      "status", "Show datasets, jobs, workers and consumers",
      "  millrace status --address 127.0.0.1:7700 --watch\n"
      "  millrace status --details\n"
      "  millrace status --format json\n",
      [options] { return Show(*options, options->details ? &DetailedStatusTable : &StatusTable); });
  AddShowOptions(command, *options);
  command.AddFlag("--details", options->details,
                  "add what each consumer grants its workers, and which workers it avoids");
}

void AddJobsCommand(Tool& tool) {
  const auto options = std::make_shared<StatusArguments>();
  CommandLine& command = tool.Add(
      "jobs", "Show jobs, or end one",
      "  millrace jobs\n"
      "  millrace jobs end NAME   # turns a stuck trainer's sessions out\n",
      [options] { return options->job.empty() ? Show(*options, &JobsTable) : EndJob(*options); });
  AddShowOptions(command, *options);
  CommandLine& end = command.AddCommand("end", "End a job: all its sessions are turned out");
  end.AddOption("name", &options->job, "name of the job").Required().TypeName("NAME");
  end.FallThrough();  // allows --address after the name
}

}  // namespace millrace::cli
