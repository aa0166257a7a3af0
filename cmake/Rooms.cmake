# The rooms of the house: every folder of sources is declared here, and only here, lowest floor
# first. docs/internals/house.md has the picture. cmake/Module.cmake says what the words mean, and
# fails if a module sees what it must not.
#
# A new kind of dataset is a room below server/kinds; a new stage is a file of server/plan, and
# needs no line here.

# --- common: what server and client share --------------------------------------------------------
millrace_floor(common)

# The foundation of every other module: results, ids, time as values, hashes, addresses, and the
# interface of logs.
millrace_module(base common/base PURE
  LIBRARIES fmt::fmt $<BUILD_INTERFACE:xxhash>
  HOT dtype.cc hash.cc wide_hash.cc
  ALONE wide_hash.cc)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(common/base/wide_hash.cc PROPERTIES COMPILE_OPTIONS -mavx2)
endif()

# Parameters: their types, bounds and values, read from text, checked and printed.
millrace_module(parameters common/parameters PURE MODULES base LIBRARIES fmt::fmt)

# The only sources that see CLI11, which takes ten seconds to compile.
millrace_module(command_line common/command_line
  MODULES base parameters
  LIBRARIES CLI11::CLI11 fmt::fmt)

# JSON as values. The only sources that see the JSON library, whose header takes a compiler many
# seconds.
millrace_module(json common/json PURE MODULES base)

# The parts of a process that use the machine: clocks, threads, limits, and the log on stderr.
millrace_module(system common/system MODULES base LIBRARIES Threads::Threads spdlog::spdlog)

# Who a peer is, and what it may do: roles, identities, and the table of rights.
millrace_module(access common/access PURE MODULES base LIBRARIES fmt::fmt)

# Certificates: read, checked, made, kept up to date, and what is wrong if a handshake fails.
millrace_module(security common/security
  MODULES base system access
  LIBRARIES OpenSSL::SSL OpenSSL::Crypto fmt::fmt)

# The order and the steps of an epoch: pure arithmetic.
millrace_module(epoch common/epoch MACHINE MODULES base HOT ALL ALONE permutation.cc)
# Tests of every build compute statistics over some hundred million values, so even the debug build
# optimises this. Headers that were compiled without optimisation cannot be used with it.
set_source_files_properties(common/epoch/permutation.cc PROPERTIES
  COMPILE_OPTIONS $<$<CONFIG:Debug>:-O2> SKIP_PRECOMPILE_HEADERS ON)

# Tuning by trial: decisions alone.
millrace_module(tune common/tune MACHINE MODULES base LIBRARIES fmt::fmt)

# Tensors as values: their types, views of them, and conversions between the types of values.
millrace_module(tensor common/tensor PURE MODULES base HOT ALL)

# exp, log, tanh, sin and cos with the same bits on every machine.
millrace_module(math common/math PURE HOT ALL ALONE arrays.cc)

# Expressions over columns of numbers, from text to loops.
millrace_module(expr common/expr PURE
  MODULES base tensor math
  LIBRARIES fmt::fmt
  HOT kernels.cc loads.cc program.cc
  ALONE kernels.cc loads.cc)
# These options let GCC vectorise the loops; they change no value.
set_source_files_properties(common/math/arrays.cc common/expr/kernels.cc common/expr/loads.cc
  PROPERTIES
  COMPILE_OPTIONS "-fno-math-errno;-fno-trapping-math;$<$<CONFIG:Release>:-O3>"
  SKIP_PRECOMPILE_HEADERS ON)

# Operations on tensors, and programs made of them. They run at workers and at consumers.
set(kernels convert_kernels.cc gather_kernels.cc bit_gather.cc bit_select.cc)
millrace_module(operations common/operations PURE
  MODULES base parameters tensor expr
  HOT axes.cc bits.cc cast.cc concat.cc expr.cc join_kernels.cc graph_pad.cc length.cc lookup.cc
      loop.cc one_hot.cc pack_kernels.cc pack_pieces.cc pad.cc program.cc slice.cc stack.cc take.cc transpose.cc ${kernels}
  ALONE ${kernels})
# At -O2, GCC 12 does not vectorise a loop if its length is unknown at compile time. Nor does it
# compute both sides of a choice if one of them might trap. It forgets a file's own -O3 at the end of
# immintrin.h if headers are precompiled.
list(TRANSFORM kernels PREPEND common/operations/)
set_source_files_properties(${kernels} PROPERTIES
  COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3;-fno-trapping-math>")

# Fragments of batches made smaller for thin links. The libraries are named as the linker knows
# them, so that the installed package names no folder of this machine.
millrace_module(compression common/compression PURE MODULES base LIBRARIES zstd lz4 HOT ALL)

# The format of a batch: the meaning of its bytes.
millrace_module(batch_layout common/batch/layout PURE MODULES base)

# Packed batches: their memory, views of them, the writer, and files.
millrace_module(batch common/batch MODULES base system batch_layout HOT ALL ALONE batch_writer.cc)

# The tensors of a packed batch as operations read them, at workers and at consumers.
millrace_module(operands common/operands
  MODULES base tensor operations batch_layout batch
  HOT ALL)

# From a packed batch to a delivered one, on the host. The kernels in this folder run on GPUs too.
set(kernels expand.cc expand_edges.cc expand_program.cc graph_padding.cc compute_program.cc
  compute_steps.cc)
millrace_module(expand common/expand
  MODULES base system tensor operations batch_layout batch operands
  HOT ALL
  ALONE ${kernels})
# At -O2, GCC 12 does not vectorise a loop if its length is unknown at compile time.
list(TRANSFORM kernels PREPEND common/expand/)
set_source_files_properties(common/batch/batch_writer.cc ${kernels} PROPERTIES
  COMPILE_OPTIONS $<$<CONFIG:Release>:-O3> SKIP_PRECOMPILE_HEADERS OFF)

# Converts between values of the wire and values of the program, each pair in one place. Code that
# decides needs these conversions, but no network.
millrace_module(convert common/transport/convert PURE
  MODULES base epoch operations compression batch_layout tune proto)

# Streams of messages.
millrace_module(transport common/transport
  MODULES base system access proto convert
  LIBRARIES gRPC::grpc++
  HOT wire.cc)

# The network over gRPC.
millrace_module(transport_grpc common/transport/grpc
  MODULES base system access security transport services)

# Batches in shared memory, for consumers on a worker's host.
millrace_module(transport_shm common/transport/shm
  MODULES base system access security batch transport)

# YAML, read with the places where everything was written, and written for people or for files.
millrace_floor(server/yaml)
millrace_module(yaml server/yaml
  MODULES base parameters tensor
  LIBRARIES yaml-cpp fmt::fmt)

# --- What knows nothing of data ------------------------------------------------------------------
millrace_floor(server/files)

# Mapped files: faults in them, doubts about their content, identity, and I/O; the files of a
# dataset, where its index lies, and which of them are damaged.
millrace_module(files server/files MODULES base system yaml LIBRARIES fmt::fmt)

millrace_floor(server/sampling server/plugin server/state server/access server/web)

# Closures and neighbourhoods of nodes, drawn from arrays.
millrace_module(sampling server/sampling
  MODULES base batch_layout batch
  LIBRARIES fmt::fmt
  HOT ALL)

# The files of a plugin: what is hashed is copied, and what is copied runs.
millrace_module(plugin_files server/plugin/files MODULES base system files LIBRARIES fmt::fmt)

# The replies of a plugin's process: where they lie, and the check of every number of them.
millrace_module(plugin_reply server/plugin/reply PURE MODULES base json tensor LIBRARIES fmt::fmt)

# Processes that run plugins: starting and ending them, their memory, messages and output.
millrace_module(plugin_process server/plugin/process
  MODULES base system files plugin_reply
  LIBRARIES fmt::fmt)

# Plugins: code of users, in Python, that builds examples in processes of its own.
millrace_embed(plugin_program server/plugin/python/*.py server/plugin/embed_program.cmake)
millrace_module(plugin server/plugin
  MODULES base json system tensor files plugin_files plugin_reply plugin_process
  LIBRARIES fmt::fmt
  ALONE ${plugin_program})

# The state of dispatchers, and where it is kept.
millrace_module(state server/state MODULES base system proto)
millrace_module(state_sqlite server/state/sqlite
  MODULES base system state
  LIBRARIES SQLite::SQLite3)
millrace_module(state_etcd server/state/etcd
  MODULES base system access security transport_grpc state
  LIBRARIES millrace_etcd_proto)

# The access file: who may do what, by name or token.
millrace_module(access_file server/access
  MODULES base system access security yaml
  LIBRARIES fmt::fmt)

# The HTTP port of a daemon: metrics for Prometheus, and a page for people.
millrace_embed(page_files server/web/page/*.* cmake/embed_page.cmake)
millrace_module(web server/web
  MODULES base system access security convert proto transport transport_grpc
  LIBRARIES prometheus-cpp::core OpenSSL::SSL ZLIB::ZLIB
  ALONE ${page_files})

# --- What kinds and plans share ------------------------------------------------------------------
millrace_floor(server/source)

# Datasets, the sources in them, the stages of pipelines and the parts of plans that they give.
millrace_module(source server/source
  MODULES base parameters system epoch tensor expr operations batch_layout batch proto files
  LIBRARIES fmt::fmt OpenSSL::Crypto
  HOT keyed_order.cc ranked_bitmap.cc)

millrace_floor(server/plan server/kinds/coq server/kinds/graph server/kinds/records
  server/kinds/tokens server/kinds/python)

# --- Plans ---------------------------------------------------------------------------------------
# The facts of a plan, which travel and are kept. Machines have them, too.
millrace_module(plan_facts server/plan/facts MACHINE MODULES base epoch proto convert)

# Reads and checks a pipeline's text, and makes its canonical form.
millrace_module(plan_text server/plan/text
  MODULES base parameters batch_layout tensor operations yaml source
  LIBRARIES yaml-cpp)

# Examples that were built before, kept in memory and on disk, and sources that take them from there.
millrace_module(plan_cache server/plan/cache
  MODULES base system batch_layout batch operations files source
  LIBRARIES fmt::fmt
  HOT ALL)

# Columns that are found by building every example once.
millrace_module(plan_columns server/plan/columns
  MODULES base system tensor batch_layout batch expr files source
  LIBRARIES fmt::fmt)

# Which examples an epoch has, and in which order.
millrace_module(plan_order server/plan/order
  MODULES base system epoch tensor expr batch_layout batch operations source plan_columns
  LIBRARIES fmt::fmt
  HOT balance_order.cc bucket_order.cc chunked_reader.cc elias_fano.cc mix_order.cc place_order.cc
      runs.cc)

# Documents of any length, packed into rows of one size: from lengths to rows of pieces.
millrace_module(plan_pack server/plan/pack
  MODULES base system
  LIBRARIES fmt::fmt Threads::Threads
  HOT concat_rows.cc length_sums.cc packed_window.cc row_counter.cc window_packer.cc)

# A source of rows that documents are packed into.
millrace_module(plan_packed server/plan/packed
  MODULES base system tensor epoch operations batch_layout batch files source plan_order plan_pack
  LIBRARIES fmt::fmt
  HOT packed_reader.cc packed_documents.cc)

# The graph of tensors, cut at its transfer cut, and functions of plugins.
millrace_module(plan_tensors server/plan/tensors
  MODULES base system tensor operations batch_layout batch operands plugin_files plugin_reply
          plugin_process plugin source
  LIBRARIES fmt::fmt
  HOT function_reader.cc)

# Plans with several branches.
millrace_module(plan_mix server/plan/mix
  MODULES base system epoch tensor operations batch_layout batch operands proto convert source
          plan_tensors
  LIBRARIES fmt::fmt
  HOT mixed_reader.cc)

# Plans, and the stages that they are made of, one file each.
millrace_module(plan server/plan
  MODULES base parameters system epoch tensor operations batch_layout batch operands proto convert
          files sampling plugin source plan_facts plan_text plan_cache plan_columns plan_order
          plan_pack plan_packed plan_tensors plan_mix
  HOT plan.cc)

# --- Kinds of datasets ---------------------------------------------------------------------------
# One file of a Coq dataset.
millrace_module(coq_scan server/kinds/coq/scan MODULES base files coq_schema HOT ALL)

# The index of a Coq dataset.
millrace_module(coq_index server/kinds/coq/index
  MODULES base system files source coq_scan
  LIBRARIES Threads::Threads
  HOT blob_placer.cc definition_table.cc index_assembler.cc topological_order.cc)

# Generates Coq datasets.
millrace_module(coq_generator server/kinds/coq/generator
  MODULES base system source coq_schema coq_index)

# Coq datasets: proof states and definitions.
millrace_module(kind_coq server/kinds/coq OWN_HOT_LIBRARY
  MODULES base parameters system batch_layout batch proto convert files sampling source coq_scan
          coq_index coq_generator
  HOT context_table.cc coq_definitions.cc coq_proof_states.cc coq_view.cc edges.cc example_table.cc)
# Two neighbouring words are not worth a vector here: the loop of the closure waits for single
# words, and packing them costs more than it saves.
target_compile_options(millrace_kind_coq_hot PRIVATE -fno-tree-slp-vectorize)

# The files of a graph dataset: graph.json and the arrays, opened and checked.
millrace_module(graph_format server/kinds/graph/format
  MODULES base json system files source
  LIBRARIES fmt::fmt)

# Writes graph datasets.
millrace_module(graph_writer server/kinds/graph/writer
  MODULES base system files source graph_format
  LIBRARIES fmt::fmt)

# Generates graph datasets.
millrace_module(graph_generator server/kinds/graph/generator
  MODULES base system epoch source graph_format graph_writer
  LIBRARIES fmt::fmt)

# Graph datasets: roots with their closures or neighbourhoods, and whole small graphs.
millrace_module(kind_graph server/kinds/graph
  MODULES base parameters json system tensor operations batch_layout batch proto convert files
          sampling source graph_format graph_generator
  LIBRARIES fmt::fmt
  HOT gathered_arrays.cc graph_view.cc neighbor_source.cc root_source.cc small_graph_source.cc)

# TFRecord framing with its checksums, and tf.train.Example.
millrace_module(records_format server/kinds/records/format
  MODULES base system files
  LIBRARIES fmt::fmt
  HOT ALL)

# The index of a dataset of records.
millrace_module(records_index server/kinds/records/index
  MODULES base system files proto source records_format
  LIBRARIES fmt::fmt Threads::Threads
  HOT records_index.cc records_scan.cc)

# Generates datasets of records.
millrace_module(records_generator server/kinds/records/generator
  MODULES base parameters files source records_format
  LIBRARIES fmt::fmt)

# Datasets of records.
millrace_module(kind_records server/kinds/records
  MODULES base json parameters system tensor batch_layout batch files source records_format
          records_index records_generator
  LIBRARIES fmt::fmt
  HOT record_rows.cc records_dataset.cc records_source.cc walked_groups.cc)

# Files of tokens, and the index of sequences beside them.
millrace_module(tokens_format server/kinds/tokens/format
  MODULES base files
  LIBRARIES fmt::fmt
  HOT token_copy.cc)

# The index of a dataset of tokens.
millrace_module(tokens_index server/kinds/tokens/index
  MODULES base system files source tokens_format
  LIBRARIES fmt::fmt Threads::Threads)

# Generates datasets of tokens.
millrace_module(tokens_generator server/kinds/tokens/generator
  MODULES base parameters math files source tokens_format
  LIBRARIES fmt::fmt)

# Datasets of tokens.
millrace_module(kind_tokens server/kinds/tokens
  MODULES base parameters json system batch_layout batch files source tokens_format tokens_index
          tokens_generator
  LIBRARIES fmt::fmt
  HOT marked_documents.cc token_documents.cc tokens_source.cc)

# A plugin, or a folder that a plugin reads, as a dataset.
millrace_module(kind_python server/kinds/python
  MODULES base parameters system tensor batch_layout batch files plugin_files plugin_reply
          plugin_process plugin source
  LIBRARIES fmt::fmt)

# --- Decisions of a process ----------------------------------------------------------------------
millrace_floor(server/catalog server/dispatcher server/worker)

# The product's kinds of datasets, a line each, and their stages joined to those of plans.
millrace_module(catalog server/catalog
  MODULES base plugin source plan kind_coq kind_graph kind_records kind_tokens kind_python)

# The dispatcher's facts and decisions, and the dispatcher on a network.
millrace_module(dispatcher_machine server/dispatcher/machine MACHINE
  MODULES base access epoch batch_layout proto convert plan_facts)
millrace_module(dispatcher_service server/dispatcher/service
  MODULES base system access security proto convert transport state state_etcd plan_facts
          dispatcher_machine)

# The worker's decisions.
millrace_module(worker_machine server/worker/machine MACHINE
  MODULES base access epoch compression batch_layout tune proto convert)
# The worker on a network. builder.cc has an object file of its own, so that tests/fault can link
# another builder in its place.
millrace_module(worker_service server/worker/service
  MODULES base system access files compression batch convert transport plugin plan_facts plan_cache
          plan worker_machine
  ALONE builder.cc)

# --- Adapters: options, threads, streams ---------------------------------------------------------
millrace_floor(server/daemon client)

# The parts of a daemon, and the code that puts them together.
millrace_module(daemon server/daemon
  MODULES base parameters command_line system access security access_file convert transport
          transport_grpc transport_shm yaml state_sqlite state_etcd source plugin_files
          plugin_process plugin kind_python plan_facts plan_columns plan_text plan
          dispatcher_machine dispatcher_service worker_service web)

# The GPU as an accelerator.
if(MILLRACE_CUDA_FOUND)
  add_subdirectory(client/cuda)
endif()

# The consumer's decisions.
millrace_module(session_machine client/session/machine MACHINE
  MODULES base epoch compression batch_layout tune proto convert
  HOT ask_book.cc dealing.cc dealing_preferred.cc grants.cc worker_book.cc)

# The header that programs include: client/session.h.
millrace_module(client_api client
  MODULES base parameters system epoch operations compression batch_layout batch expand
          session_machine)

# The devices to which batches are delivered: the host, or a GPU.
set(alone "")
if(MILLRACE_CUDA)
  set(alone ALONE device_name.cc)
endif()
millrace_module(device client/device MODULES base system batch_layout batch expand ${alone})
if(MILLRACE_CUDA)
  millrace_use(millrace_device millrace_cuda)
  set_source_files_properties(client/device/device_name.cc PROPERTIES
    COMPILE_DEFINITIONS MILLRACE_CUDA)
endif()

# A session's threads, streams and memory.
millrace_module(session_run client/session/run
  MODULES base system security epoch operations compression batch_layout batch expand
          proto convert transport transport_grpc transport_shm session_machine client_api device)

# Draws pictures of examples.
millrace_module(viz client/viz)

# Reads the named tables of Coq datasets.
millrace_module(client_coq client/coq PURE MODULES base)

# The whole client library, for programs. find_package(Millrace) offers it as millrace::client.
add_library(millrace_client INTERFACE)
add_library(millrace::client ALIAS millrace_client)
set_target_properties(millrace_client PROPERTIES EXPORT_NAME client)
target_link_libraries(millrace_client INTERFACE
  millrace_session_run millrace_viz millrace_client_coq)

# --- What a person starts ------------------------------------------------------------------------
millrace_floor(client/local)

# Batches without a server, for the command-line tool and for Python.
millrace_module(local client/local
  MODULES base system epoch batch expand convert plugin_process plugin source kind_python plan_text
          plan session_machine client_api session_run)

millrace_floor(client/cli)

# Code that all commands of `millrace` share.
millrace_module(cli client/cli MODULES base command_line system files client_api)

# The parts of `millrace consume`.
millrace_module(cli_consume client/cli/consume
  MODULES base system epoch batch_layout client_api session_run)

# How much a training needs: arithmetic over what a sample of batches cost, and its report.
millrace_module(cli_size client/cli/size PURE MODULES base json LIBRARIES fmt::fmt)

# The parts of commands that need no server.
millrace_module(cli_offline client/cli/offline
  MODULES base parameters command_line json system epoch tensor operations batch_layout batch
          operands expand files plugin_process plugin source plan_order plan_tensors plan_text plan
          catalog local cli cli_size)

# The text that `millrace top` and `millrace status` show.
millrace_module(cli_top client/cli/top MODULES base system tune proto convert cli)

# The recording of `millrace trace`.
millrace_module(cli_trace client/cli/trace MODULES base system epoch proto convert session_machine)

# The commands of `millrace`, one file each.
millrace_module(cli_commands client/cli/commands
  MODULES base parameters command_line json system access security tensor operations batch_layout
          batch expand convert transport transport_grpc files plugin_process plugin source coq_index
          kind_coq kind_python plan_order plan_tensors plan catalog client_api viz client_coq cli
          cli_consume cli_size cli_offline cli_top cli_trace)

# The programs.
add_executable(millraced server/main.cc)
target_link_libraries(millraced PRIVATE
  millrace_daemon millrace_catalog millrace_command_line millrace_options)
add_executable(millrace client/cli/main.cc)
target_link_libraries(millrace PRIVATE millrace_cli_commands millrace_options)
install(TARGETS millraced COMPONENT daemon)
install(TARGETS millrace COMPONENT cli)
# Other programs and scripts of the tree look for them there.
set_target_properties(millraced PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/server)
set_target_properties(millrace PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/client/cli)
add_subdirectory(client/examples)
if(MILLRACE_PYTHON)
  add_subdirectory(client/python)
endif()
