// A trainer with a hostile dispatcher and hostile workers. The input drives the session's state
// machine, the receiver of batches, and the readers of the spec and of the static tables with any
// sequence of messages. Whatever comes, the loop gets the steps of its rank in order, each once,
// and memory is bounded.
//
// The argument of an event is the number of a stream of batches, counted from 0 in the order of
// opening, or it has the meaning that PerformEvent gives it.
#include <algorithm>
#include <deque>

#include "client/session/run/batch_receiver.h"
#include "client/session/run/spec_from_proto.h"
#include "common/batch/batch_writer.h"
#include "common/compression/compression.h"
#include "common/transport/convert/compression.h"
#include "common/transport/convert/tables.h"
#include "common/transport/wire.h"
#include "tests/fuzz/events.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/static_tables.h"
#include "tests/unit/client/session/machine/machine.h"
#include "tests/unit/client/session/run/fake_service.h"

namespace millrace::fuzz {
namespace {

using client::Action;
using client::kMs;
using client::kSecond;
using client::StreamId;

enum Kind : std::uint8_t {
  kAttach,
  kAttachWritten,
  kAttachClosed,  // argument: code of the status
  kFragment,
  kFragmentBytes,  // bytes as they come from the network; they may be no valid fragment
  kWritten,
  kClosed,
  kAdvance,  // argument: quarters of a second
  kTake,     // as many steps as are ready, at most the argument
  kLoop,     // argument: whether it waits, and how many batches it holds
  kStatic,
  kLeave,
  kKinds,
};

// The largest batch that this trainer has memory for, whatever its dispatcher and workers say.
constexpr std::uint64_t kMostBatchBytes = 1 << 20;
constexpr std::uint64_t kLargestLimit = std::uint64_t{4} << 30;

client::SessionMachineOptions Options() {
  client::SessionMachineOptions options;
  options.address = "d:1,e:1";
  options.prefetch_bytes = 10'000;
  options.hello.set_job("j");
  options.hello.set_world_size(1);
  options.hello.set_epochs(2);
  return options;
}

class Victim {
 public:
  Victim()
      : state_(
            Options(), [] { return 0.5; }, MakeNullLogger()) {
    state_.Start(now_);
    After();
  }

  void Perform(const Event& event) {
    PerformEvent(event);
    After();
  }

 private:
  struct StreamEntry {
    explicit StreamEntry(StreamId stream, std::shared_ptr<BufferPool> pool)
        : id(stream), receiver(std::move(pool)) {}
    StreamId id;
    bool open = true;
    bool writing = false;
    client::BatchReceiver receiver;
  };

  template <class M>
  static M Parse(const Event& event) {
    M message;
    static_cast<void>(message.ParsePartialFromString(event.bytes));
    return message;
  }

  void PerformEvent(const Event& event) {
    StreamEntry* const stream = event.argument < streams_.size() && streams_[event.argument].open
                                    ? &streams_[event.argument]
                                    : nullptr;
    switch (event.kind % kKinds) {
      case kAttach:
        if (attach_ != 0) state_.OnAttachMessage(attach_, Parse<v1::AttachResponse>(event), now_);
        return;
      case kAttachWritten:
        if (attach_ == 0 || !writing_attach_) return;
        writing_attach_ = false;
        return state_.OnAttachWritten(attach_, now_);
      case kAttachClosed: {
        if (attach_ == 0) return;
        const StreamId closed = std::exchange(attach_, 0);
        return state_.OnAttachClosed(
            closed, Status(static_cast<StatusCode>(event.argument % 17), "it says"), now_);
      }
      case kFragment: {
        if (stream == nullptr) return;
        IncomingFragment in;
        in.message = Parse<v1::BatchFragment>(event);
        const auto data = std::make_shared<std::string>(std::move(*in.message.mutable_data()));
        in.message.clear_data();
        if (!data->empty()) in.data.push_back(std::as_bytes(std::span(data->data(), data->size())));
        in.owner = data;
        return OnFragment(*stream, in);
      }
      case kFragmentBytes: {
        if (stream == nullptr) return;
        // The bytes come in slices, as from a network.
        std::vector<grpc::Slice> slices;
        for (std::size_t at = 0; at < event.bytes.size(); at += 7) {
          slices.emplace_back(event.bytes.substr(at, 7));
        }
        grpc::ByteBuffer buffer(slices.data(), slices.size());
        const auto in = wire::DecodeFragment(buffer);
        if (in.ok()) return OnFragment(*stream, *in);
        Close(*stream);
        return state_.OnBatchesClosed(stream->id, in.status(), now_);
      }
      case kWritten:
        if (stream == nullptr || !stream->writing) return;
        stream->writing = false;
        return state_.OnBatchesWritten(stream->id, now_);
      case kClosed:
        if (stream == nullptr) return;
        Close(*stream);
        return state_.OnBatchesClosed(stream->id, Unavailable("gone"), now_);
      case kAdvance:
        return Advance(250 * kMs * (event.argument % 64));
      case kTake:
        for (int n = 0; n < event.argument; ++n) Take();
        return;
      case kLoop:
        state_.SetWaiting(event.argument % 2 != 0, now_);
        // A loop that holds batches was admitted before.
        if (state_.admission()) state_.SetLoopHolds(event.argument / 2, now_);
        return;
      case kStatic:
        return ReadStatic(event.bytes);
      case kLeave:
        left_ = true;
        return state_.Leave(Cancelled("closed"), now_);
      default:
        return;
    }
  }

  /// Does what a session's handler does.
  void OnFragment(StreamEntry& stream, const IncomingFragment& in) {
    const bool wanted = state_.OnBatchesFragment(stream.id, in.message, in.batch_bytes(), now_);
    const std::uint64_t limit = state_.batch_limit_bytes();
    Require(limit <= kLargestLimit, "the largest batch is bounded, whatever is said of it");
    After();
    if (in.data_bytes() == 0 || !stream.open) return;
    auto received = stream.receiver.OnFragment(in, wanted, std::min(limit, kMostBatchBytes));
    if (!received.ok()) return state_.OnBatchesBad(stream.id, received.status(), now_);
    if (!received->has_value()) return;
    const client::Arrival& arrival = (**received).arrival;
    const std::uint64_t held = state_.held_batches();
    const client::Verdict verdict = state_.OnBatchesArrival(stream.id, arrival, now_);
    Require(state_.held_batches() == held + (verdict == client::Verdict::kTaken ? 1 : 0) ||
                verdict == client::Verdict::kWrong,
            "a batch that is taken is held");
    if (verdict == client::Verdict::kTaken) {
      Require(state_.holds(state_.steps().Index(arrival.at)), "a batch that is taken has a step");
      Require(
          arrival.first_example == state_.steps().Examples(state_.steps().Index(arrival.at)).first,
          "a batch that is taken holds the examples of its step");
    }
  }

  void Take() {
    if (left_ || !state_.admission() || !state_.holds(state_.next())) return;
    const std::uint64_t step = state_.next();
    state_.OnTaken(now_);
    Require(state_.next() == step + 1, "I1: steps are taken in order, each once");
    After();
  }

  /// The target `tables` looks closer at these bytes.
  static void ReadStatic(const std::string& bytes) { static_cast<void>(DecodeTables(bytes)); }

  void Advance(Duration d) {
    const Time end = now_ + d;
    for (int ticks = 0; now_ < end && ticks < 5000; ++ticks) {
      now_ = std::min(end, std::max(state_.NextTick(), now_ + Duration(1)));
      state_.Tick(now_);
      After();
    }
    Require(now_ == end, "ticks are some time apart");
  }

  /// Carries out the machine's actions, and checks its state.
  void After() {
    for (Action& action : state_.TakeActions()) {
      if (const auto* open = std::get_if<client::OpenAttach>(&action)) {
        Require(attach_ == 0, "one stream to a dispatcher");
        attach_ = open->stream;
        writing_attach_ = false;
      } else if (const auto* send = std::get_if<client::SendAttach>(&action)) {
        Require(send->stream == attach_ && !writing_attach_, "one report is written at a time");
        writing_attach_ = true;
      } else if (const auto* batches = std::get_if<client::OpenBatches>(&action)) {
        streams_.emplace_back(batches->stream, pool_);
      } else if (const auto* wants = std::get_if<client::SendWants>(&action)) {
        StreamEntry& stream = Find(wants->stream);
        Require(stream.open && !stream.writing, "one want list is written at a time");
        stream.writing = true;
      } else if (const auto* close = std::get_if<client::CloseStream>(&action)) {
        if (close->stream == attach_) {
          attach_ = 0;
        } else {
          Close(Find(close->stream));
        }
      }
    }
    // Receivers allocate their memory here too, before a batch is whole.
    const auto open = std::count_if(streams_.begin(), streams_.end(),
                                    [](const StreamEntry& stream) { return stream.open; });
    Require(pool_->stats().bytes_in_use <=
                static_cast<std::uint64_t>(open) * BufferPool::SizeClass(kMostBatchBytes),
            "a stream has at most one batch under way, of at most the size that is allowed");
    if (!state_.admission()) return;
    static_cast<void>(client::PlanFromProto(*state_.admission(), DType::kInt32));
    // A batch that was asked for is kept, even if its worker sends more than it has credit for.
    Require(state_.held_batches() <= client::Dealing::kReach + 1, "held batches are bounded");
    for (const auto& [step, asks] : state_.asks().steps()) {
      Require(step >= state_.next() && step < state_.next() + client::Dealing::kReach,
              "steps that are asked for are within reach");
      Require(!state_.holds(step), "a step that is here is not asked for");
    }
    Require(state_.window() <= client::Stock::kLargestWindow, "windows are bounded");
  }

  /// Its part of a batch is dropped with the stream.
  void Close(StreamEntry& stream) {
    stream.open = false;
    stream.receiver = client::BatchReceiver(pool_);
  }

  StreamEntry& Find(StreamId id) {
    const auto found = std::find_if(streams_.begin(), streams_.end(),
                                    [&](const StreamEntry& stream) { return stream.id == id; });
    Require(found != streams_.end(), "a stream that was opened");
    return *found;
  }

  client::SessionMachine state_;
  Time now_{kSecond};
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>(0);
  StreamId attach_ = 0;
  bool writing_attach_ = false;
  bool left_ = false;
  std::deque<StreamEntry> streams_;  // a deque, so that entries do not move
};

}  // namespace

std::unique_ptr<google::protobuf::Message> NewMessage(std::uint8_t kind) {
  switch (kind % kKinds) {
    case kAttach:
      return std::make_unique<v1::AttachResponse>();
    case kFragment:
    case kFragmentBytes:
      return std::make_unique<v1::BatchFragment>();
    case kStatic:
      return std::make_unique<v1::Static>();
    default:
      return nullptr;
  }
}

std::vector<std::string> Seeds() {
  // These are the first batches of an epoch of 60 examples, from one worker.
  const std::uint64_t term = 10;
  v1::AttachResponse welcome;
  welcome.set_term(term);
  client::ToProto(SessionId({term, 1}), welcome.mutable_welcome()->mutable_session());
  const auto first = client::NumbersBatch(0, {0, 5});
  v1::Welcome& admitted = *welcome.mutable_welcome();
  admitted.set_fingerprint(first->info().fingerprint.ToString());
  admitted.set_static_digest(std::string(32, '5'));
  v1::Spec& spec = *admitted.mutable_spec();
  spec.mutable_steps()->set_examples(60);
  spec.mutable_steps()->set_size(5);
  spec.mutable_steps()->set_keep(true);
  spec.mutable_steps()->set_world_size(1);
  spec.mutable_expand()->set_symmetrization("none");
  spec.set_order_fingerprint(admitted.fingerprint());
  spec.set_max_batch_bytes(2000);
  v1::TensorSpec& tensor = *spec.add_tensors();
  tensor.set_path("number");
  tensor.set_kind("dense");
  tensor.set_packed_dtype("uint32");
  tensor.set_dimension("batch");
  tensor.set_expand("widen");
  v1::AttachResponse list = welcome;
  list.clear_welcome();
  list.mutable_list()->set_number(1);
  for (std::uint64_t n = 0; n < 2; ++n) {
    v1::WorkerRef& worker = *list.mutable_list()->add_workers();
    client::ToProto(WorkerId({term, 2 + 8 * n}), worker.mutable_id());
    worker.set_address(n == 0 ? "w:1" : "w:2");
  }
  *welcome.mutable_list() = list.list();
  v1::AttachResponse shorter = list;
  shorter.mutable_list()->set_number(2);
  shorter.mutable_list()->mutable_workers()->RemoveLast();

  v1::AttachResponse waiting;
  waiting.set_term(term);
  client::ToProto(SessionId({term, 1}), waiting.mutable_waiting()->mutable_session());
  waiting.mutable_waiting()->set_why("job held by host7:4121");

  const auto fragments = [&](std::uint64_t example, std::size_t cut) {
    const auto batch = client::NumbersBatch(0, {example, 5});
    const std::string_view bytes(reinterpret_cast<const char*>(batch->bytes().data()),
                                 batch->bytes().size());
    std::vector<v1::BatchFragment> made;
    for (std::size_t at = 0; at < bytes.size(); at += cut) {
      v1::BatchFragment& fragment = made.emplace_back();
      client::ToProto(Position{0, example}, fragment.mutable_at());
      fragment.set_total_bytes(bytes.size());
      fragment.set_offset(at);
      fragment.set_digest(batch->digest().ToBytes());
      fragment.set_data(std::string(bytes.substr(at, cut)));
    }
    return made;
  };
  const auto compressed = [&](std::uint64_t example, Compression compression) {
    v1::BatchFragment fragment = fragments(example, 1 << 20).front();
    Compressor compressor;
    const auto small = compressor.Compress(
        compression, std::as_bytes(std::span(fragment.data().data(), fragment.data().size())));
    fragment.set_compression(ToProto(compression));
    fragment.set_raw_bytes(fragment.data().size());
    fragment.set_data(std::string(reinterpret_cast<const char*>(small.data()), small.size()));
    return fragment;
  };
  // Two steps are built or being built, and the fourth is there for a twin.
  v1::BatchFragment alive;
  v1::Alive& word = *alive.mutable_alive();
  word.set_slots(4);
  word.set_batch_ms(20);
  word.set_threads_milli(1500);
  word.set_split(1);
  const auto run = [](std::uint64_t first_example, v1::Run* to) {
    to->set_position(first_example);
    to->set_first_example(first_example);
    to->set_stride(5);
    to->set_examples(5);
    to->set_steps(1);
  };
  run(0, word.add_built());
  run(15, word.add_twins());
  v1::Building& building = *word.add_building();
  client::ToProto(Position{0, 5}, building.mutable_at());
  building.set_since_ms(10);
  building.set_stage("closure");
  v1::BatchFragment refused;
  client::ToProto(Position{0, 10}, refused.mutable_refused()->mutable_at());
  refused.mutable_refused()->set_code(15);
  refused.mutable_refused()->set_message("damaged");
  v1::BatchFragment away;
  away.set_going_away(true);

  const std::vector<Event> begun = {Message(kAttach, 0, welcome),
                                    {kAttachWritten, 0, ""},
                                    {kLoop, 1, ""},
                                    Message(kFragment, 0, alive),
                                    {kWritten, 0, ""},
                                    Message(kFragment, 1, alive),
                                    {kWritten, 1, ""},
                                    Message(kFragment, 0, alive)};
  std::vector<Event> whole = begun;
  for (const auto& fragment : fragments(0, 1 << 20))
    whole.push_back(Message(kFragment, 0, fragment));
  whole.push_back({kTake, 9, ""});
  for (const auto& fragment : fragments(5, 200))
    whole.push_back(Message(kFragmentBytes, 0, fragment));
  whole.push_back({kTake, 9, ""});
  whole.push_back({kAdvance, 4, ""});
  whole.push_back(Message(kFragment, 1, refused));
  whole.push_back(Message(kFragment, 0, away));
  whole.push_back(Message(kFragment, 0, alive));
  whole.push_back({kAdvance, 20, ""});
  whole.push_back({kLeave, 0, ""});

  std::vector<Event> copies = begun;
  copies.push_back({kAdvance, 16, ""});
  copies.push_back(Message(kAttach, 0, shorter));
  for (const auto& fragment : fragments(0, 300)) copies.push_back(Message(kFragment, 1, fragment));
  for (const auto& fragment : fragments(0, 300)) copies.push_back(Message(kFragment, 0, fragment));
  copies.push_back({kTake, 1, ""});
  copies.push_back({kAttachClosed, 14, ""});
  copies.push_back({kAdvance, 30, ""});
  copies.push_back({kClosed, 0, ""});
  copies.push_back({kAdvance, 30, ""});
  copies.push_back(Message(kAttach, 0, welcome));

  std::vector<Event> smaller = begun;
  smaller.push_back(Message(kFragment, 0, compressed(0, Compression::kZstd)));
  smaller.push_back({kTake, 9, ""});
  smaller.push_back(Message(kFragmentBytes, 0, compressed(5, Compression::kLz4)));
  smaller.push_back({kTake, 9, ""});

  // The fragments name another place than their batch has.
  std::vector<Event> elsewhere = begun;
  for (auto fragment : fragments(10, 1 << 20)) {
    client::ToProto(Position{0, 0}, fragment.mutable_at());
    elsewhere.push_back(Message(kFragment, 0, fragment));
  }

  return {WriteEvents(whole),
          WriteEvents(copies),
          WriteEvents(elsewhere),
          WriteEvents(smaller),
          WriteEvents({Message(kAttach, 0, waiting), {kAdvance, 40, ""}, {kAttachClosed, 10, ""}}),
          WriteEvents({Message(kStatic, 1, test::CoqStatic())})};
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  millrace::fuzz::Victim victim;
  for (const auto& event : millrace::fuzz::ReadEvents(data, size)) victim.Perform(event);
  return 0;
}
