#include "client/session/run/remote_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/base/protocol_limits.h"
#include "common/epoch/cursor.h"
#include "common/system/nonce.h"

namespace millrace {
namespace {

/// The name of a job that fetches one batch beside `job`. It begins with as much of `job` as there
/// is room for, and does not cut a UTF-8 character in two. Its end is unique.
std::string PeekJob(const std::string& job) {
  const std::string own = fmt::format("/peek-{}", Xxh3(MakeNonce()).ToHex());
  std::size_t kept = std::min(job.size(), kMaxNameBytes - own.size());
  const auto continues = [&job](std::size_t at) {
    return at < job.size() && (static_cast<unsigned char>(job[at]) & 0xc0) == 0x80;
  };
  while (kept > 0 && continues(kept)) --kept;
  return job.substr(0, kept) + own;
}

}  // namespace

Result<std::unique_ptr<RemoteReader>> RemoteReader::Create(const SessionOptions& options,
                                                           const SessionEnvironment& environment) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                            Session::Create(options, environment));
  return std::unique_ptr<RemoteReader>(new RemoteReader(options, environment, std::move(session)));
}

RemoteReader::RemoteReader(const SessionOptions& options, const SessionEnvironment& environment,
                           std::unique_ptr<Session> session)
    : options_(options), environment_(environment), session_(std::move(session)) {}

Status RemoteReader::Attach(const Interrupt& interrupt) { return session_->Attach(interrupt); }

Result<std::optional<Batch>> RemoteReader::Next(const Interrupt& interrupt) {
  return session_->Next(interrupt);
}

Result<Batch> RemoteReader::BatchAt(std::uint64_t epoch, std::uint64_t step,
                                    const Interrupt& interrupt) {
  if (cancelled_) return Cancelled("the session was cancelled");
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, StepArithmetic::Create(spec().steps));
  MILLRACE_ASSIGN_OR_RETURN(const Position at, steps.StepAt(epoch, step));
  SessionOptions peek = options_;
  peek.job = PeekJob(options_.job);
  peek.prefetch_bytes = 1;
  peek.cursor = Cursor{{{spec().order_fingerprint, at}}}.ToString();
  const Interrupt ended = [&] { return cancelled_ || (interrupt && interrupt()); };
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                            Session::Create(peek, environment_));
  MILLRACE_RETURN_IF_ERROR(session->Attach(ended));
  MILLRACE_ASSIGN_OR_RETURN(std::optional<Batch> batch, session->Next(ended));
  if (batch) return *std::move(batch);
  return Internal(fmt::format("no batch came of {}", at.ToString()));
}

Result<std::shared_ptr<const NamedTables>> RemoteReader::tables(const Interrupt& interrupt) {
  return session_->tables(interrupt);
}

void RemoteReader::Cancel() {
  cancelled_ = true;
  session_->Cancel();
}

}  // namespace millrace
