// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/error.hpp>
#include <ferry/platform/mapped_file.hpp>

#include "support/catch.hpp"
#include "support/scratch_directory.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

using namespace ferry;

namespace {

std::string_view text_of(const_bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

failure failure_of(const std::filesystem::path& path) {
  try {
    const mapped_file file(path);
    return {.detail = "mapped"};
  } catch (const ferry_error& error) {
    return error.reason();
  }
}

} // namespace

TEST_CASE("a mapped file shows the contents of the file") {
  const test::scratch_directory directory;
  const auto path = directory.write("weights", "contents");

  const mapped_file file(path);

  CHECK(file.path() == path);
  CHECK(text_of(file.bytes()) == "contents");
}

TEST_CASE("an empty file maps to no bytes") {
  const test::scratch_directory directory;

  const mapped_file file(directory.write("empty", ""));

  CHECK(file.bytes().empty());
}

TEST_CASE("a file that is missing is named together with the reason") {
  const test::scratch_directory directory;
  const auto path = directory.path() / "missing";

  const auto reason = failure_of(path);

  CHECK(reason.code == errc::io_failure);
  CHECK(reason.detail == "cannot open '" + path.string() + "': No such file or directory");
}

TEST_CASE("a directory cannot be mapped and is named together with the reason") {
  const test::scratch_directory directory;

  const auto reason = failure_of(directory.path());

  CHECK(reason.code == errc::io_failure);
  CHECK(reason.detail == "cannot map '" + directory.path().string() + "': Is a directory");
}

TEST_CASE("the contents of a mapped file survive dropping its pages") {
  const test::scratch_directory directory;
  const mapped_file file(directory.write("weights", std::string(100'000, 'w')));

  read_ahead(file.bytes());
  drop_resident_pages(file.bytes().subspan(1, 50'000));

  CHECK(text_of(file.bytes()) == std::string(100'000, 'w'));
}

TEST_CASE("dropping pages does not touch memory that no mapped file holds") {
  const test::scratch_directory directory;
  const mapped_file file(directory.write("weights", "contents"));
  const auto ordinary = std::vector<std::byte>(100'000, std::byte{1});

  drop_resident_pages(ordinary);

  CHECK(std::ranges::all_of(ordinary, [](std::byte b) { return b == std::byte{1}; }));
}
