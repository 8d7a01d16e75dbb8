// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/conversion.hpp>
#include <ferry/platform/error.hpp>
#include <ferry/platform/mapped_file.hpp>
#include <ferry/platform/memory.hpp>

#include "support/catch.hpp"
#include "support/resident_pages.hpp"
#include "support/scratch_directory.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
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

  populate_pages(file.bytes());
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

TEST_CASE("bytes of a mapped file are read from the file, converted where that is wanted") {
  const test::scratch_directory directory;
  const std::string contents(std::size_t{600} << 10, '\x40');
  const mapped_file file(directory.write("weights", contents));
  const auto part = file.bytes().subspan(2, (std::size_t{300} << 10) + 2);
  std::vector<std::byte> plain(part.size());
  std::vector<std::byte> wide(2 * part.size());

  read_mapped(part, plain);
  read_mapped(part, wide, conversion::bf16_to_f32);

  CHECK(std::ranges::equal(plain, part));
  auto wrong = 0;
  for (std::size_t i = 0; i != wide.size(); ++i)
    wrong += wide[i] == (i % 4 < 2 ? std::byte{0} : std::byte{0x40}) ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("what is read at a time ends where the next large pages begin, with a whole element") {
  constexpr std::size_t piece = std::size_t{4} << 20;
  const test::scratch_directory directory;
  const auto path = directory.write("weights", "");
  std::filesystem::resize_file(path, 3 * piece);
  const mapped_file file(path);
  const auto address = reinterpret_cast<std::uintptr_t>(file.bytes().data());
  const auto boundary = piece - address % piece;

  const auto from_3 = [&](conversion how) {
    return first_piece(file.bytes().subspan(3), how).size();
  };
  CHECK(from_3(conversion::none) == boundary - 3);
  CHECK(from_3(conversion::bf16_to_f32) == boundary - 2);
  CHECK(from_3(conversion::f32_to_bf16) == boundary);
  CHECK(first_piece(file.bytes().subspan(boundary)).size() == piece);
  CHECK(first_piece(file.bytes().subspan(boundary, 10)).size() == 10);
  CHECK(first_piece({}).empty());
}

TEST_CASE("elements that lie across the pieces of a file are converted whole") {
  constexpr std::size_t elements = (std::size_t{9} << 20) / 2;
  const test::scratch_directory directory;
  std::string contents(2 * elements + 1, '\0');
  for (std::size_t i = 0; i != contents.size(); ++i)
    contents[i] = static_cast<char>(i * 31 >> 4);
  const mapped_file file(directory.write("weights", contents));
  const auto source = file.bytes().subspan(1);
  std::vector<std::byte> expected(2 * source.size());
  convert(conversion::bf16_to_f32, std::as_bytes(std::span(contents)).subspan(1), expected);
  std::vector<std::byte> read(expected.size());

  read_mapped(source, read, conversion::bf16_to_f32);

  CHECK(read == expected);
}

TEST_CASE("a reader keeps the pages of one piece at most, and none that it has let go") {
  constexpr std::size_t piece = std::size_t{4} << 20;
  const test::scratch_directory directory;
  const auto path = directory.write("weights", "");
  std::filesystem::resize_file(path, 6 * piece);
  const mapped_file file(path);
  std::vector<std::byte> target(2 * file.bytes().size());
  mapped_reader reader;
  const auto read = [&](std::size_t begin, std::size_t bytes) {
    reader.read(file.bytes().subspan(begin, bytes), mutable_bytes(target).first(2 * bytes),
                conversion::bf16_to_f32);
  };

  read(0, file.bytes().size());
  CHECK(test::resident_pages(file.bytes()) * page_bytes() <= 2 * piece);
  read(100, 200);
  read(300, 200);
  const auto kept = test::resident_pages(file.bytes());
  CHECK(kept > 0);
  CHECK(kept * page_bytes() <= 2 * piece);
  reader.let_go();
  CHECK(test::resident_pages(file.bytes()) == 0);
  read_mapped(file.bytes().first(1000), mutable_bytes(target).first(2000), conversion::bf16_to_f32);
  CHECK(test::resident_pages(file.bytes()) == 0);
}

TEST_CASE("a reader lets go of all that it has read, in whatever order and of whatever file") {
  constexpr std::size_t piece = std::size_t{4} << 20;
  const test::scratch_directory directory;
  const auto path = directory.write("weights", "");
  std::filesystem::resize_file(path, 3 * piece);
  const mapped_file file(path);
  const mapped_file one(directory.write("one", std::string(50'000, '1')));
  const mapped_file other(directory.write("other", std::string(50'000, '2')));
  std::vector<std::byte> target(2 * 50'000);
  mapped_reader reader;
  const auto read = [&](const_bytes what) {
    reader.read(what, mutable_bytes(target).first(2 * what.size()), conversion::bf16_to_f32);
  };

  const auto window = piece - reinterpret_cast<std::uintptr_t>(file.bytes().data()) % piece;
  for (const auto begin : {window + 3'000'000, window + 1'000'000, window - 100'000})
    read(file.bytes().subspan(begin, 20'000));
  read(one.bytes());
  read(other.bytes());
  read(one.bytes());
  reader.let_go();
  CHECK(test::resident_pages(file.bytes()) == 0);
  CHECK(test::resident_pages(one.bytes()) == 0);
  CHECK(test::resident_pages(other.bytes()) == 0);
}

TEST_CASE("pages that their file has lost are told when they are converted, even if it has them "
          "again") {
  const test::scratch_directory directory;
  const auto path = directory.write("weights", std::string(100'000, 'w'));
  const mapped_file file(path);
  const auto written = std::filesystem::last_write_time(path);
  std::vector<std::byte> target(2 * 50'000);
  std::filesystem::resize_file(path, 20'000);
  CHECK(*const_cast<const volatile std::byte*>(&file.bytes().back()) == std::byte{0});
  std::filesystem::resize_file(path, 100'000);
  std::filesystem::last_write_time(path, written);

  CHECK_THROWS_WITH(read_mapped(file.bytes().last(50'000), target, conversion::bf16_to_f32),
                    Catch::Contains("cannot read a page of '" + path.string() + "'"));
}

TEST_CASE("a file that was cut short is told before it is converted") {
  const test::scratch_directory directory;
  const auto path = directory.write("weights", std::string(100'000, 'w'));
  const mapped_file file(path);
  std::vector<std::byte> target(100'000);
  std::filesystem::resize_file(path, 20'000);
  CHECK_THROWS_WITH(read_mapped(file.bytes().last(50'000), target, conversion::bf16_to_f32),
                    "io_failure: '" + path.string() +
                        "' was changed while it was in use: it had 100000 bytes and has 20000");
}

TEST_CASE("bytes that are in no file are copied like any other") {
  const std::vector<std::byte> source(64, std::byte{3});
  std::vector<std::byte> target(64);
  read_mapped(source, target);
  CHECK(target == source);
}

TEST_CASE("a file that is cut short while it is mapped is told, where its pages would end the "
          "process") {
  const test::scratch_directory directory;
  const auto path = directory.write("weights", std::string(100'000, 'w'));
  const mapped_file file(path);
  std::vector<std::byte> target(50'000);
  std::filesystem::resize_file(path, 20'000);

  CHECK_THROWS_WITH(read_mapped(file.bytes().last(50'000), target),
                    "io_failure: '" + path.string() +
                        "' was changed while it was in use: it had 100000 bytes and has 20000");
  CHECK_THROWS_WITH(read_mapped(file.bytes().first(10'000), mutable_bytes(target).first(10'000)),
                    Catch::Contains("was changed while it was in use"));
}

TEST_CASE("a file that is written while it is mapped is told, one that is replaced goes on") {
  const test::scratch_directory directory;
  const auto path = directory.write("weights", std::string(100'000, 'w'));
  const mapped_file file(path);
  std::vector<std::byte> target(100'000);

  std::filesystem::rename(directory.write("other", std::string(100'000, 'o')), path);
  read_mapped(file.bytes(), target);
  CHECK(target == std::vector<std::byte>(100'000, std::byte{'w'}));

  const mapped_file next(path);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() +
                                             std::chrono::seconds(5));
  CHECK_THROWS_WITH(read_mapped(next.bytes(), target),
                    Catch::Contains("'" + path.string() + "' was written while it was in use"));
}

namespace {

long minor_faults() {
  ::rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

/// Reads a byte of each page. Returns how many pages had to be got for it, several at a time.
long faults_of_reading(const_bytes pages) {
  const auto before = minor_faults();
  auto sum = 0;
  for (std::size_t at = 0; at < pages.size(); at += page_bytes())
    sum += static_cast<int>(*const_cast<const volatile std::byte*>(pages.data() + at));
  return sum == 0 ? -1 : minor_faults() - before;
}

} // namespace

TEST_CASE("pages that were populated are read without a fault, until they are dropped") {
  const test::scratch_directory directory;
  const mapped_file file(directory.write("weights", std::string(std::size_t{16} << 20, 'w')));

  static_cast<void>(
      faults_of_reading(file.bytes())); // What a sanitizer keeps of them is there now.
  drop_resident_pages(file.bytes());
  populate_pages(file.bytes());
  const auto populated = faults_of_reading(file.bytes());
  drop_resident_pages(file.bytes());
  CHECK(faults_of_reading(file.bytes()) > populated);
}

TEST_CASE("the large page in which a range begins is dropped with it") {
  const test::scratch_directory directory;
  const auto path = directory.write("weights", "");
  std::filesystem::resize_file(path, std::size_t{8} << 20);
  const mapped_file file(path);

  static_cast<void>(
      faults_of_reading(file.bytes().first(1))); // Mapped for itself, as what follows.
  populate_pages(file.bytes().first(std::size_t{2} << 20));
  drop_resident_pages(file.bytes().subspan(1'500'000, 1000));

  CHECK(test::resident_pages(file.bytes().first(1'500'000)) == 0);
}

TEST_CASE("pages of a file that is not what it was are not populated") {
  const test::scratch_directory directory;
  const auto path = directory.write("weights", std::string(100'000, 'w'));
  const mapped_file file(path);
  std::filesystem::resize_file(path, 20'000);
  CHECK_THROWS_WITH(populate_pages(file.bytes()),
                    Catch::Contains("had 100000 bytes and has 20000"));
  const std::vector<std::byte> no_file(10);
  CHECK_NOTHROW(populate_pages(no_file));
}

TEST_CASE("an access to a page that its file has lost reads zeros, and is told from then on") {
  const test::scratch_directory directory;
  const mapped_file whole(directory.write("whole", std::string(100'000, 'w')));
  {
    const auto path = directory.write("cut", std::string(100'000, 'c'));
    const mapped_file cut(path);
    std::filesystem::resize_file(path, 20'000);
    CHECK(check_lost_pages());

    CHECK(*const_cast<const volatile std::byte*>(&cut.bytes().back()) == std::byte{0});

    const auto told = check_unchanged(cut.bytes().first(1));
    REQUIRE_FALSE(told);
    CHECK(told.error().code == errc::io_failure);
    CHECK(told.error().detail == "'" + path.string() +
                                     "' was changed while it was in use: it had 100000 bytes and "
                                     "has 20000");
    CHECK_FALSE(check_lost_pages());
    CHECK(check_unchanged(whole.bytes()));
    CHECK(text_of(whole.bytes().last(2)) == "ww");
  }
  CHECK(check_lost_pages());
}

TEST_CASE("a bus error that is about no mapped file ends the process as ever") {
  const test::scratch_directory directory;
  const mapped_file file(directory.write("weights", "w"));
  const auto child = ::fork();
  if (child == 0) {
    ::raise(SIGBUS);
    ::_exit(0);
  }
  auto status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK_FALSE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE(
    "a file that is written or cut within its last page has changed for who reads its pages") {
  const test::scratch_directory directory;
  const auto path = directory.write("weights", std::string(10'000, 'w'));
  const mapped_file file(path);
  CHECK(check_unchanged(file.bytes()));
  CHECK(check_unchanged({}));
  std::filesystem::resize_file(path, 9'990);
  const auto told = check_unchanged(file.bytes().first(10));
  REQUIRE_FALSE(told);
  CHECK_THAT(told.error().detail, Catch::Contains("had 10000 bytes and has 9990"));
}

TEST_CASE("a number that is too large for a narrower type is refused with its place") {
  const test::scratch_directory directory;
  constexpr std::size_t count = 1001;
  const auto wrong = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{613}, count - 1);
  std::vector<float> numbers(count, 3.3e38F);
  numbers[wrong] = std::numeric_limits<float>::max();
  numbers[count - 1] = std::numeric_limits<float>::max();
  const auto path = directory.write(
      "weights", std::string_view(reinterpret_cast<const char*>(numbers.data()), 4 * count));
  const mapped_file file(path);
  const mapped_file named(path, [](std::uint64_t at) { return "float " + std::to_string(at / 4); });
  std::vector<std::byte> narrow(2 * count);
  const auto read = [&](const mapped_file& from) {
    read_mapped(from.bytes(), narrow, conversion::f32_to_bf16);
  };
  const auto place = "byte " + std::to_string(4 * wrong);
  const std::string reason = " that is too large to go from f32 to bf16; compute in f32";

  CHECK_THROWS_WITH(read(file), "invalid_checkpoint: '" + path.string() + "' has a number in " +
                                    place + reason);
  CHECK_THROWS_WITH(read(named), "invalid_checkpoint: '" + path.string() +
                                     "' has a number in float " + std::to_string(wrong) + " (" +
                                     place + ")" + reason);
  read_mapped(file.bytes().first(4 * wrong), mutable_bytes(narrow).first(2 * wrong),
              conversion::f32_to_bf16);
}

TEST_CASE("a file system that does not map files is named as that") {
  const std::filesystem::path unmapped = "/sys/kernel/uevent_seqnum";
  if (!std::filesystem::exists(unmapped)) {
    WARN("there is no such file here");
    return;
  }
  CHECK_THAT(failure_of(unmapped).detail,
             Catch::Contains(unmapped.string()) && Catch::Contains("does not map files"));
}
