#include "client/cli/trace/trace_recording.h"

#include <map>
#include <string>
#include <vector>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <catch2/catch.hpp>

#include "client/session/machine/stats.h"
#include "common/transport/convert/spans.h"

namespace millrace::cli {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr std::uint64_t kBegan = 1'000'000'000;

/// The trace as a JSON reader sees it.
Struct Json(const TraceRecording& recording) {
  std::string text;
  recording.WriteJson([&text](std::string_view piece) { text += piece; });
  Struct parsed;
  INFO(text);
  REQUIRE(google::protobuf::util::JsonStringToMessage(text, &parsed).ok());
  return parsed;
}

std::string Text(const Struct& event, const std::string& name) {
  const auto found = event.fields().find(name);
  return found == event.fields().end() ? "" : found->second.string_value();
}
double Number(const Struct& event, const std::string& name) {
  const auto found = event.fields().find(name);
  return found == event.fields().end() ? -1 : found->second.number_value();
}
const Struct& Args(const Struct& event) { return event.fields().at("args").struct_value(); }

std::vector<Struct> Events(const Struct& json, const std::string& phase) {
  std::vector<Struct> events;
  for (const Value& event : json.fields().at("traceEvents").list_value().values()) {
    if (Text(event.struct_value(), "ph") == phase) events.push_back(event.struct_value());
  }
  return events;
}

v1::TraceChunk Chunk(v1::TraceRole role, std::uint64_t n, const std::string& name,
                     std::int64_t offset = 0) {
  v1::TraceChunk chunk;
  chunk.mutable_process()->set_role(role);
  chunk.mutable_process()->mutable_id()->set_n(n);
  chunk.mutable_process()->set_name(name);
  chunk.mutable_process()->set_clock_offset_ns(offset);
  return chunk;
}

/// Adds a span of session 5's batch at a position; times are in microseconds since the trace began.
void AddSpan(v1::TraceChunk& chunk, SpanKind kind, std::int64_t begin, std::int64_t end,
             std::uint64_t example = 16, std::uint32_t lane = 0) {
  Span span;
  span.kind = kind;
  span.lane = lane;
  const auto offset = chunk.process().clock_offset_ns() + static_cast<std::int64_t>(kBegan);
  span.begin = Time{Duration(offset + 1000 * begin)};
  span.end = Time{Duration(offset + 1000 * end)};
  span.session = SessionId({0, 5});
  span.epoch = 3;
  span.example = example;
  AppendTo(*chunk.mutable_spans(), span);
}

v1::TraceChunk Begin() {
  v1::TraceChunk chunk;
  chunk.set_began(kBegan);
  v1::TraceSession& session = *chunk.add_sessions();
  session.mutable_id()->set_n(5);
  session.set_job("train \"x\"\n");
  session.set_rank(1);
  session.mutable_steps()->set_examples(1000);
  session.mutable_steps()->set_size(4);
  session.mutable_steps()->set_world_size(2);
  return chunk;
}

/// The batch at example 16 on its way from the consumer's ask to the loop.
TraceRecording OneBatch() {
  TraceRecording recording;
  recording.Add(Begin());
  v1::TraceChunk consumer = Chunk(v1::TRACE_CONSUMER, 5, "host:3", -70'000'000);
  AddSpan(consumer, SpanKind::kAsk, 1, 80);
  consumer.mutable_spans()->set_detail(0, static_cast<std::uint32_t>(AskKind::kCopy));
  AddSpan(consumer, SpanKind::kReceive, 60, 80, 16, 4);
  AddSpan(consumer, SpanKind::kGather, 62, 79, 16, 4);
  AddSpan(consumer, SpanKind::kExpand, 81, 90);
  AddSpan(consumer, SpanKind::kTaken, 91, 92);
  v1::TraceChunk worker = Chunk(v1::TRACE_WORKER, 2, "host:2", 5'000'000'000);
  AddSpan(worker, SpanKind::kBuild, 10, 40, 16, 77);
  AddSpan(worker, SpanKind::kShuffle, 10, 11, 16, 77);
  AddSpan(worker, SpanKind::kClosure, 11, 30, 16, 77);
  AddSpan(worker, SpanKind::kBatch, 30, 38, 16, 77);
  AddSpan(worker, SpanKind::kSeal, 38, 40, 16, 77);
  AddSpan(worker, SpanKind::kSend, 41, 59, 16, 3);
  v1::TraceChunk dispatcher = Chunk(v1::TRACE_DISPATCHER, 0, "host:1");
  // The chunks may come in any order.
  recording.Add(consumer);
  recording.Add(dispatcher);
  recording.Add(worker);
  return recording;
}

}  // namespace

TEST_CASE("a span is a complete event on the dispatcher's clock, with its batch", "[trace]") {
  const TraceRecording recording = OneBatch();
  CHECK(recording.spans() == 11);
  std::map<std::string, Struct> events;
  for (const Struct& event : Events(Json(recording), "X")) events[Text(event, "name")] = event;
  REQUIRE(events.size() == 10);
  CHECK(Number(events["build"], "ts") == 10);
  CHECK(Number(events["build"], "dur") == 30);
  CHECK(Number(events["taken"], "ts") == 91);
  for (const char* name : {"build", "closure", "send", "gather", "expand", "taken"}) {
    INFO(name);
    const Struct& args = Args(events[name]);
    CHECK(Text(args, "job") == "train \"x\"\n");
    CHECK(Number(args, "rank") == 1);
    CHECK(Number(args, "epoch") == 3);
    CHECK(Number(args, "position") == 16);
    CHECK(Number(args, "step") == 2);
    CHECK(Number(args, "ordinal") == 5);  // 2 * 2 + 1
    CHECK(Text(args, "worker") == "host:2");
  }
}

TEST_CASE("an ask is an asynchronous event, because asks overlap", "[trace]") {
  const Struct json = Json(OneBatch());
  const auto begins = Events(json, "b");
  const auto ends = Events(json, "e");
  REQUIRE(begins.size() == 1);
  REQUIRE(ends.size() == 1);
  CHECK(Text(begins[0], "name") == "ask: copy");
  CHECK(Number(begins[0], "ts") == 1);
  CHECK(Number(ends[0], "ts") == 80);
  CHECK(Number(ends[0], "id") == Number(begins[0], "id"));
  CHECK(Number(Args(begins[0]), "step") == 2);
  CHECK(Text(Args(begins[0]), "worker") == "host:2");
}

TEST_CASE("processes and rows have names, and rows hold no spans that overlap", "[trace]") {
  std::map<double, std::string> processes;
  std::map<std::pair<double, double>, std::string> rows;
  const Struct json = Json(OneBatch());
  for (const Struct& event : Events(json, "M")) {
    if (Text(event, "name") == "process_name") {
      processes[Number(event, "pid")] = Text(Args(event), "name");
    }
    if (Text(event, "name") == "thread_name") {
      rows[{Number(event, "pid"), Number(event, "tid")}] = Text(Args(event), "name");
    }
  }
  REQUIRE(processes.size() == 3);
  CHECK(processes[1] == "dispatcher host:1");
  CHECK(processes[2] == "worker host:2");
  CHECK(processes[3] == "consumer train \"x\"\n rank 1 (host:3)");
  std::map<std::string, std::string> row_of;
  for (const Struct& event : Events(json, "X")) {
    row_of[Text(event, "name")] = rows[{Number(event, "pid"), Number(event, "tid")}];
  }
  CHECK(row_of["closure"] == "builder 77");
  CHECK(row_of["build"] == "builder 77");
  CHECK(row_of["send"] == "sends, stream 3");
  CHECK(row_of["gather"] == "receives, stream 4");
  CHECK(row_of["taken"] == "training loop");
  CHECK(row_of["expand"] == "expands");
}

TEST_CASE("a flow ties a batch together from its build to the loop", "[trace]") {
  const Struct json = Json(OneBatch());
  const auto begins = Events(json, "s");
  const auto steps = Events(json, "t");
  const auto ends = Events(json, "f");
  REQUIRE(begins.size() == 1);
  REQUIRE(ends.size() == 1);
  CHECK(steps.size() == 3);  // send, receive, expand
  CHECK(Number(begins[0], "ts") == 10);
  CHECK(Number(ends[0], "ts") == 91);
  CHECK(Text(ends[0], "bp") == "e");
  for (const Struct& step : steps) CHECK(Number(step, "id") == Number(begins[0], "id"));
}

TEST_CASE("batches of other positions and sessions have flows of their own", "[trace]") {
  TraceRecording recording;
  recording.Add(Begin());
  v1::TraceChunk worker = Chunk(v1::TRACE_WORKER, 2, "w");
  for (std::uint64_t example : {0, 8, 16}) {
    AddSpan(worker, SpanKind::kBuild, 1, 2, example);
    AddSpan(worker, SpanKind::kSend, 3, 4, example);
  }
  AddSpan(worker, SpanKind::kBuild, 5, 6, 24);  // never sent, so it has no flow
  recording.Add(worker);
  CHECK(Events(Json(recording), "s").size() == 3);
  CHECK(Events(Json(recording), "f").size() == 3);
}

TEST_CASE("a wait says what for", "[trace]") {
  TraceRecording recording;
  recording.Add(Begin());
  v1::TraceChunk consumer = Chunk(v1::TRACE_CONSUMER, 5, "c");
  AddSpan(consumer, SpanKind::kWaited, 1, 2);
  consumer.mutable_spans()->set_detail(0, static_cast<std::uint32_t>(WaitCause::kBuild));
  recording.Add(consumer);
  const auto events = Events(Json(recording), "X");
  REQUIRE(events.size() == 1);
  CHECK(Text(events[0], "name") == "waited: build");
}

TEST_CASE("a request to a plugin has the name of its object, and the row of the build", "[trace]") {
  TraceRecording recording;
  recording.Add(Begin());
  v1::TraceChunk worker = Chunk(v1::TRACE_WORKER, 2, "w");
  AddSpan(worker, SpanKind::kBuild, 1, 9, 16, 77);
  AddSpan(worker, SpanKind::kPython, 2, 3, 16, 77);
  worker.mutable_spans()->add_names("python speech:Corpus");
  recording.Add(worker);
  std::map<std::string, Struct> events;
  for (const Struct& event : Events(Json(recording), "X")) events[Text(event, "name")] = event;
  REQUIRE(events.size() == 2);
  CHECK(Number(events.at("python speech:Corpus"), "tid") == Number(events.at("build"), "tid"));
}

TEST_CASE("operations have their names, and the rows of the batches that they are part of",
          "[trace]") {
  TraceRecording recording;
  recording.Add(Begin());
  v1::TraceChunk worker = Chunk(v1::TRACE_WORKER, 2, "w");
  AddSpan(worker, SpanKind::kBuild, 1, 9, 16, 77);
  AddSpan(worker, SpanKind::kOperation, 2, 3, 16, 77);
  AddSpan(worker, SpanKind::kOperation, 3, 4, 16, 77);
  worker.mutable_spans()->add_names("tensors: bits+slice+take");
  worker.mutable_spans()->add_names("tensors: \"\n");
  worker.mutable_spans()->set_detail(2, 1);
  v1::TraceChunk consumer = Chunk(v1::TRACE_CONSUMER, 5, "c");
  AddSpan(consumer, SpanKind::kExpand, 10, 20, 16, 3);
  AddSpan(consumer, SpanKind::kOperation, 11, 12, 16, 3);  // each chunk has names of its own
  consumer.mutable_spans()->add_names("tensors: expr");
  AddSpan(consumer, SpanKind::kOperation, 13, 14, 16, 3);
  consumer.mutable_spans()->set_detail(2, 9);  // no such name
  recording.Add(worker);
  recording.Add(consumer);
  const Struct json = Json(recording);
  std::map<std::string, Struct> events;
  for (const Struct& event : Events(json, "X")) events[Text(event, "name")] = event;
  REQUIRE(events.size() == 6);
  const auto row = [&](const char* name) { return Number(events.at(name), "tid"); };
  CHECK(Number(events.at("tensors: bits+slice+take"), "ts") == 2);
  CHECK(row("tensors: bits+slice+take") == row("build"));
  CHECK(row("tensors: \"\n") == row("build"));
  CHECK(row("tensors: expr") == row("expand"));
  CHECK(row("operation") == row("expand"));
  CHECK(Number(Args(events.at("tensors: expr")), "step") == 2);
}

TEST_CASE("spans name all datasets of a mix, and each of their kinds once", "[trace]") {
  TraceRecording recording;
  v1::TraceChunk begin = Begin();
  for (const char* dataset : {"papers", "molecules", "old"}) {
    begin.mutable_sessions(0)->add_datasets(dataset);
  }
  for (const char* kind : {"graph", "graph", ""}) begin.mutable_sessions(0)->add_kinds(kind);
  recording.Add(begin);
  v1::TraceChunk worker = Chunk(v1::TRACE_WORKER, 2, "w");
  AddSpan(worker, SpanKind::kBuild, 1, 2, 8);
  recording.Add(worker);
  const auto events = Events(Json(recording), "X");
  REQUIRE(events.size() == 1);
  CHECK(Text(Args(events[0]), "dataset") == "papers, molecules, old");
  CHECK(Text(Args(events[0]), "kind") == "graph");
}

TEST_CASE("spans name the dataset of their job, and its kind", "[trace]") {
  TraceRecording recording;
  v1::TraceChunk begin = Begin();
  begin.mutable_sessions(0)->add_datasets("papers");
  begin.mutable_sessions(0)->add_kinds("graph");
  recording.Add(begin);
  v1::TraceChunk worker = Chunk(v1::TRACE_WORKER, 2, "w");
  AddSpan(worker, SpanKind::kBuild, 3, 4);
  recording.Add(worker);
  for (const Struct& event : Events(Json(recording), "X")) {
    CHECK(Text(Args(event), "dataset") == "papers");
    CHECK(Text(Args(event), "kind") == "graph");
  }
  // Before the plan is compiled, nothing is known.
  CHECK(Args(Events(Json(OneBatch()), "X").front()).fields().count("dataset") == 0);
}

TEST_CASE("the last word about a clock counts for all spans, and its error is told", "[trace]") {
  TraceRecording recording;
  recording.Add(Begin());
  v1::TraceChunk first = Chunk(v1::TRACE_WORKER, 2, "w", 1'000'000);
  AddSpan(first, SpanKind::kBuild, 10, 20);
  recording.Add(first);
  v1::TraceChunk last = Chunk(v1::TRACE_WORKER, 2, "w", 1'002'000);
  last.mutable_process()->set_clock_error_ns(1500);
  last.mutable_process()->set_dropped(7);
  recording.Add(last);
  CHECK(recording.dropped() == 7);
  CHECK(recording.clock_error_ns() == 1500);
  const Struct json = Json(recording);
  CHECK(Number(Events(json, "X")[0], "ts") == 8);
  const Struct& other = json.fields().at("otherData").struct_value();
  CHECK(Text(other, "clock_error_us") == "1.500");
  CHECK(Text(other, "dropped_spans") == "7");
}

TEST_CASE("times before the trace began and odd spans make valid JSON", "[trace]") {
  TraceRecording recording;
  recording.Add(Begin());
  v1::TraceChunk worker = Chunk(v1::TRACE_WORKER, 2, "w");
  AddSpan(worker, SpanKind::kBuild, -3, -4);
  worker.mutable_spans()->set_kind(0, 4'000'000'000u);
  AddSpan(worker, SpanKind::kAsk, 2, 1);
  worker.mutable_spans()->set_detail(1, 4'000'000'000u);
  worker.mutable_spans()->set_session_n(1, 99);  // a session that nobody knows
  recording.Add(worker);
  const auto events = Events(Json(recording), "X");
  REQUIRE(events.size() == 1);
  REQUIRE(Events(Json(recording), "b").size() == 1);
  CHECK(Text(Events(Json(recording), "b")[0], "name") == "ask");
  CHECK(Number(events[0], "ts") == -3);
  CHECK(Number(events[0], "dur") == 0);
}

TEST_CASE("a trace without spans is a valid one", "[trace]") {
  TraceRecording recording;
  CHECK(Events(Json(recording), "X").empty());
  recording.Add(Begin());
  recording.Add(Chunk(v1::TRACE_DISPATCHER, 0, "d"));
  CHECK(recording.spans() == 0);
  CHECK(recording.processes(v1::TRACE_DISPATCHER) == 1);
  CHECK(Events(Json(recording), "M").size() == 3);
}

}  // namespace millrace::cli
