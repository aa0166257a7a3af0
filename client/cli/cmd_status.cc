// `millrace status` and `millrace jobs`: what a running service does.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include "client/cli/commands.h"
#include "client/cli/status_table.h"
#include "client/cli/stop_signals.h"
#include "common/transport/grpc_client.h"

namespace millrace::cli {
namespace {

struct Options {
  std::string address = "127.0.0.1:7700";
  std::string format = "table";
  bool watch = false;
  double period_seconds = 2;
  double timeout_seconds = 10;
  std::string job;
};

Result<std::string> ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) {
    return Internal("the answer cannot be written as JSON");
  }
  return text;
}

Result<std::string> Ask(Connector& connector, const Options& options,
                        std::string (*table)(const v1::ServiceStatus&)) {
  Result<v1::ServiceStatus> status =
      connector.GetStatus(options.address, options.timeout_seconds);
  if (!status.ok()) {
    return status.status().WithContext("the dispatcher at " + options.address);
  }
  if (options.format == "json") return ToJson(*status);
  return table(*status);
}

Status Show(const Options& options, std::string (*table)(const v1::ServiceStatus&)) {
  const std::shared_ptr<Connector> connector = MakeGrpcConnector({});
  if (!options.watch) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, Ask(*connector, options, table));
    std::fputs(text.c_str(), stdout);
    return OkStatus();
  }
  std::atomic<bool> stopping{false};
  const StopSignals signals([&stopping] { stopping = true; });
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  auto due = std::chrono::steady_clock::now();
  while (!stopping) {
    // A dispatcher that is away for a while comes back: that is worth watching too.
    const Result<std::string> text = Ask(*connector, options, table);
    std::printf("%s%s\n", terminal ? "\033[H\033[2J" : "",
                text.ok() ? text->c_str() : text.status().message().c_str());
    std::fflush(stdout);
    due += std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(options.period_seconds));
    while (!stopping && std::chrono::steady_clock::now() < due) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  return OkStatus();
}

Status EndJob(const Options& options) {
  v1::EndJobRequest request;
  request.set_job(options.job);
  const Result<v1::EndJobResponse> response =
      MakeGrpcConnector({})->EndJob(options.address, request, options.timeout_seconds);
  if (!response.ok()) return response.status();
  std::printf("job %s ended, %u session%s turned out\n", options.job.c_str(), response->sessions(),
              response->sessions() == 1 ? "" : "s");
  return OkStatus();
}

void AddShowOptions(CLI::App* command, Options& options) {
  command->add_option("--address", options.address, "the dispatcher's control port")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command->add_option("--format", options.format, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  command->add_flag("--watch", options.watch, "again and again, until Ctrl-C");
  command->add_option("--period", options.period_seconds, "seconds between two looks")
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_option("--timeout", options.timeout_seconds, "seconds to wait for an answer")
      ->type_name("SECONDS")
      ->capture_default_str();
}

}  // namespace

void AddStatusCommand(Tool& tool) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = tool.Add("status", "Show datasets, jobs, workers and consumers",
                               "  millrace status --address 127.0.0.1:7700 --watch\n"
                               "  millrace status --format json\n",
                               [options] { return Show(*options, &StatusTable); });
  AddShowOptions(command, *options);
}

void AddJobsCommand(Tool& tool) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = tool.Add("jobs", "Show jobs, or end one",
                               "  millrace jobs\n"
                               "  millrace jobs end NAME   # turns a stuck trainer's sessions out\n",
                               [options] {
                                 return options->job.empty() ? Show(*options, &JobsTable)
                                                             : EndJob(*options);
                               });
  AddShowOptions(command, *options);
  CLI::App* end = command->add_subcommand("end", "End a job: all its sessions are turned out");
  end->add_option("name", options->job, "name of the job")->required()->type_name("NAME");
  end->fallthrough();  // so that --address may come after the name
}

}  // namespace millrace::cli
