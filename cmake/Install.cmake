# What `cmake --install` gives besides the binaries: the client library for find_package(Millrace).
