// The dispatcher's stream of a session: when it is opened, what comes on it before leases, when it
// is given up, and when a report goes out. What a report says is others' business.
//
//   connect   Hello goes; a dispatcher that is lost or silent is tried again, each of its addresses
//   waiting   the dispatcher says why it lets the session wait
//   welcome   the session is admitted: its plan and its steps are known from then on
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/session/machine/rank_steps.h"
#include "client/session/machine/session_context.h"
#include "client/session/machine/session_times.h"
#include "client/session/machine/worker_book.h"
#include "common/base/log.h"
#include "common/base/time.h"

namespace millrace::client {

class Attach {
 public:
  static constexpr Duration kReportApart = std::chrono::milliseconds(250);
  /// What a person should hear of where it lasts: waiting to attach, a dispatcher that is lost.
  static constexpr Duration kWarnAfter = std::chrono::seconds(5);

  /// `random` gives numbers in [0, 1), for reconnecting.
  Attach(SessionContext& context, std::function<double()> random);

  void Start(Time now);
  /// This process stood still for so long: that was no silence of the dispatcher.
  void StoodStill(Duration more);

  /// True where the message is of the present stream and its dispatcher leads: it is to be obeyed.
  bool OnMessage(StreamId stream, const v1::AttachResponse& message, Time now);
  /// Learns the workers that it names. Not ok: the session ends with that. REQUIRES: OnMessage has
  /// just said that its message is to be obeyed.
  Status OnWelcome(const v1::Welcome& welcome, WorkerBook& workers, Time now);
  /// A lease came: the session waits for the dispatcher no longer.
  void OnLeased();
  void OnWritten(StreamId stream);
  /// Not ok: the session ends with that, since trying again cannot help.
  Status OnClosed(StreamId stream, const Status& status, bool leaving, Time now);

  /// Gives a silent dispatcher up, and logs what lasts. Not ok: the session ends with that.
  Status CheckTimes(Time now);
  bool ConnectDue(Time now) const { return attach_.stream == 0 && now >= attach_.retry_at; }
  /// Says Hello on a new stream. `report`: where the session is admitted.
  void Connect(std::optional<v1::Report> report, Time now);
  /// `bye`: the session has ended, or is being left. `leases_run_short`: a report that asks for
  /// more does not wait for its turn.
  bool ReportDue(bool bye, bool leases_run_short, Time now) const;
  /// REQUIRES: ReportDue.
  void SendReport(bool bye, std::optional<v1::Report> report, Time now);
  void AddTimes(NextDue& next) const;
  /// What it knows, as text for people who look for a fault.
  std::string Dump(Time now) const;

  bool has_stream() const { return attach_.stream != 0; }
  /// The dispatcher's last word, on any stream.
  Time heard() const { return dispatcher_heard_; }
  std::uint64_t highest_term() const { return highest_term_; }
  /// As the dispatcher numbered it; unset before its first word.
  Number session() const { return session_; }
  /// Why the dispatcher lets the session wait.
  const std::string& waiting_why() const { return waiting_why_; }
  const std::optional<Admission>& admission() const { return admission_; }
  /// REQUIRES: admission().
  const RankSteps& steps() const { return *steps_; }

 private:
  struct Connection {
    StreamId stream = 0;
    bool writing = false;
    bool heard_any = false;
    bool bye_sent = false;
    Time heard;
    Time opened;
    Time retry_at;
    Duration pause{0};  // before it was opened
    int failures = 0;   // in a row, of streams that did not last
    Time lost;          // the first of them
    bool lost_long = false;
    std::size_t address = 0;  // of addresses_: the one that is tried, or has the stream
  };

  const std::string& address() const { return addresses_[attach_.address]; }
  void Disconnect(const Status& why, Time now);
  void StopWaiting();

  SessionContext& context_;
  const std::vector<std::string> addresses_;  // of dispatchers
  const std::function<double()> random_;

  Time started_;
  Connection attach_;
  Status last_attach_error_;
  Time dispatcher_heard_;
  Time reported_;
  std::uint64_t highest_term_ = 0;
  Number session_;

  std::string waiting_why_;
  Time waiting_why_since_;
  Time waiting_began_;
  std::string waiting_why_said_;  // in the log
  LogLevel waiting_said_at_ = LogLevel::kInfo;

  std::optional<Admission> admission_;
  std::optional<RankSteps> steps_;
};

}  // namespace millrace::client
