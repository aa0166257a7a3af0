#include "server/kinds/records/generator/records_generator.h"

#include <array>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "common/parameters/make_parameter.h"
#include "server/kinds/records/format/example_builder.h"
#include "server/kinds/records/format/record_writer.h"
#include "server/source/random.h"

namespace millrace {
namespace {

constexpr std::uint64_t kProgressRecords = 1 << 12;

/// One record after another, each a function of the seed and its number.
class MadeUpRecords {
 public:
  MadeUpRecords(std::uint64_t seed, std::uint32_t most_floats)
      : seed_(seed), most_floats_(most_floats) {}

  std::span<const std::byte> Make(std::uint64_t number) {
    generator::Random random(generator::Mix(seed_, number));
    std::array<char, kBoardBytes> board;
    for (std::size_t at = 0; at < board.size(); at += sizeof(std::uint64_t)) {
      // Most of a board is empty.
      const std::uint64_t word = random.Next() & random.Next() & random.Next();
      std::memcpy(board.data() + at, &word, std::min(sizeof(word), board.size() - at));
    }
    const std::string_view bytes(board.data(), board.size());
    const std::int64_t score = std::int64_t{random.Below(4001)} - 2000;
    builder_.Clear();
    builder_.AddBytes("d", bytes);
    builder_.AddInts("s", {&score, 1});
    if (most_floats_ > 0) {
      floats_.resize(random.LowBelow(most_floats_ + 1));
      for (float& value : floats_) {
        value = static_cast<float>(random.Below(1 << 20)) / (1 << 20);
      }
      builder_.AddFloats("x", floats_);
    }
    return builder_.Finish();
  }

 private:
  const std::uint64_t seed_;
  const std::uint32_t most_floats_;
  ExampleBuilder builder_;
  std::vector<float> floats_;
};

Status WriteFiles(const std::filesystem::path& dir, const Params& params,
                  const GenerateRequest& request, std::uint64_t& bytes) {
  const std::uint64_t records = params.GetUnsigned("records");
  const std::uint64_t files = params.GetUnsigned("files");
  MadeUpRecords made_up(params.GetUnsigned("seed"),
                        static_cast<std::uint32_t>(params.GetUnsigned("floats")));
  for (std::uint64_t file = 0; file < files; ++file) {
    const std::string name = fmt::format("part-{:05}-of-{:05}.tfrecord", file, files);
    MILLRACE_ASSIGN_OR_RETURN(RecordWriter writer, RecordWriter::Create(dir / name));
    std::uint64_t told = records * file / files;
    const std::uint64_t end = records * (file + 1) / files;
    for (std::uint64_t number = told; number < end; ++number) {
      MILLRACE_RETURN_IF_ERROR(writer.Append(made_up.Make(number)));
      if (!request.progress || (number + 1 - told < kProgressRecords && number + 1 < end)) continue;
      request.progress(number + 1 - told, records);
      told = number + 1;
    }
    MILLRACE_RETURN_IF_ERROR(writer.Close(/*sync=*/true));
    bytes += writer.bytes();
  }
  return OkStatus();
}

}  // namespace

std::vector<Parameter> RecordsGenerateParameters() {
  return {
      IntParameter("records", 10'000, "records of all files", 1, std::int64_t{1} << 40),
      IntParameter("files", 4, "files", 1, 99'999),
      IntParameter("floats", 32, "floats of a record's feature x, at most; 0: there is no x", 0,
                   1 << 20),
      SeedParameter("seed", 0, "equal seed and options, equal bytes"),
  };
}

Result<std::string> GenerateRecords(const std::filesystem::path& dir,
                                    const GenerateRequest& request) {
  MILLRACE_ASSIGN_OR_RETURN(const Params params,
                            WithDefaults(RecordsGenerateParameters(), request.params));
  std::uint64_t bytes = 0;
  MILLRACE_RETURN_IF_ERROR(
      GenerateInto(dir, [&] { return WriteFiles(dir, params, request, bytes); }));
  return fmt::format(
      "dataset       {}\n"
      "records       {}\n"
      "files         {}\n"
      "bytes         {}\n",
      dir.string(), params.GetUnsigned("records"), params.GetUnsigned("files"), bytes);
}

}  // namespace millrace
