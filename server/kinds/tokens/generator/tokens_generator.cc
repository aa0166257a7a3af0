#include "server/kinds/tokens/generator/tokens_generator.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/base/parse_number.h"
#include "common/math/exponential.h"
#include "common/math/trigonometry.h"
#include "common/parameters/make_parameter.h"
#include "server/files/file_io.h"
#include "server/files/number_bytes.h"
#include "server/kinds/tokens/format/sequence_index.h"
#include "server/kinds/tokens/format/token_type.h"
#include "server/source/random.h"

namespace millrace {
namespace {

constexpr double kLargestSigma = 4;
constexpr const char* kPairs = "pairs";
constexpr const char* kRaw = "raw";
/// No document is longer.
constexpr std::uint64_t kLongestDocument = std::uint64_t{1} << 26;
/// A file is written in pieces of about this size.
constexpr std::size_t kWrittenAtOnce = std::size_t{1} << 20;
constexpr std::uint64_t kProgressDocuments = 1 << 10;

struct TokensToMake {
  std::uint64_t documents = 0;
  std::uint64_t files = 0;
  DType dtype = DType::kUint16;
  double mean = 0;
  double sigma = 0;
  std::uint32_t vocab = 0;
  bool pairs = true;
  std::uint64_t seed = 0;
};

/// The code of a type in X.idx; 0 if it has none.
std::uint8_t CodeOf(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return 1;
    case DType::kInt8:
      return 2;
    case DType::kInt16:
      return 3;
    case DType::kInt32:
      return 4;
    case DType::kInt64:
      return 5;
    case DType::kUint16:
      return 8;
    default:
      return 0;
  }
}

Result<TokensToMake> ReadParams(const Params& params) {
  TokensToMake make;
  make.documents = params.GetUnsigned("documents");
  make.files = params.GetUnsigned("files");
  make.dtype = *DTypeFromName(params.GetText("dtype"));
  make.mean = static_cast<double>(params.GetUnsigned("mean"));
  MILLRACE_ASSIGN_OR_RETURN(make.sigma, ParseDecimal(params.GetText("sigma")));
  make.vocab = static_cast<std::uint32_t>(params.GetUnsigned("vocab"));
  make.pairs = params.GetText("format") == kPairs;
  make.seed = params.GetUnsigned("seed");
  if (make.vocab - 1 > LargestTokenOf(make.dtype)) {
    return InvalidArgument(
        fmt::format("--vocab: the token {} does not fit --dtype {}, expected at "
                    "most {}",
                    make.vocab - 1, DTypeName(make.dtype), LargestTokenOf(make.dtype)));
  }
  if (make.pairs && CodeOf(make.dtype) == 0) {
    return InvalidArgument(fmt::format(
        "--dtype: pairs cannot have {}, expected uint8, uint16, int8, int16, int32 or int64, or "
        "--format raw",
        DTypeName(make.dtype)));
  }
  return make;
}

/// One document after another, each a function of the seed and its number.
class MadeUpDocuments {
 public:
  explicit MadeUpDocuments(const TokensToMake& make)
      : make_(make), mu_(math::Log(make.mean) - make.sigma * make.sigma / 2) {}

  /// Appends a document, and returns its length.
  std::uint64_t Append(std::uint64_t number, std::vector<std::byte>& out) const {
    generator::Random random(generator::Mix(make_.seed, number));
    const std::uint64_t length = Length(random);
    for (std::uint64_t i = 0; i + 1 < length; ++i) {
      Put(random.LowBelow(make_.vocab - 1), out);
    }
    Put(make_.vocab - 1, out);
    return length;
  }

 private:
  /// A number in (0, 1].
  static double Uniform(generator::Random& random) {
    return static_cast<double>((random.Next() >> 11) + 1) * 0x1p-53;
  }
  /// Log-normal, at least 1 (Box and Muller, 1958).
  std::uint64_t Length(generator::Random& random) const {
    const double radius = std::sqrt(-2 * math::Log(Uniform(random)));
    const double normal = radius * math::Cos(2 * std::numbers::pi * Uniform(random));
    const double length = std::floor(math::Exp(mu_ + make_.sigma * normal) + 0.5);
    return static_cast<std::uint64_t>(
        std::clamp(length, 1.0, static_cast<double>(kLongestDocument)));
  }
  void Put(std::uint64_t token, std::vector<std::byte>& out) const {
    for (unsigned byte = 0; byte < DTypeSize(make_.dtype); ++byte) {
      out.push_back(static_cast<std::byte>(token >> (8 * byte)));
    }
  }

  const TokensToMake& make_;
  const double mu_;
};

/// A new file that is written from begin to end.
class TokensWriter {
 public:
  static Result<TokensWriter> Create(const std::filesystem::path& path) {
    MILLRACE_ASSIGN_OR_RETURN(FileDescriptor file,
                              OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, Readers::kUmask));
    return TokensWriter(path, std::move(file));
  }

  /// The bytes to write next. REQUIRES: Flush is called now and then, and at the end.
  std::vector<std::byte>& pending() { return pending_; }
  Status Flush() {
    MILLRACE_RETURN_IF_ERROR(WriteAt(file_, pending_, written_).WithContext(path_.string()));
    written_ += pending_.size();
    pending_.clear();
    return OkStatus();
  }
  Status Close() {
    MILLRACE_RETURN_IF_ERROR(Flush());
    return SyncFile(file_).WithContext(path_.string());
  }
  std::uint64_t written() const { return written_; }

 private:
  TokensWriter(std::filesystem::path path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::filesystem::path path_;
  FileDescriptor file_;
  std::vector<std::byte> pending_;
  std::uint64_t written_ = 0;
};

Status WriteSequenceIndex(const std::filesystem::path& path, DType dtype,
                          const std::vector<std::uint32_t>& lengths, std::uint64_t& bytes) {
  MILLRACE_ASSIGN_OR_RETURN(TokensWriter file, TokensWriter::Create(path));
  std::vector<std::byte>& out = file.pending();
  PutText(out, kSequenceIndexMagic);
  PutNumber(out, std::uint64_t{1});
  PutNumber(out, CodeOf(dtype));
  PutNumber(out, static_cast<std::uint64_t>(lengths.size()));
  PutNumber(out, static_cast<std::uint64_t>(lengths.size() + 1));
  for (const std::uint32_t length : lengths) PutNumber(out, length);
  std::uint64_t offset = 0;
  for (const std::uint32_t length : lengths) {
    PutNumber(out, offset);
    offset += std::uint64_t{length} * DTypeSize(dtype);
  }
  // Every document is one sequence.
  for (std::uint64_t i = 0; i <= lengths.size(); ++i) PutNumber(out, i);
  MILLRACE_RETURN_IF_ERROR(file.Close());
  bytes += file.written();
  return OkStatus();
}

struct TokensReport {
  std::uint64_t tokens = 0;
  std::uint64_t bytes = 0;
};

Status WriteTokens(const std::filesystem::path& dir, const TokensToMake& make,
                   const GenerateRequest& request, TokensReport& report) {
  const MadeUpDocuments made_up(make);
  for (std::uint64_t f = 0; f < make.files; ++f) {
    const std::string name = fmt::format("part-{:05}", f);
    MILLRACE_ASSIGN_OR_RETURN(TokensWriter file, TokensWriter::Create(dir / (name + ".bin")));
    std::vector<std::uint32_t> lengths;
    std::uint64_t told = make.documents * f / make.files;
    const std::uint64_t end = make.documents * (f + 1) / make.files;
    for (std::uint64_t number = told; number < end; ++number) {
      lengths.push_back(static_cast<std::uint32_t>(made_up.Append(number, file.pending())));
      report.tokens += lengths.back();
      if (file.pending().size() >= kWrittenAtOnce) MILLRACE_RETURN_IF_ERROR(file.Flush());
      const bool tell = number + 1 - told == kProgressDocuments || number + 1 == end;
      if (!request.progress || !tell) continue;
      request.progress(number + 1 - told, make.documents);
      told = number + 1;
    }
    MILLRACE_RETURN_IF_ERROR(file.Close());
    report.bytes += file.written();
    if (!make.pairs) continue;
    MILLRACE_RETURN_IF_ERROR(
        WriteSequenceIndex(dir / (name + ".idx"), make.dtype, lengths, report.bytes));
  }
  return OkStatus();
}

Status CheckSigma(const ParamValue& value) {
  return ParseDecimal(std::get<std::string>(value), {.min = 0, .max = kLargestSigma}).status();
}

}  // namespace

std::vector<Parameter> TokensGenerateParameters() {
  return {
      IntParameter("documents", 10'000, "documents of all files", 1, std::int64_t{1} << 40),
      IntParameter("files", 4, "files", 1, 99'999),
      WordParameter("dtype", "uint16", "type of the tokens in the files",
                    {"uint8", "uint16", "uint32", "int8", "int16", "int32", "int64"}),
      IntParameter("mean", 600, "tokens of a document, about, on average", 1, 1 << 20),
      WithDefault(
          TextParameter("sigma",
                        "spread of lengths: the standard deviation of their logarithm, 0 to 4",
                        CheckSigma),
          std::string("1.2")),
      IntParameter("vocab", 50'257, "tokens are below this; the last one ends each document", 2,
                   static_cast<std::int64_t>(kLargestToken) + 1),
      WordParameter("format", kPairs, "pairs of .bin and .idx (Megatron-LM), or bare .bin files",
                    {kPairs, kRaw}),
      SeedParameter("seed", 0, "equal seed and options, equal bytes"),
  };
}

Result<std::string> GenerateTokens(const std::filesystem::path& dir,
                                   const GenerateRequest& request) {
  MILLRACE_ASSIGN_OR_RETURN(const Params params,
                            WithDefaults(TokensGenerateParameters(), request.params));
  MILLRACE_ASSIGN_OR_RETURN(const TokensToMake make, ReadParams(params));
  TokensReport report;
  MILLRACE_RETURN_IF_ERROR(
      GenerateInto(dir, [&] { return WriteTokens(dir, make, request, report); }));
  return fmt::format(
      "dataset       {}\n"
      "documents     {}\n"
      "tokens        {}\n"
      "files         {}\n"
      "bytes         {}\n"
      "source: {}\n",
      dir.string(), make.documents, report.tokens, make.files, report.bytes,
      make.pairs ? "tokens"
                 : fmt::format("{{tokens: {{dtype: {}, eos: {}}}}}", DTypeName(make.dtype),
                               make.vocab - 1));
}

}  // namespace millrace
