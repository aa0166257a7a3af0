// A session and its dispatcher.
#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

TEST_CASE("a session says hello first and reports at once when it is welcome",
          "[session][attach]") {
  Machine m;
  const auto hello = m.TakeLast<SendAttach>();
  REQUIRE(hello);
  CHECK(hello->message.hello().job() == "j");
  CHECK_FALSE(hello->message.hello().admitted());
  CHECK_FALSE(hello->message.has_report());
  m.Welcome();
  const auto report = m.TakeLast<SendAttach>();
  REQUIRE(report);
  CHECK(report->message.report().has_next());
  CHECK_FALSE(report->message.has_hello());
}

TEST_CASE("reports in turn come at most four times and at least once a second",
          "[session][attach]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  m.Take<SendAttach>();
  m.state->OnAttachWritten(m.attach, m.now);
  int reports = 0;
  for (int i = 0; i < 10; ++i) {  // something changes every 100 ms
    m.Pass(100 * kMs);
    m.Heartbeat();
    if (i < 8) m.Arrive(worker, static_cast<std::uint64_t>(i));
    for (const auto& send : m.Take<SendAttach>()) {
      ++reports;
      m.state->OnAttachWritten(send.stream, m.now);
    }
  }
  CHECK(reports >= 2);
  CHECK(reports <= 4);
  m.PassAttached(kSecond);
  reports = 0;
  for (int i = 0; i < 30; ++i) {  // nothing changes
    m.Pass(100 * kMs);
    m.Heartbeat();
    for (const auto& send : m.Take<SendAttach>()) {
      ++reports;
      m.state->OnAttachWritten(send.stream, m.now);
    }
  }
  CHECK(reports == 3);
}

TEST_CASE("a report is not written while another write is outstanding", "[session][attach]") {
  Machine m;
  m.Welcome();
  // Hello, and a report whose write is never acknowledged.
  REQUIRE(m.Take<SendAttach>().size() == 2);
  for (int i = 0; i < 20; ++i) {
    m.Pass(100 * kMs);
    m.Heartbeat();
  }
  CHECK(m.Take<SendAttach>().empty());
}

TEST_CASE(
    "a broken dispatcher stream is opened again with the session's number, its first start and "
    "a report",
    "[session][attach]") {
  Machine::Options options;
  options.start = {2, 30};
  Machine m(options);
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 4});
  REQUIRE(m.Arrive(worker, 0) == Verdict::kTaken);
  m.TakeBatch();
  m.Take<SendAttach>();
  m.state->OnAttachClosed(m.attach, Unavailable("gone"), m.now);
  CHECK(m.Take<OpenAttach>().empty());  // not before some time has passed
  m.Pass(kSecond);
  const auto hello = m.TakeLast<SendAttach>();
  REQUIRE(hello);
  CHECK(hello->message.hello().session().n() == 1);
  CHECK(hello->message.hello().admitted());
  CHECK(hello->message.hello().highest_term() == 10);
  CHECK(FromProto(hello->message.hello().start()) == Position{2, 30});
  REQUIRE(hello->message.has_report());
  CHECK(FromProto(hello->message.report().next()) == Position{2, 40});
  CHECK(hello->message.report().asked() == 4);
  CHECK(m.state->status().ok());
}

/// The seconds from the end of a stream to the next stream.
double PauseAfter(Machine& m, StreamId stream, const std::string& why) {
  const Time broke = m.now;
  m.state->OnAttachClosed(stream, Unavailable(why), m.now);
  m.Take<SendAttach>();
  while (m.pending.empty()) {
    m.now = m.state->NextTick();
    m.state->Tick(m.now);
    for (Action& a : m.state->TakeActions()) m.pending.push_back(std::move(a));
  }
  return ToSeconds(m.now - broke);
}

TEST_CASE("reconnecting waits a random time of 0.1 s to a bound that doubles to 2.5 s",
          "[session][attach]") {
  Machine::Options options;
  options.random = 0.999;
  Machine m(options);
  std::vector<double> waited;
  for (int i = 0; i < 6; ++i) {
    waited.push_back(PauseAfter(m, m.TakeLast<OpenAttach>()->stream, "refused"));
  }
  CHECK(waited[0] == Approx(1).margin(0.01));
  CHECK(waited[1] == Approx(2).margin(0.01));
  CHECK(waited[5] == Approx(2.5).margin(0.01));
  options.random = 0;
  Machine eager(options);
  eager.state->OnAttachClosed(eager.TakeLast<OpenAttach>()->stream, Unavailable("x"), eager.now);
  CHECK(ToSeconds(eager.state->NextTick() - eager.now) == Approx(0.1));
}

TEST_CASE("of several dispatchers the next one is tried, and all of them are within 3 s",
          "[session][attach]") {
  Machine::Options options;
  options.random = 0.999;
  options.address = "a:1,b:2";
  Machine m(options);
  std::vector<std::string> tried;
  std::vector<double> waited;
  for (int i = 0; i < 7; ++i) {
    const OpenAttach open = *m.TakeLast<OpenAttach>();
    tried.push_back(open.address);
    waited.push_back(PauseAfter(m, open.stream, "not the leader: x leads"));
  }
  CHECK(tried == std::vector<std::string>{"a:1", "b:2", "a:1", "b:2", "a:1", "b:2", "a:1"});
  CHECK(waited[0] == Approx(1).margin(0.01));
  CHECK(waited[1] == Approx(1).margin(0.01));
  for (int i = 2; i < 7; ++i) CHECK(waited[i] == Approx(1.25).margin(0.01));
}

TEST_CASE("a dispatcher that is silent is left for the next one, and one that leads is kept",
          "[session][attach]") {
  Machine::Options options;
  options.address = "a:1,b:2";
  Machine m(options);
  m.Welcome();
  m.Take<OpenAttach>();
  m.Pass(4 * kSecond);  // no heartbeat comes
  const auto next = m.TakeLast<OpenAttach>();
  REQUIRE(next);
  CHECK(next->address == "b:2");
  m.attach = next->stream;
  for (int i = 0; i < 10; ++i) {
    m.Pass(kSecond);
    m.Heartbeat();
  }
  CHECK(m.Take<OpenAttach>().empty());
}

TEST_CASE("a dispatcher that is silent for 3 s is given up, one that heartbeats is not",
          "[session][attach]") {
  Machine m;
  m.Welcome();
  m.PassAttached(10 * kSecond);
  CHECK(m.Take<CloseStream>().empty());
  m.Pass(2900 * kMs);
  CHECK(m.Take<CloseStream>().empty());
  m.Pass(200 * kMs);
  const auto close = m.TakeLast<CloseStream>();
  REQUIRE(close);
  CHECK(close->stream == m.attach);
}

TEST_CASE("a message of a lower term than one seen ends that stream and changes nothing",
          "[session][attach][term]") {
  Machine m;
  m.Welcome();
  v1::AttachResponse stale;
  stale.set_term(9);
  stale.mutable_list()->set_number(9);
  ToProto(Machine::IdOf(1), stale.mutable_list()->add_workers()->mutable_id());
  m.state->OnAttachMessage(m.attach, stale, m.now);
  CHECK(m.state->workers().members().empty());
  const auto close = m.TakeLast<CloseStream>();
  REQUIRE(close);
  CHECK(close->stream == m.attach);
  CHECK(m.state->status().ok());
  CHECK(m.state->highest_term() == 10);
}

TEST_CASE("what the dispatcher says of the session for good ends it for every waiter",
          "[session][attach]") {
  for (const Status& why : {Aborted("rank 1 of j was taken over by h:1"), FailedPrecondition("x"),
                            InvalidArgument("x"), DataLoss("file a.bin at 12")}) {
    Machine m;
    m.Welcome();
    const StreamId worker = m.Join(1);
    m.Take<CloseStream>();
    m.state->OnAttachClosed(m.attach, why, m.now);
    CHECK(m.state->status() == why);
    const auto close = m.TakeLast<CloseStream>();
    REQUIRE(close);
    CHECK(close->stream == worker);
    m.Pass(20 * kSecond);
    CHECK(m.Take<OpenAttach>().empty());
  }
}

TEST_CASE("all else that closes the dispatcher's stream is retried", "[session][attach]") {
  for (const StatusCode code :
       {StatusCode::kUnavailable, StatusCode::kResourceExhausted, StatusCode::kInternal,
        StatusCode::kUnknown, StatusCode::kCancelled, StatusCode::kOk}) {
    Machine m;
    m.Welcome();
    m.state->OnAttachClosed(m.attach, Status(code, "x"), m.now);
    CHECK(m.state->status().ok());
    m.Pass(6 * kSecond);
    CHECK(m.TakeLast<OpenAttach>());
  }
}

TEST_CASE("a dispatcher that never answers is an error that names it and the last reason",
          "[session][attach]") {
  Machine m;
  for (int i = 0; i < 400 && m.state->status().ok(); ++i) {
    for (const auto& open : m.Take<OpenAttach>()) {
      m.state->OnAttachClosed(open.stream, Unavailable("connection refused"), m.now);
    }
    m.Pass(100 * kMs);
  }
  CHECK(m.state->status().code() == StatusCode::kUnavailable);
  CHECK(m.state->status().message().find("dispatcher:1") != std::string::npos);
  CHECK(m.state->status().message().find("connection refused") != std::string::npos);
}

TEST_CASE("a session that has to wait says a word every second and keeps the reason",
          "[session][attach]") {
  Machine m;
  m.attach = m.TakeLast<OpenAttach>()->stream;
  m.Take<SendAttach>();
  m.state->OnAttachWritten(m.attach, m.now);
  v1::AttachResponse message;
  message.set_term(10);
  ToProto(SessionId({10, 4}), message.mutable_waiting()->mutable_session());
  message.mutable_waiting()->set_why("plan compiling");
  m.state->OnAttachMessage(m.attach, message, m.now);
  CHECK(m.state->waiting_why() == "plan compiling");
  m.state->SetWaiting(true, m.now);
  m.PassAttached(100 * kMs);
  CHECK(m.state->stats(m.now).now == WaitCause::kAttach);
  int words = 0;
  for (int i = 0; i < 100; ++i) {
    m.Pass(100 * kMs);
    m.Heartbeat();
    for (const auto& send : m.Take<SendAttach>()) {
      ++words;
      m.state->OnAttachWritten(send.stream, m.now);
    }
  }
  CHECK(words >= 9);
  m.state->OnAttachClosed(m.attach, Unavailable("restart"), m.now);
  m.Pass(6 * kSecond);
  const auto hello = m.TakeLast<SendAttach>();
  REQUIRE(hello);
  CHECK(hello->message.hello().session().n() == 4);
  CHECK_FALSE(hello->message.hello().admitted());
}

TEST_CASE("a welcome to another plan than before ends the session", "[session][attach]") {
  Machine m;
  m.Welcome();
  v1::AttachResponse message;
  message.set_term(11);
  *message.mutable_welcome() = m.WelcomeMessage(kOtherPlan);
  m.state->OnAttachMessage(m.attach, message, m.now);
  CHECK(m.state->status().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("good-bye is said, read, and then the stream is half-closed", "[session][attach]") {
  Machine m;
  m.Welcome();
  const StreamId worker = m.Join(1);
  m.Take<SendAttach>();
  m.state->OnAttachWritten(m.attach, m.now);
  m.Take<SendAttach>();
  m.state->OnAttachWritten(m.attach, m.now);
  m.state->Leave(Cancelled("closed"), m.now);
  const auto bye = m.TakeLast<SendAttach>();
  REQUIRE(bye);
  CHECK(bye->message.bye());
  auto closed = m.Take<CloseStream>();
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].stream == worker);
  CHECK_FALSE(m.state->left());
  m.state->OnAttachWritten(m.attach, m.now);
  closed = m.Take<CloseStream>();
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].why.ok());
  CHECK(m.state->left());
}

TEST_CASE("good-bye says why a session has ended, unless its user closed it", "[session][attach]") {
  Machine m;
  m.Welcome();
  m.state->OnAttachWritten(m.attach, m.now);
  std::string said;
  SECTION("closed") { m.state->Leave(Cancelled("the session was closed"), m.now); }
  SECTION("failed") {
    m.state->Leave(Internal("the GPU is gone"), m.now);
    said = "the GPU is gone";
  }
  const auto bye = m.TakeLast<SendAttach>();
  REQUIRE(bye);
  CHECK(bye->message.bye());
  CHECK(bye->message.error() == said);
}

TEST_CASE("why a session waits is logged once it has for a second", "[session][attach]") {
  Machine m;
  m.attach = m.TakeLast<OpenAttach>()->stream;
  m.state->OnAttachWritten(m.attach, m.now);
  const auto wait = [&m](const std::string& why) {
    v1::AttachResponse message;
    message.set_term(m.term);
    message.mutable_waiting()->set_why(why);
    m.state->OnAttachMessage(m.attach, message, m.now);
  };
  wait("the plan is being compiled");
  m.Pass(500 * kMs);
  wait("job held by host7:4121");
  CHECK_FALSE(m.logger->Has(LogLevel::kInfo, "waiting to attach"));
  m.Pass(kSecond);
  CHECK(m.logger->Has(LogLevel::kInfo, "why=job held by host7:4121"));
  CHECK_FALSE(m.logger->Has(LogLevel::kInfo, "compiled"));
  const std::size_t lines = m.logger->lines.size();
  m.Pass(kSecond);
  CHECK(m.logger->lines.size() == lines);
}

TEST_CASE("a wait to attach that lasts is a warning, once for each reason", "[session][attach]") {
  Machine m;
  m.attach = m.TakeLast<OpenAttach>()->stream;
  m.state->OnAttachWritten(m.attach, m.now);
  const auto wait = [&m](const std::string& why, int seconds) {
    v1::AttachResponse message;
    message.set_term(m.term);
    message.mutable_waiting()->set_why(why);
    for (int i = 0; i < seconds; ++i) {
      m.state->OnAttachMessage(m.attach, message, m.now);
      m.Pass(kSecond);
    }
  };
  wait("the job has another pipeline", 4);
  CHECK_FALSE(m.logger->Has(LogLevel::kWarning, "waiting to attach"));
  wait("the job has another pipeline", 2);
  CHECK(m.logger->Has(LogLevel::kWarning, "why=the job has another pipeline"));
  const std::size_t lines = m.logger->lines.size();
  wait("the job has another pipeline", 20);
  CHECK(m.logger->lines.size() == lines);
  wait("rank 1 of 2 is missing", 2);
  CHECK(m.logger->Has(LogLevel::kWarning, "why=rank 1 of 2 is missing"));
  CHECK(m.logger->lines.size() == lines + 1);
}

TEST_CASE("a dispatcher that stays lost is a warning, and so is its return", "[session][attach]") {
  Machine m;
  m.Welcome();
  const auto lose = [&m](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      if (const auto opened = m.TakeLast<OpenAttach>()) m.attach = opened->stream;
      m.state->OnAttachClosed(m.attach, Unavailable("connection refused"), m.now);
      m.Pass(kSecond);
    }
  };
  lose(3);
  CHECK(m.logger->Has(LogLevel::kInfo, "dispatcher lost"));
  CHECK_FALSE(m.logger->Has(LogLevel::kWarning, ""));
  lose(4);
  CHECK(m.logger->Has(LogLevel::kWarning, "no answer from the dispatcher"));
  CHECK(m.logger->Has(LogLevel::kWarning, "connection refused"));
  const std::size_t lines = m.logger->lines.size();
  lose(30);
  CHECK(m.logger->lines.size() == lines);
  std::optional<OpenAttach> again;
  while (!(again = m.TakeLast<OpenAttach>())) m.Pass(100 * kMs);
  m.pending.emplace_back(*again);
  m.Welcome();
  CHECK(m.logger->Has(LogLevel::kWarning, "dispatcher found"));
  // The dispatcher is there. Nobody is told that the next pause would still be a long one.
  const std::size_t found = m.logger->lines.size();
  m.PassAttached(60 * kSecond);
  CHECK(m.logger->lines.size() == found);
}

TEST_CASE("a wait of a session that was admitted is over when it gets members",
          "[session][attach]") {
  Machine m;
  m.Welcome();
  v1::AttachResponse message;
  message.set_term(m.term);
  message.mutable_waiting()->set_why("no worker has the dataset");
  m.state->OnAttachMessage(m.attach, message, m.now);
  m.PassAttached(2 * kSecond);
  CHECK(m.state->waiting_why() == "no worker has the dataset");
  CHECK(m.logger->Has(LogLevel::kInfo, "waiting for a worker"));
  m.List({});
  CHECK_FALSE(m.state->waiting_why().empty());
  m.List({1});
  CHECK(m.state->waiting_why().empty());
  m.PassAttached(2 * kSecond);
  CHECK_FALSE(m.logger->Has(LogLevel::kWarning, "waiting"));
}

}  // namespace
}  // namespace millrace::client
