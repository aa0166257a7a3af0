// A session's stream to the dispatcher. This component decides when the stream is opened and given
// up, and when a report goes out. It handles the messages that come before lists. Other components
// decide what a report says.
//
//   connect   Hello is sent. If the dispatcher is lost or silent, the session tries again, at each
//             of its addresses in turn.
//   waiting   The dispatcher says why the session has to wait.
//   welcome   The session is admitted. Its plan and its steps are known from then on.
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
#include "common/base/log.h"
#include "common/base/time.h"

namespace millrace::client {

class Attach {
 public:
  static constexpr Duration kReportApart = std::chrono::milliseconds(250);
  /// A warning is logged if the session has waited to attach, or has lost the dispatcher, for this
  /// long.
  static constexpr Duration kWarnAfter = std::chrono::seconds(5);

  /// `random` returns numbers in [0, 1), which spread the pauses before reconnecting.
  Attach(SessionContext& context, std::function<double()> random);

  void Start(Time now);
  /// This process stood still for `more`. That time does not count as silence of the dispatcher.
  void StoodStill(Duration more);

  /// True if the message came on the present stream, from a dispatcher that leads. Only such a
  /// message is obeyed.
  bool OnMessage(StreamId stream, const v1::AttachResponse& message, Time now);
  /// An error ends the session. REQUIRES: OnMessage has just returned true for the message of this
  /// Welcome.
  Status OnWelcome(const v1::Welcome& welcome, Time now);
  /// A list with workers came, so the session no longer waits for one.
  void OnMembers();
  void OnWritten(StreamId stream);
  /// An error ends the session, since another attempt cannot help.
  Status OnClosed(StreamId stream, const Status& status, bool leaving, Time now);

  /// Gives up a silent dispatcher, and logs waits that last. An error ends the session.
  Status CheckTimes(Time now);
  bool ConnectDue(Time now) const { return attach_.stream == 0 && now >= attach_.retry_at; }
  /// Says Hello on a new stream. `report` is set if the session is admitted.
  void Connect(std::optional<v1::Report> report, Time now);
  /// Whether a report should be sent now. `bye`: the session has ended, or its user leaves it.
  bool ReportDue(bool bye, Time now) const;
  /// REQUIRES: ReportDue. `error`: why the session ended by itself, with bye; empty: it did not.
  void SendReport(bool bye, std::optional<v1::Report> report, const std::string& error, Time now);
  void AddTimes(NextDue& next) const;
  /// The state of this component as text, for people who look for a fault.
  std::string Dump(Time now) const;

  bool has_stream() const { return attach_.stream != 0; }
  /// When the dispatcher last said something, on any stream.
  Time heard() const { return dispatcher_heard_; }
  std::uint64_t highest_term() const { return highest_term_; }
  /// The session's number, which the dispatcher gives. Unset until the first Waiting or Welcome.
  SessionId session() const { return session_; }
  /// Why the dispatcher lets the session wait; empty if it does not wait.
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
    Duration pause{0};  // pause before this stream was opened
    int failures = 0;   // number of streams in a row that did not last
    Time lost;          // when the first of them failed
    bool lost_long = false;
    std::size_t address = 0;  // index in addresses_: the one of the stream, or the next to try
  };

  const std::string& address() const { return addresses_[attach_.address]; }
  void Disconnect(const Status& why, Time now);
  void StopWaiting();

  SessionContext& context_;
  const std::vector<std::string> addresses_;  // of all dispatchers
  const std::function<double()> random_;

  Time started_;
  Connection attach_;
  Status last_attach_error_;
  Time dispatcher_heard_;
  Time reported_;
  std::uint64_t highest_term_ = 0;
  SessionId session_;

  std::string waiting_why_;
  Time waiting_why_since_;
  Time waiting_began_;
  std::string waiting_why_said_;  // the last reason that was logged
  LogLevel waiting_said_at_ = LogLevel::kInfo;

  std::optional<Admission> admission_;
  std::optional<RankSteps> steps_;
};

}  // namespace millrace::client
