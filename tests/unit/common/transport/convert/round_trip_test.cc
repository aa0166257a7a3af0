// Values are the same after they went onto the wire and back.
#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include "common/batch/layout/tensor_table.h"
#include "common/transport/convert/expand.h"
#include "common/transport/convert/places.h"
#include "common/transport/convert/spans.h"
#include "common/transport/convert/steps.h"
#include "common/transport/convert/tensors.h"

namespace millrace {
namespace {

/// Converts a value to bytes and back, as on the wire.
template <class Message, class Value>
Message Sent(const Value& value) {
  Message message;
  ToProto(value, &message);
  Message received;
  RC_ASSERT(received.ParseFromString(message.SerializeAsString()));
  return received;
}

std::uint64_t Any() { return *rc::gen::arbitrary<std::uint64_t>(); }

TEST_CASE("numbers and positions come back as they were sent", "[convert]") {
  rc::prop("round trip", [] {
    const Number number{Any(), Any()};
    RC_ASSERT(FromProto(Sent<v1::Number>(number)) == number);
    RC_ASSERT(FromProto(Sent<v1::Number>(WorkerId(number))) == number);
    const Position position{Any(), Any()};
    RC_ASSERT(FromProto(Sent<v1::Position>(position)) == position);
  });
  CHECK_FALSE(FromProto(v1::Number()).is_set());
}

TEST_CASE("step options come back as they were sent", "[convert]") {
  rc::prop("round trip", [] {
    const StepOptions options{.examples = Any(),
                              .size = Any(),
                              .global_size = Any(),
                              .keep = *rc::gen::arbitrary<bool>(),
                              .world_size = *rc::gen::arbitrary<std::uint32_t>()};
    RC_ASSERT(FromProto(Sent<v1::StepSpec>(options)) == options);
  });
}

TEST_CASE("how edges are completed comes back as it was sent", "[convert]") {
  rc::prop("round trip", [] {
    const ExpandSpec spec{*rc::gen::arbitrary<std::uint32_t>(),
                          *rc::gen::element(Symmetrization::kDirected, Symmetrization::kUndirected,
                                            Symmetrization::kBidirectional),
                          *rc::gen::arbitrary<bool>()};
    const Result<ExpandSpec> back = FromProto(Sent<v1::ExpandSpec>(spec));
    RC_ASSERT(back.ok());
    RC_ASSERT(*back == spec);
  });
}

TEST_CASE("descriptions of tensors come back as they were sent", "[convert]") {
  rc::prop("round trip", [] {
    TensorSpec spec;
    spec.path = "board";
    spec.kind = *rc::gen::element(TensorKind::kDense, TensorKind::kRaggedValues);
    spec.dtype = static_cast<DType>(*rc::gen::inRange<int>(0, kDTypes));
    spec.expansion = *rc::gen::element(Expansion::kKeep, Expansion::kWiden, Expansion::kNodeOffset);
    spec.dimension = "batch";
    spec.inner = *rc::gen::container<std::vector<std::uint64_t>>(
        rc::gen::inRange<std::uint64_t>(1, kMaxRowValues + 1));
    spec.splits = "board_splits";
    spec.node_splits = "node_splits";
    spec.min = *rc::gen::arbitrary<std::int64_t>();
    spec.max = Any();
    const Result<TensorSpec> back = FromProto(Sent<v1::TensorSpec>(spec));
    RC_ASSERT(back.ok());
    RC_ASSERT(*back == spec);
  });
}

TEST_CASE("the delivered dtype of kept values is their own", "[convert]") {
  TensorSpec spec;
  spec.dtype = DType::kBFloat16;
  spec.expansion = Expansion::kKeep;
  v1::TensorSpec sent;
  ToProto(spec, &sent);
  CHECK(sent.packed_dtype() == "bfloat16");
  CHECK(sent.delivered_dtype() == "bfloat16");
  spec.dtype = DType::kUint8;
  spec.expansion = Expansion::kWiden;
  ToProto(spec, &sent);
  CHECK(sent.delivered_dtype() == "int32");
}

TEST_CASE("names of a newer server's tensors are refused", "[convert]") {
  v1::TensorSpec sent;
  ToProto(TensorSpec{}, &sent);
  REQUIRE(FromProto(sent).ok());
  v1::TensorSpec newer = sent;
  newer.set_packed_dtype("float8");
  CHECK_THAT(FromProto(newer).status().message(), Catch::Contains("a dtype named 'float8'"));
  newer = sent;
  newer.set_expand("twice");
  CHECK_THAT(FromProto(newer).status().message(), Catch::Contains("a way to expand named 'twice'"));
  CHECK(FromProto(newer).status().code() == StatusCode::kUnimplemented);
}

TEST_CASE("a symmetrization of a newer server is refused by name", "[convert]") {
  v1::ExpandSpec spec;
  spec.set_symmetrization("threefold");
  CHECK(FromProto(spec).status() ==
        Unimplemented("a symmetrization named 'threefold', which this program does not know: are "
                      "the servers newer than it?"));
}

TEST_CASE("step k of a run lies k strides behind its first one", "[convert]") {
  v1::Run run;
  run.set_epoch(3);
  run.set_position(512);
  run.set_stride(64);
  CHECK(PositionOf(run) == Position{3, 512});
  CHECK(PositionOf(run, 2) == Position{3, 640});
}

TEST_CASE("spans come back from their columns as they were put in", "[convert]") {
  rc::prop("round trip", [] {
    const auto time = [] { return Time{Duration(*rc::gen::arbitrary<std::int64_t>())}; };
    const Span span{.kind = static_cast<SpanKind>(*rc::gen::inRange<int>(2, kSpanKinds)),
                    .lane = *rc::gen::arbitrary<std::uint32_t>(),
                    .begin = time(),
                    .end = time(),
                    .session = SessionId({Any(), Any()}),
                    .epoch = Any(),
                    .example = Any(),
                    .bytes = Any(),
                    .detail = *rc::gen::arbitrary<std::uint32_t>()};
    v1::Spans columns;
    AppendTo(columns, Span{});
    AppendTo(columns, span);
    RC_ASSERT(SpanCount(columns) == 2u);
    const Span back = SpanAt(columns, 1);
    RC_ASSERT(back.kind == span.kind);
    RC_ASSERT(back.lane == span.lane);
    RC_ASSERT(back.begin == span.begin);
    RC_ASSERT(back.end == span.end);
    RC_ASSERT(back.session == span.session);
    RC_ASSERT(back.epoch == span.epoch);
    RC_ASSERT(back.example == span.example);
    RC_ASSERT(back.bytes == span.bytes);
    RC_ASSERT(back.detail == span.detail);
  });
}

}  // namespace
}  // namespace millrace
