// `millrace tune`: tells how workers and consumers have tuned themselves, and why.

#include <cstdio>
#include <memory>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/commands/connection.h"
#include "client/cli/top/tuning_text.h"

namespace millrace::cli {
namespace {

constexpr double kStorySeconds = 10;

struct TuneArguments {
  Connection connection;
  std::string job;
};

Status Explain(const TuneArguments& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Connector> connector,
                            Connect(options.connection));
  MILLRACE_ASSIGN_OR_RETURN(const v1::ServiceStatus status,
                            connector->GetStatus(options.connection.address, kStorySeconds));
  MILLRACE_ASSIGN_OR_RETURN(const std::string story, TuneStory(status, options.job));
  std::fputs(story.c_str(), stdout);
  return OkStatus();
}

}  // namespace

void AddTuneCommand(Tool& tool) {
  const auto options = std::make_shared<TuneArguments>();
  CommandLine& command =
      tool.Add("tune", "Tell how a job's consumers and the workers have tuned themselves, and why",
               "  millrace tune --explain train   # a job, as in millrace status\n",
               [options] { return Explain(*options); });
  command.AddOption("--explain", &options->job, "the job whose story is told")
      .Required()
      .TypeName("JOB");
  AddConnection(command, options->connection);
}

}  // namespace millrace::cli
