// Writes the static tables of a plan (v1::Static) in serialized form, directly from the index. No
// message is made in between, which would hold a string for every definition.
//
// Free functions, thread-safe.
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/dataset/coq/source/context_table.h"
#include "server/dataset/coq/source/coq_tables.h"

namespace millrace {

/// Writes a v1::Static with the vocabulary of `tables` and, if they are given, `contexts`. The
/// bytes are those of the serialized message. Reads the index twice.
void WriteStaticTables(const CoqTables& tables, const ContextTable* contexts,
                       google::protobuf::io::CodedOutputStream& out);

}  // namespace millrace
